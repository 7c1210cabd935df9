import { checkedAudit } from '../../../support/checked-audit.ts';
import { silentLogger } from '@conversation-operator/base/logger';
import { IndexedStore } from '@conversation-operator/kube/store';
import { ProblemError } from '../../../../src/gateway/errors/problem-error.ts';
import type { HostApiErrorCode } from '../../../../src/gateway/git/host-api/host-api.ts';
import { hostApiBudget } from '../../../../src/gateway/pull-requests/host-access.ts';
import {
  detailsMs,
  PullRequests,
  type PullRequestRequest,
} from '../../../../src/gateway/pull-requests/pull-requests.ts';
import { createMetrics } from '../../../../src/observability/metrics.ts';
import { cachedConversation } from '../../../../src/resources/cached-conversation.ts';
import { conversations, type ConversationSpec } from '../../../../src/resources/conversation.ts';
import { gitSettingsSchema, type PushRecord } from '../../../../src/resources/git-settings.ts';
import type { SandboxTemplate } from '../../../../src/resources/sandbox-template.ts';
import { aStoredConversation, aTemplate, noon, noonMs } from '../../../support/builders.ts';
import { FakeHostApi } from '../../../support/fake-host-api.ts';
import { FakeKubeClient } from '../../../support/fake-kube-client.ts';
import { recordingLogger } from '../../../support/recording-logger.ts';
import { quietCache } from '../../../support/gateway/quiet-cache.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const pushOf = (branch: string, outcome: PushRecord['outcome'] = 'Accepted'): PushRecord => ({
  id: branch,
  ref: `refs/heads/${branch}`,
  oldId: '0'.repeat(40),
  newId: '1'.repeat(40),
  time: noon,
  outcome,
});

const from = { requestId: 'r', client: '10.0.0.7' };

interface Wish {
  readonly spec?: Partial<ConversationSpec>;
  readonly pushes?: readonly PushRecord[];
  readonly git?: object;
  readonly template?: boolean;
}

async function setUp({
  spec = {},
  pushes = [pushOf('agent/old'), pushOf('agent/fix'), pushOf('agent/lost', 'Unknown')],
  git = {},
  template = true,
}: Wish = {}) {
  const clock = new VirtualClock(noonMs);
  const client = new FakeKubeClient();
  const host = new FakeHostApi();
  const audit = recordingLogger();
  const events: { readonly reason: string; readonly message: string }[] = [];
  const templates = new IndexedStore<SandboxTemplate>({});
  if (template) templates.set(aTemplate({ git: gitSettingsSchema.parse(git) }));
  const stored = await client.create(conversations, {
    ...aStoredConversation({ name: 'c-1', spec: { repository: { name: 'acme/shop' }, ...spec } }),
    status: { pushes: [...pushes] },
  });
  const service = new PullRequests({
    client,
    clock,
    logger: silentLogger,
    metrics: createMetrics(),
    audit: checkedAudit(audit.logger),
    events: { record: (_object, event) => void events.push(event) },
    credentials: {
      of: (owner, ...wanted) => {
        if (JSON.stringify(wanted) !== '["forgejo","acme/shop"]' || owner === 'bob')
          return Promise.resolve(undefined);
        // The owner carol has a credential for git alone.
        const token = owner === 'alice' ? 's3cret' : undefined;
        return Promise.resolve({ authorization: 'Basic x', token, name: `forgejo.${owner}` });
      },
    },
    templates: quietCache(templates),
    apiOf: (provider) => (provider === 'forgejo' ? host : undefined),
    defaultProvider: 'forgejo',
  });
  const current = async () => client.get(conversations, 'default', 'c-1');
  const call = async () =>
    ({ conversation: cachedConversation(await current()), by: 'client', from }) as const;
  const open = async (request: Partial<PullRequestRequest> = {}) =>
    service.open(await call(), { title: 'Fix it', ...request });
  const records = async () => (await current()).status?.pullRequests ?? [];
  return { service, host, client, clock, audit, events, stored, call, open, records };
}

/** Code of the problem with which a promise rejects. */
const problemOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'none',
    (error: unknown) => (error instanceof ProblemError ? error.code : String(error)),
  );

