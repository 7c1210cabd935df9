import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SandboxKeys, type RepositoryAddress } from '../../../src/agent/keys.ts';
import {
  createCallbackServer,
  type CallbackServer,
} from '../../../src/gateway/callback-server/callback-server.ts';
import { GitHandler } from '../../../src/gateway/git/git-handler.ts';
import { basicAuthorization, type GitCredentials } from '../../../src/gateway/git/hosts.ts';
import { PrivateHost } from '../../../src/gateway/git/private-host.ts';
import { gatewayIndexers } from '../../../src/gateway/lookup/cache.ts';
import { systemClock } from '@conversation-operator/base/clock';
import { IndexedStore } from '@conversation-operator/kube/store';
import { silentLogger } from '@conversation-operator/base/logger';
import { directly } from '@conversation-operator/outward/outward';
import { createMetrics } from '../../../src/observability/metrics.ts';
import type { CachedConversation } from '../../../src/resources/cached-conversation.ts';
import type { StartStatus } from '../../../src/resources/conversation-status.ts';
import type { Sandbox } from '../../../src/resources/sandbox.ts';
import type { SandboxTemplate } from '../../../src/resources/sandbox-template.ts';
import { aConversation, aSandbox } from '../../support/builders.ts';
import { eventually } from '../../support/eventually.ts';
import { quietCache } from '../../support/gateway/quiet-cache.ts';
import { GitServer } from '../../support/git-server.ts';
import { HeldClock } from '../../support/held-clock.ts';

const folder = mkdtempSync(join(tmpdir(), 'git-clone-'));
const keys = new SandboxKeys([Buffer.alloc(32, 7)]);
const secret = 'bot:s3cret';
/** Maximum time of a transfer without a byte, which passes only when a test says so. */
const idleMs = 2_000;
const maxBodyBytes = 64 * 1024;
const clock = new HeldClock(idleMs);
const hour = () => Date.now() + 3_600_000;

const sandboxes = new IndexedStore<Sandbox>(gatewayIndexers.sandboxes);
const conversations = new IndexedStore<CachedConversation>(gatewayIndexers.conversations);
const credentials = new Map([['alice', secret]]);
const byOwner: GitCredentials = {
  of: (owner) => {
    const own = credentials.get(owner);
    return Promise.resolve(
      own === undefined
        ? undefined
        : { authorization: basicAuthorization(...halves(own)), token: halves(own)[1], name: owner },
    );
  },
};
const halves = (text: string): [string, string] => [
  text.slice(0, text.indexOf(':')),
  text.slice(text.indexOf(':') + 1),
];

interface PrepareWish {
  readonly owner?: string;
  readonly repository?: string;
  readonly status?: StartStatus;
}

/** A sandbox in which a conversation of the owner begins with the repository. */
function prepare(
  name: string,
  {
    owner = 'alice',
    repository = 'acme/secret',
    status = 'PREPARING_REPOSITORY',
  }: PrepareWish = {},
): Sandbox {
  const sandbox = aSandbox({ name, owner });
  sandboxes.set(sandbox);
  conversations.set(
    aConversation({
      name: `conversation-of-${name}`,
      spec: { owner, repository: { name: repository } },
      status: {
        sandboxName: name,
        sandboxUID: sandbox.metadata.uid,
        start: { status, transitions: [] },
      },
    }),
  );
  return sandbox;
}

