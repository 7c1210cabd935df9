import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { silentLogger } from '@conversation-operator/base/logger';
import type { Refs } from '@conversation-operator/git/ref-list';
import { IndexedStore } from '@conversation-operator/kube/store';
import { SandboxKeys } from '../../../../src/agent/keys.ts';
import { gitBudget, GitHandler } from '../../../../src/gateway/git/git-handler.ts';
import type { PushRecords } from '../../../../src/gateway/git/push-records.ts';
import { basicAuthorization } from '../../../../src/gateway/git/hosts.ts';
import type { HostAnswer } from '../../../../src/gateway/git/private-host.ts';
import { gatewayIndexers } from '../../../../src/gateway/lookup/cache.ts';
import { createMetrics } from '../../../../src/observability/metrics.ts';
import type { CachedConversation } from '../../../../src/resources/cached-conversation.ts';
import type { Conversation } from '../../../../src/resources/conversation.ts';
import { gitSettingsSchema } from '../../../../src/resources/git-settings.ts';
import type { SandboxTemplate } from '../../../../src/resources/sandbox-template.ts';
import { aConversation, aSandbox, aTemplate } from '../../../support/builders.ts';
import { quietCache } from '../../../support/gateway/quiet-cache.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const keys = new SandboxKeys([Buffer.alloc(32, 7)]);
const settings = (git: object = {}) => gitSettingsSchema.parse(git);

interface Wish {
  /** Repositories of the conversations in the sandbox; undefined: a conversation has none. */
  readonly repositories?: readonly (Conversation['spec']['repository'] | undefined)[];
  /** Settings of the template; undefined: it has none. Null: there is no template. */
  readonly git?: object | undefined | null;
  readonly deleting?: boolean;
  readonly defaultProvider?: string | undefined;
  /** The branches of the host; undefined: the host does not say. */
  readonly refs?: Refs | undefined;
}

const main = { name: 'main', commitSha: '1'.repeat(40) };

/** A line of git's protocol. */
const line = (text: string): string => (text.length + 4).toString(16).padStart(4, '0') + text;
const [zeros, ones, twos] = ['0', '1', '2'].map((digit) => digit.repeat(40));

/** A sandbox, and what reaches the git host of its requests. */
function aSandboxAtWork(wish: Wish = {}) {
  const { repositories = [{ name: 'acme/shop' }], deleting = false } = wish;
  const git = 'git' in wish ? wish.git : settings();
  const defaultProvider = 'defaultProvider' in wish ? wish.defaultProvider : 'forgejo';
  const refs = 'refs' in wish ? wish.refs : { branches: [main], defaultBranch: 'main' };
  const clock = new VirtualClock();
  const sandbox = aSandbox({ deleting });
  const conversations = new IndexedStore<CachedConversation>(gatewayIndexers.conversations);
  for (const [index, repository] of repositories.entries())
    conversations.set(
      aConversation({
        name: `c-${index}`,
        spec: { repository },
        status: {
          sandboxName: sandbox.metadata.name,
          sandboxUID: sandbox.metadata.uid,
          start: { status: 'READY', transitions: [] },
        },
      }),
    );
  const templates = new IndexedStore<SandboxTemplate>({});
  if (git !== null) templates.set(aTemplate(git === undefined ? {} : ({ git } as object)));
  const passed: string[] = [];
  const refused: Parameters<PushRecords['refuse']>[0][] = [];
  const pass =
    (what: string) =>
    ({ provider, repository }: { readonly provider: string; readonly repository: string }) => {
      passed.push(`${what} ${provider} ${repository}`);
      return Promise.resolve<HostAnswer>({ kind: 'denied' });
    };
  const handler = new GitHandler({
    keys,
    clock,
    logger: silentLogger,
    metrics: createMetrics(),
    defaultProvider,
    host: {
      advertisement: pass('references'),
      pack: async (wanted, body) => {
        for await (const _piece of body);
        return pass('service')(wanted);
      },
      branches: ({ repository }) =>
        Promise.resolve(
          refs && { ...refs, repository, location: new URL(`https://git.example/${repository}`) },
        ),
    },
    records: {
      take: () => Promise.resolve(true),
      begin: (push) => Promise.resolve({ id: 'push', ...push }),
      end: () => Promise.resolve(),
      refuse: (push) => void refused.push(push),
    },
    conversations: quietCache(conversations),
    templates: quietCache(templates),
  });

  let status = 0;
  let text = '';
  /** Sends a request with the token of the sandbox; returns the calls that reach the git host. */
  const send = async (
    method: string,
    path: string,
    {
      query = '',
      body = '',
      token = keys.gitToken(sandbox.metadata.uid),
      dripMs = 0,
      headers = {},
    } = {},
  ): Promise<readonly string[]> => {
    const request = new IncomingMessage(new Socket());
    request.method = method;
    request.headers = { authorization: basicAuthorization('agent', token), ...headers };
    request.push(body);
    const drip = () => {
      if (request.destroyed) return;
      request.push('x');
      clock.after(dripMs, drip);
    };
    if (dripMs > 0) clock.after(dripMs, drip);
    else request.push(null);
    const response = new ServerResponse(request);
    response.end = (sent) => {
      text = String(sent);
      return response;
    };
    await handler.handle({
      request,
      response,
      origin: { requestId: 'r', client: '10.0.0.7' },
      sandbox,
      path: path.split('/'),
      query: new URLSearchParams(query),
      signal: new AbortController().signal,
      countFor: () => undefined,
    });
    status = response.statusCode;
    return passed;
  };
  const read = (repository: string) =>
    send('GET', `${repository}.git/info/refs`, { query: 'service=git-upload-pack' });
  const beginPush = (repository: string) =>
    send('GET', `${repository}.git/info/refs`, { query: 'service=git-receive-pack' });
  const push = (branch: string) => {
    const body = `${line(`${zeros} ${twos} refs/heads/${branch}\0report-status`)}0000`;
    return send('POST', 'forgejo/acme/shop.git/git-receive-pack', { body });
  };
  return {
    read,
    beginPush,
    push,
    send,
    clock,
    refused,
    lastStatus: () => status,
    lastText: () => text,
  };
}

