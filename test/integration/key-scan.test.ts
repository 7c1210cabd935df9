import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  filesWithKey,
  formsOfKey,
  objectsWithKey,
  sandboxProcesses,
  tracesInProcess,
} from '../support/key-scan.ts';

const key = 'llm-key-of/the+tests?';
const forms = formsOfKey(key);
const node = 'CONVERSATION_OPERATOR_NODE';

let folder: string;
const children: ChildProcess[] = [];
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'key-scan-'));
});
afterAll(() => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(folder, { recursive: true });
});

/** Starts a program of Node that waits, and resolves with its id once it has printed a line. */
async function start(program: string, env: Readonly<Record<string, string>> = {}) {
  const child = spawn(process.execPath, ['-e', `${program};setInterval(() => {}, 9999)`], {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(child);
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  return { pid: child.pid ?? 0, line: line.toString().trim() };
}

/** Makes the key in the memory of a process, whose arguments and environment do not have it. */
const made = Array.from(Buffer.from(key), (code) => code + 1).join();
const makeKey = `globalThis.held = [${made}].map((code) => String.fromCharCode(code - 1))`;

it.each([
  ['nothing', `console.log(1)`, {}, []],
  ['its environment', `console.log(1)`, { LLM: `x${key}` }, ['environ', 'mem']],
  ['its arguments', `'${key}';console.log(1)`, {}, ['cmdline', 'mem']],
  ['a buffer', `${makeKey};held = Buffer.from(held.join(''));console.log(1)`, {}, ['mem']],
  ['wide text', `${makeKey};held = held.join('') + '\\u2713';console.log(1)`, {}, ['mem']],
  ['base64', `${makeKey};held = btoa('ab' + held.join('') + 'c');console.log(1)`, {}, ['mem']],
])('a key is found in a process with it in %s', async (_place, program, env, found) => {
  const { pid } = await start(program, env);
  expect(tracesInProcess(pid, key)).toEqual(found.map((part) => `/proc/${pid}/${part}`));
});

it('the processes of a sandbox are those with its mark, and their children without an environment', async () => {
  const program = `const { spawn } = require('node:child_process');
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 9999)'], { env: {} });
    console.log(child.pid)`;
  const { pid, line } = await start(program, { [node]: 'of-the-test' });
  const found = sandboxProcesses({ agentProcesses: () => [pid] });
  process.kill(Number(line), 'SIGKILL');
  expect(found.toSorted()).toEqual([pid, Number(line)].toSorted());
});

it.each([
  ['as it is', key],
  ['in a URL', `https://x/?key=${encodeURIComponent(key)}&y`],
  ['in hex', Buffer.from(key).toString('hex')],
  ['backwards', key.split('').toReversed().join('')],
  ['in two halves, the second one first', `${key.slice(10)}${key.slice(0, 10)}`],
  ...['', 'a', 'ab'].map((before) => [
    `in base64 after ${before.length} bytes`,
    Buffer.from(`${before}${key}z`).toString('base64'),
  ]),
])('a key %s is found in a file of a nested folder, also of a hidden one', (_how, text) => {
  for (const place of ['a/b/c', '.config/.d']) {
    const path = join(folder, place, 'file');
    mkdirSync(join(folder, place), { recursive: true });
    writeFileSync(path, `\0\xff${text}\n`, 'latin1');
    expect(filesWithKey(folder, forms)).toEqual([path]);
    rmSync(path);
  }
  expect(filesWithKey(folder, forms)).toEqual([]);
});

it('a key is found in a Secret, an annotation and an Event, and not where there is none', () => {
  const item = (kind: string, more: object) => ({ kind, metadata: { name: 'a' }, ...more });
  const data = (text: string) => ({ data: { of: Buffer.from(text).toString('base64') } });
  const list = (...items: readonly object[]) => JSON.stringify({ items });
  const twice = Buffer.from(`in base64 ${key} twice`).toString('base64');
  for (const found of [
    item('Secret', data(key)),
    item('Secret', data(`before ${key}`)),
    item('Secret', data(twice)),
    item('Sandbox', { spec: { env: [{ value: key }] } }),
    item('Event', { message: `refuses ${encodeURIComponent(key)}` }),
  ])
    expect(objectsWithKey(list(item('Secret', data('other')), found), forms)).toEqual([
      `${found.kind} a`,
    ]);
});