let host: GitServer;
let elsewhere: GitServer;
let hosts: Record<string, string>;
let privateHost: PrivateHost;
let side: CallbackServer;
let url: string;
beforeAll(async () => {
  const many = join(folder, 'many');
  const git = (...args: string[]) =>
    execFileSync(
      'git',
      ['-c', 'user.name=t', '-c', 'user.email=t@localhost', '-C', many, ...args],
      { stdio: 'pipe' },
    );
  execFileSync('git', ['init', '-q', '-b', 'main', many]);
  for (let each = 0; each < 60; each += 1) {
    git('checkout', '-q', '--orphan', `branch-${each}`);
    git('commit', '-q', '--allow-empty', '-m', String(each));
  }
  git('branch', 'main');
  const repositories = {
    'acme/secret': { from: many },
    'acme/other': {},
    'acme/open': {},
    'acme/locked': {},
  };
  const readers = {
    'acme/secret': [secret],
    'acme/other': [secret],
    'acme/locked': ['another:user'],
  };
  host = await GitServer.start({ prefix: '/scm', repositories, readers });
  elsewhere = await GitServer.start({ prefix: '/scm', repositories });
  hosts = { forgejo: host.url };
  privateHost = new PrivateHost({
    outward: directly,
    hosts,
    credentials: byOwner,
    connections: 8,
    clock: systemClock,
    logger: silentLogger,
  });
  const handler = new GitHandler({
    host: privateHost,
    keys,
    conversations: quietCache(conversations),
    defaultProvider: 'forgejo',
    templates: quietCache(new IndexedStore<SandboxTemplate>({})),
    records: {
      take: () => Promise.resolve(true),
      begin: () => Promise.reject(new Error('no push')),
      end: () => Promise.resolve(),
      refuse: () => undefined,
    },
    limits: { idleMs, lagMs: 500, maxBodyBytes },
    clock,
    logger: silentLogger,
    metrics: createMetrics(),
  });
  side = createCallbackServer({
    handlers: [handler],
    sandboxes: quietCache(sandboxes),
    namespace: 'default',
    host: '127.0.0.1',
    port: 0,
    clock: systemClock,
    logger: silentLogger,
    metrics: createMetrics(),
  });
  url = `http://127.0.0.1:${(await side.listen()).port}`;
});
afterEach(() => {
  host.faults.clear();
  host.gates.clear();
  host.taken();
});
afterAll(async () => {
  await side.close();
  await privateHost.close();
  await Promise.all([host.stop(), elsewhere.stop()]);
  rmSync(folder, { recursive: true, force: true });
});

const grantOf = (repository = 'acme/secret', provider = 'forgejo'): RepositoryAddress => ({
  provider,
  repository,
});
const ticketOf = (sandbox: Sandbox, grant = grantOf(), endMs = hour()) =>
  keys.cloneTicket(sandbox.metadata.uid, grant, endMs);
const ask = (
  sandbox: string,
  ticket: string,
  { repository = 'acme/secret', what = 'info/refs?service=git-upload-pack', method = 'GET' } = {},
) =>
  fetch(`${url}/git/${sandbox}/forgejo/${repository}.git/${what}`, {
    method,
    headers: { authorization: `Bearer ${ticket}`, 'git-protocol': 'version=2' },
    ...(method === 'POST' ? { body: '0000' } : {}),
  });