/** Each row is a sandbox to which the private repository acme/lib of the host forgejo is closed. */
describe.each<[string, Wish]>([
  ['no conversation', { repositories: [], git: settings({ readable: ['acme/lib'] }) }],
  [
    'a conversation without a repository',
    { repositories: [undefined], git: settings({ readable: ['acme/lib'] }) },
  ],
  [
    'a conversation without a repository, and no default host',
    {
      repositories: [undefined],
      defaultProvider: undefined,
      git: settings({ readable: ['acme/lib'] }),
    },
  ],
  [
    'a conversation whose repository is on another host',
    {
      repositories: [{ name: 'acme/shop', provider: 'github' }],
      git: settings({ readable: ['acme/lib'] }),
    },
  ],
  [
    'a conversation about the repository of this name on another host',
    { repositories: [{ name: 'acme/lib', provider: 'github' }] },
  ],
  [
    'a conversation whose repository is on the default host, which is another one',
    { defaultProvider: 'github', git: settings({ readable: ['acme/lib'] }) },
  ],
  [
    'a conversation about the repository on the default host, which is another one',
    { repositories: [{ name: 'acme/lib' }], defaultProvider: 'github' },
  ],
  ['a template that names no repository', { git: settings() }],
  ['a template with an empty list', { git: settings({ readable: [] }) }],
  ['a template that names another one', { git: settings({ readable: ['acme/lib2', 'acme/li'] }) }],
  ['a template without settings of git', { git: undefined }],
  ['no template', { git: null }],
  [
    'a deletion under way',
    {
      repositories: [{ name: 'acme/lib' }],
      git: settings({ readable: ['acme/lib'] }),
      deleting: true,
    },
  ],
])('a sandbox with %s', (_sentence, wish) => {
  it('neither reads nor pushes the repository', async () => {
    const { read, beginPush } = aSandboxAtWork(wish);
    expect(await read('forgejo/acme/lib')).toEqual([]);
    expect(await beginPush('forgejo/acme/lib')).toEqual([]);
  });
});

