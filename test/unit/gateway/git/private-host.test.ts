import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { systemClock } from '@conversation-operator/base/clock';
import { silentLogger } from '@conversation-operator/base/logger';
import { directly } from '@conversation-operator/outward/outward';
import type { GitCredentials } from '../../../../src/gateway/git/hosts.ts';
import { ProblemError } from '../../../../src/gateway/errors/problem-error.ts';
import {
  PrivateHost,
  type HostAnswer,
  type Wanted,
} from '../../../../src/gateway/git/private-host.ts';

type Reply = (response: ServerResponse, request: IncomingMessage) => void;

/** An answer of git to the request, with a body that is longer than any buffer. */
const smart: Reply = (response, { url = '', method }) => {
  const service = url.includes('git-receive-pack') ? 'git-receive-pack' : 'git-upload-pack';
  const what = method === 'GET' ? 'advertisement' : 'result';
  response.writeHead(200, { 'content-type': `application/x-${service}-${what}` });
  response.end(Buffer.alloc(4 * 1024 * 1024));
};
const status =
  (code: number, headers: Record<string, string> = {}): Reply =>
  (response) =>
    response.writeHead(code, headers).end('text');
const hangUp: Reply = (_response, { socket }) => socket.destroy();

interface Repository {
  /** Answers requests without a credential. */
  readonly anonymous: Reply;
  /** Answers requests with the credential of alice. */
  readonly credential: Reply;
}

const open: Repository = { anonymous: smart, credential: smart };
const closed: Repository = { anonymous: status(401), credential: smart };

const authorization = 'Basic YWxpY2U6czNjcmV0';
/** Ends a test whose answer never comes, because a connection was not released. */
const patienceMs = 5_000;

let server: Server;
let host: PrivateHost;
let repositories: Readonly<Record<string, Repository>>;
let seen: string[];
let warnings: string[];