const expected = {
  number: 1,
  url: 'https://git.example.com/acme/shop/pulls/1',
  provider: 'forgejo',
  repository: 'acme/shop',
  title: 'Fix it',
  head: 'agent/fix',
  base: 'main',
  draft: false,
  state: 'Open',
  stateTime: noon,
};

describe('open', () => {
  it('takes the branch of the last accepted push and the default branch', async () => {
    const { open, records, events, audit, host } = await setUp();
    expect(await open()).toEqual({ pullRequest: expected, isNew: true });
    expect(await records()).toEqual([expected]);
    expect(events).toEqual([
      {
        type: 'Normal',
        reason: 'PullRequestOpened',
        message: `Opened pull request 1 of agent/fix to main in acme/shop: ${expected.url}`,
      },
    ]);
    const fields = { owner: 'alice', conversation: 'c-1', by: 'client', head: 'agent/fix' };
    expect(audit.lines).toMatchObject([
      { message: 'PullRequestStarted', fields },
      { message: 'PullRequest', fields: { ...fields, outcome: 'Accepted', number: 1 } },
    ]);
    expect(JSON.stringify([events, audit.lines, await records()])).not.toContain('s3cret');
    expect(host.calls.every(({ repository }) => repository === 'acme/shop')).toBe(true);
  });

  it('escapes the lines of the description that the host would obey', async () => {
    const { open, host } = await setUp();
    await open({ body: 'Fixes it.\n/merge' });
    expect(host.pullRequests).toMatchObject([{ body: 'Fixes it.\n\\/merge' }]);
  });

  it('follows a renamed repository, and keeps the name that the conversation has', async () => {
    const { open, records, host } = await setUp();
    host.renamed.set('acme/shop', 'acme/store');
    await open({ base: 'main' });
    expect(host.calls.at(-1)).toMatchObject({ method: 'create', repository: 'acme/store' });
    expect(await records()).toMatchObject([{ repository: 'acme/shop' }]);
  });

  it.each([
    [{ push: { enabled: false } }],
    [{ push: { branches: ['bots/*'] } }],
    [{ pullRequests: { enabled: false } }],
  ])('obeys the exception %j of the name that the host reports', async (fields) => {
    const overrides = [{ repository: 'acme/store', ...fields }];
    const { open, host } = await setUp({ git: { overrides } });
    host.renamed.set('acme/shop', 'Acme/Store');
    expect(await problemOf(open())).toBe('pull-request-refused');
    expect(host.pullRequests).toEqual([]);
  });

  it('obeys the lower limit of an hour of both names', async () => {
    const overrides = [{ repository: 'acme/store', pullRequests: { maxPerHour: 1 } }];
    const { open, service, call, host } = await setUp({ git: { overrides } });
    host.renamed.set('acme/shop', 'acme/store');
    await open();
    expect(await problemOf(open({ head: 'agent/old' }))).toBe('rate-limited');
    expect(await problemOf(service.comment(await call(), { body: 'Done.' }))).toBe('rate-limited');
    expect([host.pullRequests.length, host.comments]).toEqual([1, []]);
  });

  it.each<[HostApiErrorCode, string]>([
    ['invalid', 'Rejected'],
    ['denied', 'Rejected'],
    ['unavailable', 'Unknown'],
  ])('that the host answers with %s is in the audit as %s', async (code, outcome) => {
    const { open, audit, host } = await setUp();
    host.faults.set('create', { code, when: 'before' });
    await problemOf(open());
    expect(audit.lines).toMatchObject([
      { message: 'PullRequestStarted' },
      { message: 'PullRequest', fields: { outcome } },
    ]);
  });

  it('finds the open pull request of the branch, which is announced once', async () => {
    const { open, records, events } = await setUp();
    await open();
    expect(await open({ title: 'Other' })).toEqual({ pullRequest: expected, isNew: false });
    expect(await records()).toEqual([expected]);
    expect(events).toHaveLength(1);
  });

  it('records one that a gateway opened before it ended', async () => {
    const { open, records, host } = await setUp();
    await host.create(
      { repository: 'acme/shop', token: 's3cret', signal: new AbortController().signal },
      { title: 'Fix it', body: '', head: 'agent/fix', base: 'main', draft: false },
    );
    expect((await open()).isNew).toBe(false);
    expect(await records()).toEqual([expected]);
  });

  it('announces no older one whose title differs when the answer is lost', async () => {
    const { open, records, host, events } = await setUp();
    await host.create(target, {
      title: 'By a person',
      body: '',
      head: 'agent/fix',
      base: 'main',
      draft: false,
    });
    host.faults.set('create', { code: 'unavailable', when: 'before' });
    expect(await open()).toMatchObject({ isNew: false, pullRequest: { title: 'By a person' } });
    expect(await records()).toHaveLength(1);
    expect(events).toEqual([]);
  });

  it('counts as done when the answer is lost', async () => {
    const { open, records, host } = await setUp();
    host.faults.set('create', { code: 'unavailable', when: 'after' });
    expect((await open()).isNew).toBe(true);
    expect(await records()).toEqual([expected]);
  });

  it.each<[HostApiErrorCode, string]>([
    ['denied', 'git-host-denied'],
    ['not-found', 'git-host-denied'],
    ['invalid', 'pull-request-invalid'],
    ['busy', 'git-host-busy'],
    ['unavailable', 'git-host-unavailable'],
  ])('of a host that says %s is the problem %s', async (code, problem) => {
    const { open, records, host } = await setUp();
    host.faults.set('create', { code, when: 'before' });
    expect(await problemOf(open())).toBe(problem);
    expect(await records()).toEqual([]);
  });

  it.each<[string, Wish, Partial<PullRequestRequest>, string]>([
    ['a branch beyond the policy', {}, { head: 'main' }, 'pull-request-refused'],
    ['another base than a branch of its own', {}, { base: 'agent/fix' }, 'invalid-request'],
    ['nothing that was pushed', { pushes: [pushOf('x', 'Rejected')] }, {}, 'invalid-request'],
    [
      'a tag as the last push',
      { pushes: [{ ...pushOf('x'), ref: 'refs/tags/x' }] },
      {},
      'invalid-request',
    ],
    ['closed pushes', { git: { push: { enabled: false } } }, {}, 'pull-request-refused'],
    [
      'closed pull requests',
      { git: { pullRequests: { enabled: false } } },
      {},
      'pull-request-refused',
    ],
    [
      'an exception of the owner',
      { git: { overrides: [{ owner: 'alice', pullRequests: { enabled: false } }] } },
      {},
      'pull-request-refused',
    ],
    ['no template', { template: false }, {}, 'pull-request-refused'],
    ['an owner without a credential', { spec: { owner: 'bob' } }, {}, 'pull-request-refused'],
    [
      'an owner whose credential is no token',
      { spec: { owner: 'carol' } },
      {},
      'pull-request-refused',
    ],
    ['no repository', { spec: { repository: undefined } }, {}, 'pull-requests-unsupported'],
    [
      'a host without an API',
      { spec: { repository: { name: 'acme/shop', provider: 'bitbucket' } } },
      {},
      'pull-requests-unsupported',
    ],
  ])('of %s is refused before the host changes anything', async (_what, wish, request, problem) => {
    const { open, host } = await setUp(wish);
    expect(await problemOf(open(request))).toBe(problem);
    expect(host.pullRequests).toEqual([]);
    expect(host.calls.every(({ method }) => method === 'repository')).toBe(true);
  });

  it('is bounded by the hour', async () => {
    const { open, clock, host } = await setUp({ git: { pullRequests: { maxPerHour: 2 } } });
    await open();
    await open();
    expect(await problemOf(open())).toBe('rate-limited');
    await clock.advance(3_600_001);
    await open({ head: 'agent/old' });
    expect(host.pullRequests).toHaveLength(2);
  });

  it('keeps the last 20 pull requests', async () => {
    const { open, records } = await setUp({ git: { pullRequests: { maxPerHour: 100 } } });
    for (let count = 1; count <= 23; count += 1) await open({ head: `agent/${count}` });
    expect((await records()).map(({ number }) => number)).toEqual(
      Array.from({ length: 20 }, (_, index) => index + 4),
    );
  });
});