it.each<[string, Wish, string]>([
  ['of a conversation', {}, 'forgejo/acme/shop'],
  [
    'of one conversation among others',
    { repositories: [undefined, { name: 'acme/shop', provider: 'github' }, { name: 'acme/shop' }] },
    'forgejo/acme/shop',
  ],
  ['of a conversation without a template', { git: null }, 'forgejo/acme/shop'],
  [
    'that the template names',
    { repositories: [undefined, { name: 'acme/shop' }], git: settings({ readable: ['acme/lib'] }) },
    'forgejo/acme/lib',
  ],
])('a sandbox reads the repository %s', async (_sentence, wish, repository) => {
  const { read } = aSandboxAtWork(wish);
  expect(await read(repository)).toEqual([`references ${repository.replace('/', ' ')}`]);
});

it.each<[string, Wish, boolean]>([
  ['the template allows it', {}, true],
  ['the template was stored before it could say so', { git: undefined }, true],
  ['there is no template', { git: null }, false],
  ['the template forbids it', { git: settings({ push: { enabled: false } }) }, false],
  [
    'the repository is one that the template lets sandboxes read',
    { repositories: [{ name: 'acme/app' }], git: settings({ readable: ['acme/shop'] }) },
    false,
  ],
])('where %s, a push begins: %s', async (_sentence, wish, begins) => {
  const { beginPush } = aSandboxAtWork(wish);
  const passed = await beginPush('forgejo/acme/shop');
  expect(passed).toEqual(begins ? ['references forgejo acme/shop'] : []);
});

/** The policy allows each branch, so that the default branch alone is closed. */
const anyBranch = settings({ push: { branches: ['*'] } });
const agentBranch = { name: 'agent/fix', commitSha: '2'.repeat(40) };

it.each<[string, Refs | undefined, string, boolean]>([
  ['names its default branch', { branches: [main], defaultBranch: 'main' }, 'agent/x', true],
  ['names the branch as its default', { branches: [main], defaultBranch: 'main' }, 'main', false],
  ['gives no answer', undefined, 'agent/x', false],
  ['has no HEAD', { branches: [agentBranch], defaultBranch: undefined }, 'agent/x', false],
  [
    'has no HEAD and one branch more',
    { branches: [main], defaultBranch: undefined },
    'main',
    false,
  ],
  ['has no branches', { branches: [], defaultBranch: undefined }, 'main', true],
  // HEAD of an empty repository names a branch that does not exist: the first push makes it.
  ['has a HEAD without branches', { branches: [], defaultBranch: 'main' }, 'main', true],
])(
  'a push to a git host that %s passes only if it spares the default branch',
  async (_sentence, refs, branch, passes) => {
    const { push } = aSandboxAtWork({ git: anyBranch, refs });
    expect(await push(branch)).toEqual(passes ? ['service forgejo acme/shop'] : []);
  },
);

it.each(['', 'token', keys.gitToken('none'), keys.gitToken('uid-of-sbx-2')])(
  'the token %j opens nothing',
  async (token) => {
    const { send } = aSandboxAtWork();
    const query = 'service=git-upload-pack';
    expect(await send('GET', 'forgejo/acme/shop.git/info/refs', { query, token })).toEqual([]);
  },
);

it.each<[string, 'read' | 'beginPush' | 'push', boolean]>([
  ['reads of references', 'read', true],
  ['begun pushes', 'beginPush', true],
  ['pushes that are refused', 'push', false],
])('%s are bounded by the hour', async (_what, kind, reaches) => {
  const { read, beginPush, push, clock, lastStatus } = aSandboxAtWork();
  const ask = () =>
    kind === 'push' ? push('main') : { read, beginPush }[kind]('forgejo/acme/shop');
  for (let count = 0; count < gitBudget.perSandbox; count++) await clock.run(ask());
  expect(lastStatus()).not.toBe(429);
  const passed = (await clock.run(ask())).length;
  expect(lastStatus()).toBe(429);
  expect(passed).toBe(reaches ? gitBudget.perSandbox : 0);
  await clock.advance(3_600_000);
  await clock.run(ask());
  expect(lastStatus()).not.toBe(429);
});