beforeEach(async () => {
  seen = [];
  warnings = [];
  server = createServer((request, response) => {
    const { url = '', method = '', headers } = request;
    const isAuthorized = headers.authorization === authorization;
    const name = /^\/(\w+\/\w+\/\w+)\.git\//.exec(url)?.[1] ?? '';
    seen.push(`${method} ${name}${isAuthorized ? ' with the credential' : ''}`);
    request.resume().once('end', () => {
      const repository = repositories[name];
      if (repository === undefined) response.writeHead(404).end();
      else repository[isAuthorized ? 'credential' : 'anonymous'](response, request);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const credentials: GitCredentials = {
    of: (owner, provider) =>
      Promise.resolve(
        owner === 'alice' && provider === 'forgejo'
          ? { authorization, token: 's3cret', name: 'alice' }
          : undefined,
      ),
  };
  host = new PrivateHost({
    outward: directly,
    credentials,
    clock: systemClock,
    logger: { ...silentLogger, warn: (message) => void warnings.push(message) },
    hosts: { forgejo: `${url}/forgejo`, github: `${url}/github` },
    // The next request waits for ever where the connection of an earlier one is not released.
    connections: 1,
  });
});
afterEach(async () => {
  await host.close();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const wanted = (wish: Partial<Wanted> = {}): Wanted => ({
  owner: 'alice',
  provider: 'forgejo',
  repository: 'acme/shop',
  headers: {},
  service: 'git-upload-pack',
  relaysOpen: true,
  signal: AbortSignal.timeout(patienceMs),
  ...wish,
});

/** The kind of an answer, as the gateway would send it to a sandbox; reads the body to its end. */
async function shown(answer: Promise<HostAnswer>): Promise<string> {
  const known = await answer;
  if (known.kind !== 'stream')
    return known.kind === 'failed' ? `failed: ${known.reason}` : known.kind;
  let bytes = 0;
  for await (const chunk of known.stream.body as AsyncIterable<Buffer>) bytes += chunk.length;
  return bytes > 0 ? 'stream' : 'empty stream';
}
const refs = (wish?: Partial<Wanted>) => shown(host.advertisement(wanted(wish)));
const pack = (wish?: Partial<Wanted>) => shown(host.pack(wanted(wish), Readable.from(['0000'])));

const asked = 'GET forgejo/acme/shop';
const askedWith = `${asked} with the credential`;

describe.each<[string, Reply, Reply, string, readonly string[]]>([
  ['gives git to everyone', smart, smart, 'stream', [asked, asked]],
  ['gives git to its readers', status(401), smart, 'stream', [asked, askedWith]],
  ['hides the repository from others', status(404), smart, 'stream', [asked, askedWith]],
  [
    'shows others a page to sign in',
    status(200, { 'content-type': 'text/html; charset=utf-8' }),
    smart,
    'stream',
    [asked, askedWith],
  ],
  [
    'leads others to a page to sign in',
    status(302, { location: '/login' }),
    smart,
    'stream',
    [asked, askedWith],
  ],
  ['is out of order for others', status(503), smart, 'stream', [asked, askedWith]],
  ['has no such repository', status(404), status(404), 'denied', [asked, askedWith]],
  ['refuses the credential', status(401), status(401), 'denied', [asked, askedWith]],
  ['forbids it', status(401), status(403), 'denied', [asked, askedWith]],
  ['fails', status(500), status(500), 'failed: status 500', [asked, askedWith]],
  [
    'answers with another media type',
    status(401),
    status(200),
    'failed: no smart HTTP',
    [asked, askedWith],
  ],
])('a host that %s', (_sentence, anonymous, credential, expected, requests) => {
  it('gets the credential of a reader only where it refuses the request without one', async () => {
    repositories = { 'forgejo/acme/shop': { anonymous, credential } };
    expect(await refs()).toBe(expected);
    expect(seen).toEqual(requests);
  });

  it('keeps no connection, however its answer is used', async () => {
    repositories = { 'forgejo/acme/shop': { anonymous, credential }, 'forgejo/acme/other': closed };
    const uses = [refs, pack, () => pack({ repository: 'acme/other' })];
    for (const use of [...uses, ...uses, ...uses]) expect(await use()).not.toBe('failed: timeout');
    expect(await refs({ repository: 'acme/other' })).toBe('stream');
  });
});

it.each<[string, Partial<Wanted>, Repository, string, readonly string[]]>([
  ['a read of an open repository', {}, open, 'stream', [asked, asked]],
  ['a read that a clone without the gateway serves', { relaysOpen: false }, open, 'open', [asked]],
  [
    'a read for a clone with the credential',
    { relaysOpen: false },
    closed,
    'stream',
    [asked, askedWith],
  ],
  ['a read without a credential', { owner: 'bob' }, closed, 'denied', [asked, asked]],
  ['a read of what is open without a credential', { owner: 'bob' }, open, 'stream', [asked, asked]],
  [
    'a read for a clone without a credential',
    { owner: 'bob', relaysOpen: false },
    closed,
    'open',
    [],
  ],
  ['a push', { service: 'git-receive-pack' }, open, 'stream', [askedWith]],
  [
    'a push without a credential',
    { service: 'git-receive-pack', owner: 'bob' },
    open,
    'locked',
    [],
  ],
  [
    'a push to a host for which the owner has no credential',
    { service: 'git-receive-pack', provider: 'github' },
    open,
    'locked',
    [],
  ],
  ['a read from a host that is not configured', { provider: 'gitlab' }, open, 'open', []],
  [
    'a push to a host that is not configured',
    { service: 'git-receive-pack', provider: 'gitlab' },
    open,
    'locked',
    [],
  ],
])('%s', async (_sentence, wish, repository, expected, requests) => {
  repositories = { 'forgejo/acme/shop': repository, 'github/acme/shop': repository };
  expect(await refs(wish)).toBe(expected);
  expect(seen).toEqual(requests);
});

it('reports a host that hangs up as failed, in one word', async () => {
  repositories = { 'forgejo/acme/shop': { anonymous: hangUp, credential: hangUp } };
  expect(await refs()).toMatch(/^failed: \w+$/);
});

it('whose body breaks off at the sandbox is no failure of the host', async () => {
  repositories = { 'forgejo/acme/shop': closed };
  const tooLarge = new ProblemError('body-too-large', 'The request is too large.');
  const body = Readable.from(
    (function* () {
      yield Buffer.alloc(1024);
      throw tooLarge;
    })(),
    { objectMode: false },
  );
  await expect(host.pack(wanted(), body)).rejects.toBe(tooLarge);
  expect(warnings).toEqual([]);
});

describe('a pack', () => {
  const packed = 'POST forgejo/acme/shop';

  it.each<[string, Repository, readonly string[]]>([
    ['without the credential', open, [asked, asked, packed]],
    ['with the credential', closed, [asked, askedWith, `${packed} with the credential`]],
  ])('is read %s, as the references were', async (_sentence, repository, requests) => {
    repositories = { 'forgejo/acme/shop': repository };
    expect([await refs(), await pack()]).toEqual(['stream', 'stream']);
    expect(seen).toEqual(requests);
  });

  it('from one host gets no use of what was found on another one', async () => {
    repositories = { 'forgejo/acme/shop': open, 'github/acme/shop': closed };
    expect(await refs({ owner: 'bob' })).toBe('stream');
    seen = [];
    expect(await pack({ owner: 'bob', provider: 'github' })).toBe('denied');
    expect(seen).toEqual(['GET github/acme/shop', 'GET github/acme/shop']);
  });

  it('of a repository whose references another replica has read is found first', async () => {
    repositories = { 'forgejo/acme/shop': closed };
    expect(await pack()).toBe('stream');
    expect(seen).toEqual([asked, askedWith, `${packed} with the credential`]);
  });

  /** The findings of the first request open nothing in the second one. */
  it.each<[string, Partial<Wanted>, string, readonly string[]]>([
    ['of another owner', { owner: 'bob' }, 'denied', [asked, asked]],
    [
      'from the host of another name',
      { provider: 'github' },
      'denied',
      ['GET github/acme/shop', 'GET github/acme/shop'],
    ],
    [
      'of another repository',
      { repository: 'acme/hidden' },
      'denied',
      ['GET forgejo/acme/hidden', 'GET forgejo/acme/hidden with the credential'],
    ],
    [
      'that is pushed',
      { service: 'git-receive-pack' },
      'stream',
      [askedWith, `${packed} with the credential`],
    ],
  ])('%s gets no use of what was found before', async (_sentence, wish, expected, requests) => {
    repositories = { 'forgejo/acme/shop': closed, 'github/acme/shop': closed };
    expect(await refs()).toBe('stream');
    seen = [];
    expect(await pack(wish)).toBe(expected);
    expect(seen).toEqual(requests);
  });
});

it('knows no branches of a host that is not configured, and none where the host gives none', async () => {
  repositories = { 'forgejo/acme/shop': { anonymous: smart, credential: status(500) } };
  const { service: _service, headers: _headers, relaysOpen: _open, ...asker } = wanted();
  expect(await host.branches({ ...asker, provider: 'gitlab' })).toBe(undefined);
  expect(seen).toEqual([]);
  expect(await host.branches(asker)).toBe(undefined);
  expect(seen).toEqual([askedWith]);
});