describe('details', () => {
  it('stores the state that the host reports, with its time', async () => {
    const { open, service, call, records, host, clock } = await setUp();
    await open();
    host.change(1, { state: 'merged', title: 'Fix all' });
    await clock.advance(60_000);
    expect(await service.details(await call())).toMatchObject({ number: 1, state: 'merged' });
    const stateTime = new Date(noonMs + 60_000).toISOString();
    expect(await records()).toEqual([
      { ...expected, title: 'Fix all', state: 'Merged', stateTime },
    ]);
  });

  it('of another pull request of the repository stores nothing', async () => {
    const { open, service, call, records, host } = await setUp();
    await open();
    host.pullRequests.push({ ...(await host.get(target, 1)), number: 2 });
    expect(await service.details(await call(), 2)).toMatchObject({ number: 2 });
    expect(await records()).toEqual([expected]);
  });

  it('of a conversation without a pull request is not found', async () => {
    const { service, call } = await setUp();
    expect(await problemOf(service.details(await call()))).toBe('not-found');
  });
});

it.each(['details', 'comment', 'refresh'] as const)(
  '%s of a repository under a name that is closed is refused, and asks the host for its name alone',
  async (method) => {
    const overrides = [{ repository: 'acme/store', pullRequests: { enabled: false } }];
    const { open, service, call, host, records } = await setUp({ git: { overrides } });
    await open();
    host.renamed.set('acme/shop', 'acme/store');
    host.change(1, { title: 'Secret plans' });
    host.calls.length = 0;
    const conversation = await call();
    const asked = {
      details: () => service.details(conversation),
      comment: () => service.comment(conversation, { body: 'Done.' }),
      refresh: () => service.refresh(conversation, { number: 1 }),
    };
    expect(await problemOf(asked[method]())).toBe('pull-request-refused');
    expect(host.calls.map((each) => each.method)).toEqual(['repository']);
    expect(await records()).toEqual([expected]);
  },
);

