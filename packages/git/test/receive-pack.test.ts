import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { flush, packet } from '../src/pkt-line.ts';
import { readPushHead, reportOfRefusal, type PushHead } from '../src/receive-pack.ts';
import { smartType } from '../src/smart-http.ts';

const [none, one, two] = ['0'.repeat(40), '1'.repeat(40), '2'.repeat(40)];
const long = 'a'.repeat(64);
const read = (text: string): PushHead => readPushHead(Buffer.from(text));

describe('the beginning of a push', () => {
  it.each<[string, string, readonly object[], readonly string[]]>([
    [
      'a new branch, a change and a deletion',
      packet(`${none} ${one} refs/heads/new\0 report-status side-band-64k agent=git/2`) +
        packet(`${one} ${two} refs/heads/main`) +
        packet(`${two} ${none} refs/tags/v1\n`) +
        `${flush}PACK...`,
      [
        { name: 'refs/heads/new', from: undefined, to: one },
        { name: 'refs/heads/main', from: one, to: two },
        { name: 'refs/tags/v1', from: two, to: undefined },
      ],
      ['report-status', 'side-band-64k', 'agent=git/2'],
    ],
    [
      'one of a shallow clone',
      packet(`shallow ${one}`) + packet(`${one} ${two} refs/heads/main\0report-status`) + flush,
      [{ name: 'refs/heads/main', from: one, to: two }],
      ['report-status'],
    ],
    [
      'SHA-256',
      packet(`${long} ${'0'.repeat(64)} refs/heads/main\0`) + flush,
      [{ name: 'refs/heads/main', from: long, to: undefined }],
      [],
    ],
    ['no command, to try out a credential', flush, [], []],
  ])('is understood: %s', (_what, text, updates, capabilities) => {
    expect(read(text)).toEqual({
      kind: 'commands',
      updates,
      capabilities: new Set(capabilities),
    });
  });

  it('is incomplete up to the flush packet', () => {
    const text = packet(`${one} ${two} refs/heads/main\0report-status`) + flush;
    for (let length = 0; length < text.length; length += 1)
      expect(read(text.slice(0, length))).toEqual({ kind: 'incomplete' });
  });

  it.each([
    ['a page', '<html>'],
    ['a request of protocol version 2', packet('command=ls-refs\n') + '0001' + flush],
    ['a signed push', packet('push-cert\0report-status') + packet('certificate version 0.1\n')],
    ['a command without a name', packet(`${one} ${two} `) + flush],
    ['a command with one commit', packet(`${one} refs/heads/main`) + flush],
  ])('is none: %s', (_what, text) => {
    expect(read(text)).toEqual({ kind: 'unreadable' });
  });
});

describe('a push that is refused', () => {
  const folder = mkdtempSync(join(tmpdir(), 'receive-pack-'));
  const git = (...args: readonly string[]): void => {
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@localhost', ...args], {
      cwd: folder,
      stdio: 'pipe',
    });
  };
  let capabilities = '';
  let push: PushHead | undefined;
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const service = 'git-receive-pack';
    if (request.method === 'GET') {
      response.setHeader('content-type', smartType(service, 'advertisement'));
      response.end(
        packet(`# service=${service}\n`) +
          flush +
          packet(`${none} capabilities^{}\0${capabilities}\n`) +
          flush,
      );
      return;
    }
    push = readPushHead(await buffer(request));
    if (push.kind !== 'commands') throw new Error(`the push is ${push.kind}`);
    response.setHeader('content-type', smartType(service, 'result'));
    response.end(reportOfRefusal(push, ({ name }) => `nöt ${name} today`));
  };
  const server = createServer((request, response) => void answer(request, response));

  beforeAll(async () => {
    git('init', '-q', '-b', 'main');
    git('commit', '-q', '--allow-empty', '-m', 'one');
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  afterAll(async () => {
    server.close();
    await once(server, 'close');
    rmSync(folder, { recursive: true, force: true });
  });

  const pushed = async (...references: readonly string[]): Promise<string> => {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/a/b.git`;
    const child = spawn('git', ['push', '--no-progress', url, ...references], {
      cwd: folder,
      env: { PATH: process.env['PATH'], HOME: folder, GIT_TERMINAL_PROMPT: '0', LC_ALL: 'C' },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const [stderr] = await Promise.all([buffer(child.stderr), once(child, 'close')]);
    return stderr.toString();
  };

  it.each([
    'report-status',
    'report-status side-band-64k',
    'report-status-v2 side-band-64k object-format=sha1 delete-refs',
  ])('says so to git with %s', async (offered) => {
    capabilities = offered;
    expect(await pushed('main', 'main:refs/heads/other')).toMatch(
      /main -> main \(nöt refs\/heads\/main today\)\n.*main -> other \(nöt refs\/heads\/other today\)/,
    );
    expect(push).toMatchObject({
      updates: [
        { name: 'refs/heads/main', from: undefined },
        { name: 'refs/heads/other', from: undefined },
      ],
    });
  });

  it('says so for more references than one packet holds', async () => {
    capabilities = 'report-status side-band-64k';
    const names = Array.from({ length: 400 }, (_, index) => `${'long-'.repeat(20)}${index}`);
    const text = await pushed(...names.map((name) => `main:refs/heads/${name}`));
    expect(text.match(/\[remote rejected\]/g)).toHaveLength(names.length);
  });

  it('says nothing to a client that wants no report', () => {
    const head = read(packet(`${none} ${one} refs/heads/new\0`) + flush);
    if (head.kind !== 'commands') throw new Error(head.kind);
    expect(reportOfRefusal(head, () => 'no')).toHaveLength(0);
  });
});