const creation = `${line(`${zeros} ${twos} refs/heads/agent/x\0report-status`)}0000`;
it.each<[string, string, string]>([
  ['commands of a push', '/git-receive-pack', '0'],
  ['commits of a push', '/git-receive-pack', creation.replace(String(zeros), String(ones))],
  ['objects of a push', '/git-receive-pack', creation],
  ['rest of a refused push', '/git-receive-pack', creation.replace('agent/x', 'agents/')],
  ['rest of a malformed push', '/git-receive-pack', 'garbage'],
  ['body of a fetch', '/git-upload-pack', ''],
])('the %s must not arrive byte by byte, because others wait for the place', async (...row) => {
  const [, service, body] = row;
  const { send, clock } = aSandboxAtWork();
  const sent = send('POST', `forgejo/acme/shop.git${service}`, { body, dripMs: 60_000 });
  await clock.run(sent, 300_000);
  await clock.advance(60_000);
  expect(clock.timers).toBe(0);
});

const withOptions = (capabilities: string) =>
  `${line(`${zeros} ${twos} refs/heads/agent/x\0${capabilities} push-options`)}0000${line('repo.private=false')}0000`;
const noPushes = settings({ push: { enabled: false } });
const [refs, options] = [['refs/heads/agent/x'], ['repo.private=false']];

interface RefusedRow {
  readonly wish?: Wish;
  readonly repository?: string;
  readonly body?: string;
  readonly headers?: object;
  readonly refs?: readonly string[];
  readonly options?: readonly string[];
  readonly says: string;
}

it.each<[string, RefusedRow]>([
  [
    'with options and without a report',
    { body: withOptions('ofs-delta'), refs, options, says: 'report' },
  ],
  [
    'with options and a report',
    { body: withOptions('report-status'), refs, options, says: 'push options' },
  ],
  [
    'with options where pushes are not allowed',
    { wish: { git: noPushes }, body: withOptions('ofs-delta'), refs, options, says: 'not allowed' },
  ],
  ['where pushes are not allowed', { wish: { git: noPushes }, body: creation, refs, says: 'here' }],
  ['where there is no template', { wish: { git: null }, body: creation, refs, says: 'here' }],
  [
    'that only probes where none is allowed',
    { wish: { git: noPushes }, body: '0000', refs: [], says: 'here' },
  ],
  [
    'to the repository of no conversation',
    { repository: 'acme/lib', body: creation, refs, says: 'No conversation' },
  ],
  ['that is malformed', { body: 'garbage', says: 'push' }],
  [
    'that is encoded',
    { body: creation, headers: { 'content-encoding': 'gzip' }, says: 'must not be encoded' },
  ],
])('a push %s is refused with what it names, and is in the audit', async (_what, row) => {
  const { wish, repository = 'acme/shop', body = '', headers = {}, says } = row;
  const { send, refused, lastText } = aSandboxAtWork(wish);
  const path = `forgejo/${repository}.git/git-receive-pack`;
  expect(await send('POST', path, { body, headers })).toEqual([]);
  for (const text of [says, ...(row.options ?? [])]) expect(lastText()).toContain(text);
  const [only, ...others] = refused;
  expect(others).toEqual([]);
  expect(only).toMatchObject({ address: { provider: 'forgejo', repository } });
  expect(only?.push?.commands.map(({ ref }) => ref)).toEqual(row.refs);
  expect(only?.push?.options).toEqual(row.options);
  expect(only?.reasons.join('; ')).toContain(says);
});

it.each<[string, Wish, string, string]>([
  ['where pushes are not allowed', { git: noPushes }, 'acme/shop', 'Pushes are not allowed here'],
  ['to the repository of no conversation', {}, 'acme/lib', 'No conversation in this sandbox'],
])('a push %s is in the audit at its beginning', async (_what, wish, repository, says) => {
  const { beginPush, refused, lastText } = aSandboxAtWork(wish);
  await beginPush(`forgejo/${repository}`);
  expect(lastText()).toContain(says);
  expect(refused).toMatchObject([
    { address: { repository }, reasons: [expect.stringContaining(says)] },
  ]);
});

it('leaves no timer and no place behind', async () => {
  const { read, push, clock } = aSandboxAtWork({ git: anyBranch });
  // More requests than one sandbox may have at once.
  for (let count = 0; count < 50; count++) await clock.run(read('forgejo/acme/shop'));
  for (let count = 0; count < 50; count++) await clock.run(push('agent/x'));
  expect(clock.timers).toBe(0);
});