it('details and states of a renamed repository are kept under the name of the conversation', async () => {
  const { open, service, call, records, host } = await setUp();
  await open();
  host.renamed.set('acme/shop', 'acme/store');
  host.change(1, { title: 'Fix all' });
  await service.details(await call());
  expect(host.calls.at(-1)).toMatchObject({ method: 'details', repository: 'acme/store' });
  expect(await records()).toEqual([{ ...expected, title: 'Fix all' }]);
  host.change(1, { title: 'Fix more' });
  await service.refresh(await call(), { number: 1 });
  expect(host.calls.at(-1)).toMatchObject({ method: 'get', repository: 'acme/store' });
  expect(await records()).toEqual([{ ...expected, title: 'Fix more' }]);
});

const target = { repository: 'acme/shop', token: 's3cret', signal: new AbortController().signal };

describe('the budget of an hour', () => {
  it('bounds the requests of a sandbox to the host, and comes back with time', async () => {
    const { open, service, call, host, clock } = await setUp();
    await open();
    const { conversation } = await call();
    const read = (number: number) =>
      problemOf(service.details({ conversation, by: 'agent' }, number));
    // Each asks for the present name too.
    for (let number = 2; host.calls.length < hostApiBudget.perSandbox; number++)
      expect(await read(number)).toBe('git-host-denied');
    expect(await read(1)).toBe('rate-limited');
    expect(await problemOf(open({ head: 'agent/old' }))).toBe('rate-limited');
    // The gateway itself reads the state on.
    await service.refresh({ conversation, by: 'client' }, { number: 1 });
    expect(host.calls).toHaveLength(hostApiBudget.perSandbox + 2);
    await clock.advance(3_600_000);
    expect(await read(1)).toBe('none');
  });
});

describe('details of the last seconds', () => {
  it('are read once, and again after a comment', async () => {
    const { open, service, call, host } = await setUp();
    await open();
    const reads = () => host.calls.filter(({ method }) => method === 'details').length;
    for (let count = 0; count < 300; count++) await service.details(await call());
    expect(reads()).toBe(1);
    await service.details(await call(), 1);
    expect(reads()).toBe(1);
    await service.comment(await call(), { body: 'Done.' });
    expect((await service.details(await call())).comments).toHaveLength(1);
    expect(reads()).toBe(2);
  });

  it('are read again after them', async () => {
    const { open, service, call, host, clock } = await setUp();
    await open();
    await clock.advance(1);
    await service.details(await call());
    host.change(1, { title: 'Fix all' });
    await clock.advance(detailsMs + 1);
    expect(await service.details(await call())).toMatchObject({ title: 'Fix all' });
  });
});