/** Clones as the operator's script does, with the real client. */
async function clone(sandbox: Sandbox, repository = 'acme/secret', ...more: string[]) {
  const to = mkdtempSync(join(folder, 'tree-'));
  const base = `${url}/git/${sandbox.metadata.name}/forgejo/${repository}.git`;
  const child = spawn(
    'git',
    ['clone', '--quiet', ...more, '--', `${host.url}/${repository}.git`, join(to, 'tree')],
    {
      env: {
        PATH: process.env['PATH'],
        HOME: to,
        GIT_TERMINAL_PROMPT: '0',
        GIT_CONFIG_NOSYSTEM: '1',
        LC_ALL: 'C',
        GIT_CONFIG_COUNT: '3',
        GIT_CONFIG_KEY_0: `url.${base}.insteadOf`,
        GIT_CONFIG_VALUE_0: `${host.url}/${repository}.git`,
        GIT_CONFIG_KEY_1: `http.${base}.extraHeader`,
        GIT_CONFIG_VALUE_1: `Authorization: Bearer ${ticketOf(sandbox, grantOf(repository))}`,
        GIT_CONFIG_KEY_2: 'http.followRedirects',
        GIT_CONFIG_VALUE_2: 'false',
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null];
  return { code, signal, stderr, tree: join(to, 'tree') };
}

describe('a private repository', () => {
  it('is cloned with a ticket, from a URL that stays the real one, with packed requests, and nothing of it left', async () => {
    const { code, stderr, tree } = await clone(prepare('sbx-clone'));
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(
      spawnSync('git', ['-C', tree, 'branch', '-r']).stdout.toString().trim().split('\n'),
    ).toHaveLength(62);
    const config = readFileSync(join(tree, '.git', 'config'), 'utf8');
    expect(config).toContain(`url = ${host.url}/acme/secret.git\n`);
    expect(config).not.toMatch(/Bearer|extraHeader|s3cret/i);
    const taken = host.taken();
    expect(taken.map(({ protocol }) => protocol)).toEqual(taken.map(() => 'version=2'));
    // Once without: it could have been open.
    expect(taken.map(({ authorization }) => authorization !== undefined)).toEqual([
      false,
      true,
      ...taken.slice(2).map(() => true),
    ]);
  });

  it('is cloned shallowly, and by the older protocol', async () => {
    const sandbox = prepare('sbx-shallow');
    expect(
      await clone(sandbox, 'acme/secret', '--depth', '1', '--branch', 'branch-7'),
    ).toMatchObject({ code: 0 });
    expect(await clone(sandbox, 'acme/secret', '-c', 'protocol.version=0')).toMatchObject({
      code: 0,
    });
  });

  it('is followed within its host when it was renamed, and nowhere else', async () => {
    const sandbox = prepare('sbx-renamed', { repository: 'acme/old' });
    const redirect = (to: string) =>
      host.faults.set('acme/old', ({ url: asked = '' }, response) => {
        response
          .writeHead(301, {
            location: asked.replace('/scm', to).replace('/old.git', '/secret.git'),
          })
          .end();
      });
    redirect(host.url);
    expect(await clone(sandbox, 'acme/old')).toMatchObject({ code: 0 });
    redirect(elsewhere.url);
    const { code, stderr } = await clone(sandbox, 'acme/old');
    expect({ code, stderr }).toMatchObject({
      code: 128,
      stderr: expect.stringContaining('error: 502') as string,
    });
    expect(elsewhere.taken()).toEqual([]);
  });

  it.each([
    ['is denied', 'acme/locked', 403],
    ['is not there', 'acme/nothing', 403],
  ])('that %s by the host resembles any other that is', async (_sentence, repository, status) => {
    const sandbox = prepare(`sbx-${repository.replace('/', '-')}`, { repository });
    const answer = await ask(sandbox.metadata.name, ticketOf(sandbox, grantOf(repository)), {
      repository,
    });
    expect(answer.status).toBe(status);
    expect(await answer.text()).toBe(
      'There is no such repository, or the credential of its owner does not allow this\n',
    );
  });
});

describe('what needs no help', () => {
  it.each([
    ['an owner without a credential', { owner: 'bob' }, 0],
    ['a repository that everybody may read', { repository: 'acme/open' }, 1],
  ])('is left to the client: %s', async (_sentence, wish, asked) => {
    const { repository = 'acme/secret' } = wish as { repository?: string };
    const sandbox = prepare('sbx-open', wish);
    expect(
      (await ask('sbx-open', ticketOf(sandbox, grantOf(repository)), { repository })).status,
    ).toBe(404);
    const taken = host.taken();
    expect(taken).toHaveLength(asked);
    expect(taken.every(({ authorization }) => authorization === undefined)).toBe(true);
  });
});

describe('a ticket', () => {
  it('opens its repository while that is prepared', async () => {
    expect((await ask('sbx-good', ticketOf(prepare('sbx-good')))).status).toBe(200);
  });

  const right = () => ticketOf(prepare('sbx-right'));
  type Shown = NonNullable<Parameters<typeof ask>[2]> & { readonly sandbox?: string };
  it.each<[string, () => string, Shown]>([
    ['is missing', () => '', {}],
    ['is of another sandbox', () => ticketOf(prepare('sbx-another')), {}],
    ['is of another repository', () => ticketOf(prepare('sbx-right'), grantOf('acme/other')), {}],
    [
      'is of another provider',
      () => ticketOf(prepare('sbx-right'), grantOf('acme/secret', 'github')),
      {},
    ],
    ['is over', () => ticketOf(prepare('sbx-right'), grantOf(), Date.now() - 2000), {}],
    ['has got another end', () => right().replace(/^\d+/, (end) => String(Number(end) + 60)), {}],
    [
      'is of another master key',
      () =>
        new SandboxKeys([Buffer.alloc(32, 8)]).cloneTicket('uid-of-sbx-right', grantOf(), hour()),
      {},
    ],
    ['is the session key', () => keys.sessionKey(prepare('sbx-right').metadata.uid), {}],
    [
      'is for reading, and a client wants to push',
      right,
      { what: 'info/refs?service=git-receive-pack' },
    ],
    ['is for reading, and a client pushes', right, { what: 'git-receive-pack', method: 'POST' }],
    ['is shown for another repository', right, { repository: 'acme/other' }],
    ['is shown for a sandbox that is not there', right, { sandbox: 'sbx-none' }],
  ])('does not open anything when it %s', async (_sentence, ticket, what) => {
    prepare('sbx-right');
    const answer = await ask(what.sandbox ?? 'sbx-right', ticket(), what);
    expect(answer.status).toBe(403);
    expect(await answer.json()).toMatchObject({ code: 'clone-ticket-refused' });
    expect(host.taken()).toEqual([]);
  });

  it.each<[string, PrepareWish]>([
    ['before the step', { status: 'WAITING_FOR_SANDBOX' }],
    ['after it', { status: 'SETTING_UP_SKILLS' }],
    ['once the start is over', { status: 'READY' }],
    ['for a conversation with another repository', { repository: 'acme/other' }],
    ['for a conversation of another owner', { owner: 'bob' }],
  ])('does not open anything %s', async (_sentence, wish) => {
    const name = 'sbx-step';
    const sandbox = prepare(name, wish);
    if (wish.owner === 'bob') sandboxes.set(aSandbox({ name }));
    expect((await ask(name, ticketOf(sandbox))).status).toBe(403);
    expect(host.taken()).toEqual([]);
  });

  it('is good as soon as the cache has seen the step', async () => {
    const sandbox = prepare('sbx-lag', { status: 'WAITING_FOR_SANDBOX' });
    const answer = ask('sbx-lag', ticketOf(sandbox));
    setTimeout(() => prepare('sbx-lag'), 100);
    expect((await answer).status).toBe(200);
  });

  it.each([
    'HEAD',
    'objects/info/packs',
    'info/refs',
    'info/refs?service=git-upload-archive',
    'git-upload-pack?a=b',
  ])('has no use for %s', async (what) => {
    expect((await ask('sbx-right', right(), { what })).status).toBe(404);
  });
});

describe('a git host', () => {
  it('that stops in the middle holds no client for longer than the limit', async () => {
    const sandbox = prepare('sbx-slow');
    host.gates.set('acme/secret', new Promise(() => undefined));
    let isOver = false;
    const cloning = clone(sandbox).finally(() => (isOver = true));
    await eventually('the host has stopped', () => host.held > 0);
    await eventually('the clone is over', () => {
      clock.pass();
      return isOver;
    });
    const { code, signal, stderr } = await cloning;
    // git says so itself, or was just about to write to its helper that has.
    expect([128, 'SIGPIPE']).toContain(code ?? signal);
    expect(stderr).not.toContain('s3cret');
  });

  it.each<[string, Parameters<GitServer['faults']['set']>[1]]>([
    ['fails', (_request, response) => void response.writeHead(500).end('10.0.0.1 is broken')],
    [
      'answers with a page',
      (_request, response) =>
        void response.writeHead(200, { 'content-type': 'text/html' }).end('<p>Log in'),
    ],
    ['hangs up', (request) => void request.socket.destroy()],
  ])('that %s is said to, and no more', async (_sentence, fault) => {
    const sandbox = prepare('sbx-broken');
    host.faults.set('acme/secret', fault);
    const answer = await ask('sbx-broken', ticketOf(sandbox));
    expect(answer.status).toBe(502);
    expect(await answer.text()).toMatch(
      /^The git host can not be asked: (status 500|no smart HTTP|UND_ERR_SOCKET|ECONNRESET)\n$/,
    );
  });

  it('is not blamed for a request that is too large', async () => {
    const sandbox = prepare('sbx-large');
    const answer = await fetch(`${url}/git/sbx-large/forgejo/acme/secret.git/git-upload-pack`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ticketOf(sandbox)}` },
      body: Buffer.alloc(maxBodyBytes + 1),
    });
    expect(answer.status).toBe(413);
    expect(await answer.json()).toMatchObject({ code: 'body-too-large' });
  });

  it('that never answers a request is left', async () => {
    const sandbox = prepare('sbx-silent');
    let isAsked = false;
    host.faults.set('acme/secret', () => {
      isAsked = true;
      return undefined;
    });
    const answer = ask('sbx-silent', ticketOf(sandbox));
    await eventually('the host is asked', () => isAsked);
    clock.pass();
    expect(await (await answer).text()).toBe('The git host can not be asked: timeout\n');
  });
});
