import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  loginFile,
  loginOf,
  serverUrl,
  serviceOf,
  storeLogin,
} from '../../../src/plugin/service.ts';

let folder: string;
const before = { ...process.env };
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'logins-'));
  process.env['XDG_CONFIG_HOME'] = folder;
  delete process.env['CONVERSATION_OPERATOR_KEY'];
  delete process.env['CONVERSATION_OPERATOR_SERVER'];
});
afterEach(() => {
  process.env = { ...before };
  rmSync(folder, { recursive: true });
});

it.each([
  ['https://agents.example.com/', 'https://agents.example.com'],
  ['https://example.com/agents/', 'https://example.com/agents'],
  ['http://127.0.0.1:3000', 'http://127.0.0.1:3000'],
  ['http://localhost:3000', 'http://localhost:3000'],
  ['http://[::1]:3000', 'http://[::1]:3000'],
])('the server %s is accepted', (text, url) => {
  expect(serverUrl(text)).toBe(url);
});

it.each([
  ...['http://agents.example.com', 'http://127.0.0.1.example.com', 'agents.example.com', ''],
  ...['ftp://127.0.0.1', 'https://user:word@example.com', 'https://example.com/?a=b'],
])('the server %j is refused with what is allowed', (text) => {
  expect(() => serverUrl(text)).toThrow(
    `--server: '${text}' must be a URL like https://agents.example.com; http only for this machine`,
  );
});

const alice = { server: 'https://one.example.com', key: 'co_alice', owner: 'alice' };
const bob = { server: 'https://two.example.com', key: 'co_bob', owner: 'bob' };

it('a login is of its context, and only the person can read the file', async () => {
  await storeLogin('one', alice);
  const file = await storeLogin('two', bob);
  expect([await loginOf('one'), await loginOf('two'), await loginOf('three')]).toEqual([
    ...[alice, bob, undefined],
  ]);
  // A name of JavaScript is no context.
  expect(await loginOf('constructor')).toBeUndefined();
  expect(file).toBe(join(folder, 'conversation-operator', 'logins.json'));
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(statSync(join(file, '..')).mode & 0o777).toBe(0o700);
  expect(readdirSync(join(file, '..'))).toEqual(['logins.json']);
});

it('a damaged file is named, without its keys', async () => {
  await storeLogin('one', alice);
  const file = loginFile();
  writeFileSync(file, readFileSync(file, 'utf8').slice(0, -10));
  await expect(loginOf('one')).rejects.toThrow(
    `${file} is no file of logins: delete it, and log in again`,
  );
  await expect(loginOf('one')).rejects.not.toThrow('co_alice');
});

it('the key of a login goes to the server of that login alone', async () => {
  await storeLogin('one', alice);
  const { server, key } = alice;
  expect(await serviceOf(undefined, 'one')).toEqual({ server, key });
  expect(await serviceOf(`${server}/`, 'one')).toEqual({ server, key });
  expect(await serviceOf('https://other.example.com', 'one')).toBeUndefined();
  process.env['CONVERSATION_OPERATOR_KEY'] = 'co_own';
  expect(await serviceOf('https://other.example.com', 'one')).toEqual({
    server: 'https://other.example.com',
    key: 'co_own',
  });
});