describe('comment', () => {
  it('is escaped where the host would obey it', async () => {
    const { open, service, call, host } = await setUp();
    await open();
    await service.comment(await call(), { body: '/close' });
    expect(host.comments).toEqual([{ number: 1, body: String.raw`\/close` }]);
  });

  it('follows a renamed repository', async () => {
    const { open, service, call, host } = await setUp();
    await open();
    host.renamed.set('acme/shop', 'acme/store');
    await service.comment(await call(), { body: 'Done.' });
    expect(host.calls.at(-1)).toMatchObject({ method: 'comment', repository: 'acme/store' });
  });

  it('is in the audit before the host gets it, and with the outcome', async () => {
    const { open, service, call, host, audit } = await setUp();
    await open();
    audit.lines.length = 0;
    host.faults.set('comment', { code: 'unavailable', when: 'after' });
    await problemOf(service.comment(await call(), { body: 'Done.' }));
    const fields = { owner: 'alice', conversation: 'c-1', number: 1 };
    expect(audit.lines).toMatchObject([
      { message: 'PullRequestCommentStarted', fields },
      { message: 'PullRequestComment', fields: { ...fields, outcome: 'Unknown' } },
    ]);
  });

  it('is on the last pull request of the conversation', async () => {
    const { open, service, call, host, audit } = await setUp();
    await open();
    expect(await service.comment(await call(), { body: 'Done.' })).toEqual({
      number: 1,
      url: `${expected.url}#comment-1`,
    });
    expect(host.comments).toEqual([{ number: 1, body: 'Done.' }]);
    expect(audit.lines.at(-1)).toMatchObject({
      message: 'PullRequestComment',
      fields: { number: 1 },
    });
  });

  it('is on one that the conversation is about', async () => {
    const { open, service, call, host } = await setUp({ spec: { prNumbers: [1] } });
    await open();
    await service.comment(await call(), { number: 1, body: 'Seen.' });
    expect(host.comments).toHaveLength(1);
  });

  it('is on no other pull request', async () => {
    const { open, service, call, host } = await setUp();
    await open();
    await open({ head: 'agent/old' });
    const { conversation } = await call();
    host.pullRequests.push({ ...(await host.get(target, 1)), number: 3 });
    expect(
      await problemOf(
        service.comment({ conversation, by: 'agent', from }, { number: 3, body: 'x' }),
      ),
    ).toBe('pull-request-refused');
    expect(host.comments).toEqual([]);
  });
});

describe('refresh', () => {
  it('changes no record of the same number in another place', async () => {
    const { open, service, call, client, records, host } = await setUp();
    await open();
    const others = [
      { ...expected, provider: 'github' },
      { ...expected, repository: 'acme/renamed' },
    ];
    const status = { pullRequests: [...others, ...(await records())] };
    await client.mergePatch(conversations, 'default', 'c-1', { status }, { subresource: 'status' });
    host.change(1, { title: 'Fix all' });
    await service.refresh(await call(), { number: 1 });
    expect(await records()).toEqual([...others, { ...expected, title: 'Fix all' }]);
  });

  it('of a conversation that was made again under its name is not found', async () => {
    const { open, service, call, client, records, host } = await setUp();
    await open();
    const before = await call();
    const { metadata, spec, status } = await client.get(conversations, 'default', 'c-1');
    await client.delete(conversations, 'default', 'c-1');
    await client.create(conversations, {
      ...aStoredConversation({ name: 'c-1', spec }),
      metadata: { ...metadata, uid: 'another' },
      ...(status === undefined ? {} : { status }),
    });
    host.change(1, { title: 'Fix all' });
    expect(await problemOf(service.refresh(before, { number: 1 }))).toBe('not-found');
    expect(await records()).toEqual([expected]);
  });

  it('writes nothing where nothing has changed', async () => {
    const { open, service, call, client } = await setUp();
    await open();
    const before = (await client.get(conversations, 'default', 'c-1')).metadata.resourceVersion;
    await service.refresh(await call(), { number: 1 });
    const { metadata } = await client.get(conversations, 'default', 'c-1');
    expect(metadata.resourceVersion).toBe(before);
  });
});
