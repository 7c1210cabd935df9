import { execFileSync, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deflateSync, gzipSync } from 'node:zlib';
import { silentLogger } from '@conversation-operator/base/logger';
import { systemClock } from '@conversation-operator/base/clock';
import { directly } from '@conversation-operator/outward/outward';
import { SandboxKeys } from '../../../src/agent/keys.ts';
import {
  createCallbackServer,
  type CallbackServer,
} from '../../../src/gateway/callback-server/callback-server.ts';
import { GitHandler } from '../../../src/gateway/git/git-handler.ts';
import { basicAuthorization } from '../../../src/gateway/git/hosts.ts';
import { PrivateHost } from '../../../src/gateway/git/private-host.ts';
import { PushRecords } from '../../../src/gateway/git/push-records.ts';
import { gatewayIndexers } from '../../../src/gateway/lookup/cache.ts';
import { IndexedStore } from '@conversation-operator/kube/store';
import { createMetrics } from '../../../src/observability/metrics.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../../src/resources/cached-conversation.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import { gitSettingsSchema, type GitSettings } from '../../../src/resources/git-settings.ts';
import type { Sandbox } from '../../../src/resources/sandbox.ts';
import type { SandboxTemplate } from '../../../src/resources/sandbox-template.ts';
import { aStoredConversation, aSandbox, aTemplate } from '../../support/builders.ts';
import { eventually } from '../../support/eventually.ts';
import { FakeKubeClient } from '../../support/fake-kube-client.ts';
import { asUsual, GitServer } from '../../support/git-server.ts';
import { quietCache } from '../../support/gateway/quiet-cache.ts';
import { HeldClock } from '../../support/held-clock.ts';
import { checkedAudit } from '../../support/checked-audit.ts';
import { recordingLogger } from '../../support/recording-logger.ts';

const folder = mkdtempSync(join(tmpdir(), 'git-push-'));
const keys = new SandboxKeys([Buffer.alloc(32, 7)]);
const secret = 'bot:s3cret';
/** Maximum time of a transfer without a byte, which passes only when a test says so. */
const idleMs = 5_000;
const clock = new HeldClock(idleMs);

const stores = {
  sandboxes: new IndexedStore<Sandbox>(gatewayIndexers.sandboxes),
  conversations: new IndexedStore<CachedConversation>(gatewayIndexers.conversations),
  templates: new IndexedStore<SandboxTemplate>({}),
};
const client = new FakeKubeClient();
const audit = recordingLogger();
const events: { readonly reason: string; readonly message: string }[] = [];
let host: GitServer;
let privateHost: PrivateHost;
let side: CallbackServer;
let url: string;

beforeAll(async () => {
  host = await GitServer.start({
    prefix: '/scm',
    repositories: {
      'acme/shop': { files: { 'README.md': 'A shop.\n' } },
      'acme/lib': { files: { 'lib.txt': 'A library.\n' } },
      'acme/other': {},
      'acme/open': {},
      'acme/empty': { branches: [] },
    },
    readers: {
      'acme/shop': [secret],
      'acme/lib': [secret],
      'acme/other': [secret],
      'acme/empty': [secret],
    },
  });
  privateHost = new PrivateHost({
    outward: directly,
    hosts: { forgejo: host.url },
    credentials: {
      of: (owner) =>
        Promise.resolve(
          owner === 'alice'
            ? { authorization: basicAuthorization('bot', 's3cret'), token: 's3cret', name: 'alice' }
            : undefined,
        ),
    },
    connections: 16,
    clock: systemClock,
    logger: silentLogger,
  });
  const handler = new GitHandler({
    host: privateHost,
    keys,
    defaultProvider: 'forgejo',
    conversations: quietCache(stores.conversations),
    templates: quietCache(stores.templates),
    records: new PushRecords({
      client,
      audit: checkedAudit(audit.logger),
      clock: systemClock,
      logger: silentLogger,
      events: { record: (_object, event) => void events.push(event) },
    }),
    clock,
    logger: silentLogger,
    metrics: createMetrics(),
    limits: { idleMs },
  });
  side = createCallbackServer({
    handlers: [handler],
    sandboxes: quietCache(stores.sandboxes),
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
  events.length = 0;
});
afterAll(async () => {
  await side.close();
  await privateHost.close();
  await host.stop();
  rmSync(folder, { recursive: true, force: true });
});

interface Wish {
  readonly owner?: string;
  readonly repository?: string;
  readonly git?: object;
}

let number = 0;

/** A sandbox with a conversation about a repository, under a template of its own. */
async function aWorkplace({ owner = 'alice', repository = 'acme/shop', git }: Wish = {}) {
  const name = `sbx-${++number}`;
  const settings: GitSettings | undefined = git && gitSettingsSchema.parse(git);
  const sandbox = aSandbox({ name, owner });
  const template = aTemplate(settings === undefined ? {} : { git: settings });
  const conversation = await client.create(conversations, {
    ...aStoredConversation({
      name: `c-${name}`,
      spec: { owner, repository: { name: repository } },
    }),
    status: {
      sandboxName: name,
      sandboxUID: sandbox.metadata.uid,
      start: { status: 'READY', transitions: [] },
    },
  });
  stores.sandboxes.set({ ...sandbox, spec: { ...sandbox.spec, templateName: name } });
  stores.templates.set({ ...template, metadata: { ...template.metadata, name } });
  stores.conversations.set(cachedConversation(conversation));
  return { name, sandbox, conversation };
}
type Workplace = Awaited<ReturnType<typeof aWorkplace>>;

const pushesOf = async ({ conversation: { metadata } }: Workplace) =>
  (await client.get(conversations, 'default', metadata.name)).status?.pushes ?? [];

/** Runs git as an agent does: its remote has the URL of the host. */
async function git(
  { name, sandbox }: Workplace,
  cwd: string,
  args: readonly string[],
  token = keys.gitToken(sandbox.metadata.uid),
) {
  const base = `${url}/git/${name}/forgejo/`;
  const settings: Record<string, string> = {
    [`url.${base}.insteadOf`]: `${host.url}/`,
    [`credential.${url}.helper`]: `!printf 'username=agent\\npassword=%s\\n' "$TOKEN"; :`,
    'user.name': 'agent',
    'user.email': 'agent@localhost',
    'init.defaultBranch': 'main',
  };
  const child = spawn('git', args, {
    cwd,
    env: {
      PATH: process.env['PATH'],
      HOME: folder,
      TOKEN: token,
      LC_ALL: 'C',
      GIT_TERMINAL_PROMPT: '0',
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CONFIG_COUNT: String(Object.keys(settings).length),
      ...Object.fromEntries(
        Object.entries(settings).flatMap(([key, value], index) => [
          [`GIT_CONFIG_KEY_${index}`, key],
          [`GIT_CONFIG_VALUE_${index}`, value],
        ]),
      ),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, output };
}

/** A clone of the workplace's repository, with a commit on a branch. */
async function aClone(workplace: Workplace, repository = 'acme/shop', branch = 'agent/fix') {
  const tree = join(mkdtempSync(join(folder, 'tree-')), 'tree');
  const cloned = await git(workplace, folder, [
    ...['clone', '--quiet', `${host.url}/${repository}.git`, tree],
  ]);
  expect(cloned).toEqual({ code: 0, output: expect.anything() as string });
  await git(workplace, tree, ['checkout', '-q', '-b', branch]);
  await commit(workplace, tree);
  return tree;
}

async function commit(
  workplace: Workplace,
  tree: string,
  content = randomBytes(8).toString('hex'),
) {
  writeFileSync(join(tree, 'work.txt'), content);
  await git(workplace, tree, ['add', '.']);
  expect(await git(workplace, tree, ['commit', '-q', '-m', 'Work'])).toMatchObject({ code: 0 });
}

const branches = (repository = 'acme/shop'): readonly string[] =>
  execFileSync('git', ['ls-remote', '--heads', '--tags', host.folderOf(repository)])
    .toString()
    .trim()
    .split('\n')
    .map((line) => line.split('\t')[1] ?? '');

describe('a push', () => {
  it('reaches a new branch, and the same branch again, and is recorded', async () => {
    const workplace = await aWorkplace();
    const tree = await aClone(workplace, 'acme/shop', 'agent/first');
    expect(await git(workplace, tree, ['push', 'origin', 'agent/first'])).toMatchObject({
      code: 0,
    });
    await commit(workplace, tree);
    expect(await git(workplace, tree, ['push', 'origin', 'agent/first'])).toMatchObject({
      code: 0,
    });
    expect(branches()).toContain('refs/heads/agent/first');
    const head = execFileSync('git', ['-C', tree, 'rev-parse', 'HEAD']).toString().trim();
    const pushes = await pushesOf(workplace);
    expect(pushes).toMatchObject([
      { ref: 'refs/heads/agent/first', oldId: '0'.repeat(40), outcome: 'Accepted' },
      { ref: 'refs/heads/agent/first', newId: head, outcome: 'Accepted' },
    ]);
    expect(pushes[1]?.oldId).toBe(pushes[0]?.newId);
    expect(events.map(({ reason }) => reason)).toEqual(['Pushed', 'Pushed']);
    for (const line of ['PushStarted', 'Push'])
      expect(audit.lines.filter(({ message }) => message === line)).toHaveLength(2);
    expect(JSON.stringify([pushes, events, audit.lines])).not.toMatch(/s3cret|Basic/);
  });

  it('of more than the buffer of git begins with a probe, and passes too', async () => {
    const workplace = await aWorkplace();
    const tree = await aClone(workplace, 'acme/shop', 'agent/large');
    await commit(workplace, tree, randomBytes(3 * 1024 * 1024).toString('base64'));
    expect(await git(workplace, tree, ['push', 'origin', 'agent/large'])).toMatchObject({
      code: 0,
    });
    expect(await pushesOf(workplace)).toMatchObject([{ outcome: 'Accepted' }]);
  });

  it.each<[string, readonly string[], string]>([
    ['to the default branch', ['HEAD:main'], 'the default branch may not be pushed'],
    ['to another name', ['HEAD:fix'], 'only branches like openhands/* or agent/* may be pushed'],
    ['of a tag', ['HEAD:refs/tags/v1'], 'only branches may be pushed'],
    ['of notes', ['HEAD:refs/notes/x'], 'only branches may be pushed'],
    ['that deletes the default branch', [':main'], 'the default branch may not be pushed'],
    [
      'of which one part is not allowed',
      ['HEAD:agent/partly', 'HEAD:main'],
      'the default branch may not be pushed',
    ],
  ])('%s is refused with a message, and the host gets nothing', async (_sentence, refs, words) => {
    const workplace = await aWorkplace();
    const tree = await aClone(workplace);
    const before = branches();
    host.taken();
    const { code, output } = await git(workplace, tree, ['push', '--force', 'origin', ...refs]);
    expect(code).toBe(1);
    expect(output).toContain(words);
    expect(branches()).toEqual(before);
    expect(host.taken().filter(({ url: asked }) => asked.endsWith('/git-receive-pack'))).toEqual(
      [],
    );
    expect(await pushesOf(workplace)).toEqual([]);
  });

  it('that deletes a branch, or loses commits of it, is refused', async () => {
    const workplace = await aWorkplace();
    const tree = await aClone(workplace, 'acme/shop', 'agent/kept');
    await git(workplace, tree, ['push', 'origin', 'agent/kept']);
    const before = branches();
    const deleted = await git(workplace, tree, ['push', 'origin', ':agent/kept']);
    expect(deleted.output).toContain('branches may not be deleted');
    await git(workplace, tree, ['commit', '-q', '--amend', '-m', 'Other work']);
    const forced = await git(workplace, tree, ['push', '--force', 'origin', 'agent/kept']);
    expect(forced).toMatchObject({ code: 1 });
    expect(forced.output).toContain('can not distinguish it from a forced push');
    expect(branches()).toEqual(before);
  });

  it('is refused where the template allows none, or fewer branches, with exceptions by owner and repository', async () => {
    const none = await aWorkplace({ git: { push: { enabled: false } } });
    const tree = await aClone(none, 'acme/shop', 'agent/none');
    expect((await git(none, tree, ['push', 'origin', 'agent/none'])).output).toContain(
      'Pushes are not allowed here',
    );
    const exceptions = await aWorkplace({
      git: {
        push: { enabled: false },
        overrides: [
          { owner: 'bob', push: { enabled: true } },
          { repository: 'acme/shop', push: { enabled: true, branches: ['bots/*-x'] } },
        ],
      },
    });
    const push = (ref: string) => git(exceptions, tree, ['push', 'origin', `HEAD:${ref}`]);
    expect(await push('bots/a-x')).toMatchObject({ code: 0 });
    expect((await push('bots/a-y')).output).toContain('only branches like bots/*-x may be pushed');
  });

  it('is refused where an exception closes the repository, under each of its names', async () => {
    // A forge takes both for one repository; this host answers for the other name by a redirect.
    host.readers = { ...host.readers, 'acme/old': [secret] };
    for (const name of ['Acme/Shop', 'acme/old'])
      host.faults.set(name, ({ url: asked = '' }, response) =>
        response.writeHead(307, { location: asked.replace(name, 'acme/shop') }).end(),
      );
    const closed = { overrides: [{ repository: 'acme/shop', push: { enabled: false } }] };
    for (const [repository, words] of [
      ['Acme/Shop', 'Pushes are not allowed here'],
      ['acme/old', 'pushes are not allowed here'],
    ] as const) {
      const workplace = await aWorkplace({ repository, git: closed });
      const tree = await aClone(workplace, repository, 'agent/alias');
      const { code, output } = await git(workplace, tree, ['push', 'origin', 'agent/alias']);
      expect(code).not.toBe(0);
      expect(output).toContain(words);
    }
    expect(branches()).not.toContain('refs/heads/agent/alias');
    const open = await aWorkplace({ repository: 'acme/old' });
    const tree = await aClone(open, 'acme/old', 'agent/alias');
    expect(await git(open, tree, ['push', 'origin', 'agent/alias'])).toMatchObject({ code: 0 });
  });

  it('that is too large is refused with a message, and the next one passes', async () => {
    const workplace = await aWorkplace({ git: { push: { maxMebibytes: 1 } } });
    const tree = await aClone(workplace, 'acme/shop', 'agent/huge');
    await commit(workplace, tree, randomBytes(3 * 1024 * 1024).toString('base64'));
    const { code, output } = await git(workplace, tree, ['push', 'origin', 'agent/huge']);
    expect({ code, output }).toEqual({
      code: 1,
      output: expect.stringContaining('a push may have 1 MiB') as string,
    });
    // The host has got a part, and its decision is unknown.
    expect(await pushesOf(workplace)).toMatchObject([{ outcome: 'Unknown' }]);
    await git(workplace, tree, ['reset', '-q', '--hard', 'HEAD~1']);
    expect(await git(workplace, tree, ['push', 'origin', 'agent/huge'])).toMatchObject({ code: 0 });
  });

  it('has no push options, by which a git host does more than the push: its client is not offered them', async () => {
    execFileSync('git', [
      ...['-C', host.folderOf('acme/shop'), 'config', 'receive.advertisePushOptions', 'true'],
    ]);
    const workplace = await aWorkplace();
    const tree = await aClone(workplace, 'acme/shop', 'agent/options');
    const { code, output } = await git(workplace, tree, [
      ...['push', '-o', 'repo.private=false', 'origin', 'agent/options'],
    ]);
    expect(code).not.toBe(0);
    expect(output).toContain('does not support push options');
    expect(branches()).not.toContain('refs/heads/agent/options');
    expect(await git(workplace, tree, ['push', 'origin', 'agent/options'])).toMatchObject({
      code: 0,
    });
  });

  it('is refused beyond the number of an hour', async () => {
    const workplace = await aWorkplace({ git: { push: { maxPerHour: 2 } } });
    const tree = await aClone(workplace);
    for (const [branch, expected] of [
      ['agent/one', 0],
      ['agent/two', 0],
      ['agent/three', 1],
    ] as const) {
      const { code, output } = await git(workplace, tree, ['push', 'origin', `HEAD:${branch}`]);
      expect({ branch, code }).toEqual({ branch, code: expected });
      if (expected === 1) expect(output).toContain('may push 2 times in an hour');
    }
  });

  it('to an empty repository may begin with any branch that is allowed', async () => {
    const workplace = await aWorkplace({ repository: 'acme/empty' });
    const tree = await aClone(workplace, 'acme/empty', 'agent/begin');
    expect(await git(workplace, tree, ['push', 'origin', 'agent/begin'])).toMatchObject({
      code: 0,
    });
  });

  it('is in the audit and has an unknown outcome where the host gives none', async () => {
    const workplace = await aWorkplace();
    const tree = await aClone(workplace, 'acme/shop', 'agent/unanswered');
    audit.lines.length = 0;
    host.faults.set('acme/shop', ({ method, url: asked = '' }, response) => {
      if (method !== 'POST' || !asked.endsWith('/git-receive-pack')) return asUsual;
      return response.destroy();
    });
    const { code } = await git(workplace, tree, ['push', 'origin', 'agent/unanswered']);
    expect(code).not.toBe(0);
    expect(await pushesOf(workplace)).toMatchObject([{ outcome: 'Unknown' }]);
    expect(audit.lines).toMatchObject([
      { message: 'PushStarted' },
      { message: 'Push', fields: { outcome: 'Unknown' } },
    ]);
    expect(events.map(({ reason }) => reason)).toEqual(['PushOutcomeUnknown']);
  });

  it('is not passed on where it can not be recorded', async () => {
    const workplace = await aWorkplace();
    const tree = await aClone(workplace, 'acme/shop', 'agent/unrecorded');
    await client.delete(conversations, 'default', workplace.conversation.metadata.name);
    const { code } = await git(workplace, tree, ['push', 'origin', 'agent/unrecorded']);
    expect(code).not.toBe(0);
    expect(branches()).not.toContain('refs/heads/agent/unrecorded');
  });
});

/** A line of git's protocol. */
const line = (text: string): string =>
  (Buffer.byteLength(text) + 4).toString(16).padStart(4, '0') + text;
const flush = '0000';
const [zeros, ones, twos] = ['0', '1', '2'].map((digit) => digit.repeat(40));

/** Sends a body as a push of the sandbox. */
async function post({ name, sandbox }: Workplace, body: string | Buffer, repository = 'acme/shop') {
  const response = await fetch(`${url}/git/${name}/forgejo/${repository}.git/git-receive-pack`, {
    method: 'POST',
    headers: {
      authorization: basicAuthorization('agent', keys.gitToken(sandbox.metadata.uid)),
      'content-type': 'application/x-git-receive-pack-request',
    },
    body,
  });
  return { status: response.status, text: await response.text() };
}

describe('a push by a client of its own', () => {
  const creation = (ref: string, capabilities: string) =>
    line(`${zeros} ${ones} refs/heads/${ref}\0${capabilities}`) + flush;
  /** Pushes that reached the host. */
  const passed = () => host.taken().filter((each) => each.url.endsWith('/git-receive-pack'));
  /** How the host answers a push, whatever it is. */
  const answerWith = (body: string | Buffer, headers: Record<string, string> = {}) =>
    host.faults.set('acme/shop', ({ method, url: asked = '' }, response) => {
      if (method !== 'POST' || !asked.endsWith('/git-receive-pack')) return asUsual;
      const type = 'application/x-git-receive-pack-result';
      return response.writeHead(200, { 'content-type': type, ...headers }).end(body);
    });

  it('with push options is refused with their names, and is in the audit', async () => {
    const workplace = await aWorkplace();
    host.taken();
    audit.lines.length = 0;
    const options = `${line('repo.private=false')}${line('merge_request.create')}${flush}`;
    const { text } = await post(
      workplace,
      creation('agent/x', 'report-status push-options') + options,
    );
    expect(text).toContain(
      'ng refs/heads/agent/x push options are not allowed here: repo.private=false, merge_request.create',
    );
    expect(passed()).toEqual([]);
    expect(await pushesOf(workplace)).toEqual([]);
    const { conversation } = workplace;
    expect(audit.lines).toMatchObject([
      {
        message: 'PushRefused',
        fields: {
          owner: 'alice',
          conversation: conversation.metadata.name,
          provider: 'forgejo',
          repository: 'acme/shop',
          refs: ['refs/heads/agent/x'],
          options: ['repo.private=false', 'merge_request.create'],
        },
      },
    ]);
  });

  it('that asks for no report is refused, because nothing would prove its outcome', async () => {
    const workplace = await aWorkplace();
    host.taken();
    const answer = await post(workplace, creation('agent/x', 'side-band-64k'));
    expect(answer).toEqual({ status: 403, text: 'a push must ask for a report (report-status)\n' });
    expect(passed()).toEqual([]);
  });

  const reportOf = (result: string) => `${line('unpack ok\n')}${line(`${result}\n`)}${flush}`;
  const report = reportOf('ok refs/heads/agent/x');
  it.each<[string, string | Buffer, Record<string, string>, string]>([
    ['reports a success', report, {}, 'Accepted'],
    ['reports a refusal', reportOf('ng refs/heads/agent/x no'), {}, 'Rejected'],
    ['compresses its report', gzipSync(report), { 'content-encoding': 'gzip' }, 'Unknown'],
    ['reports nothing', '', {}, 'Unknown'],
    ['reports another reference', reportOf('ok refs/heads/agent/y'), {}, 'Unknown'],
  ])('to a host that %s is recorded with the outcome that is proven', async (_what, ...given) => {
    const [body, headers, outcome] = given;
    const workplace = await aWorkplace();
    answerWith(body, headers);
    await post(workplace, creation('agent/x', 'report-status'));
    expect(await pushesOf(workplace)).toMatchObject([{ outcome }]);
    expect(audit.lines.at(-1)).toMatchObject({ message: 'Push', fields: { outcome } });
  });

  it('goes where its branches were read, and not where the host redirected before', async () => {
    const git = { overrides: [{ repository: 'acme/shop', push: { enabled: false } }] };
    const workplace = await aWorkplace({ repository: 'acme/other', git });
    const { name, sandbox } = workplace;
    host.faults.set('acme/other', ({ url: asked = '' }, response) => {
      if (!asked.endsWith('service=git-receive-pack')) return asUsual;
      return response.writeHead(307, { location: asked.replace('other', 'shop') }).end();
    });
    host.taken();
    const begun = await fetch(
      `${url}/git/${name}/forgejo/acme/other.git/info/refs?service=git-receive-pack`,
      {
        headers: {
          authorization: basicAuthorization('agent', keys.gitToken(sandbox.metadata.uid)),
        },
      },
    );
    expect(begun.status).toBe(200);
    await begun.text();
    await post(workplace, creation('agent/x', 'report-status'), 'acme/other');
    expect(passed().map((each) => each.url)).toEqual(['/scm/acme/other.git/git-receive-pack']);
  });

  it('asks no host for a compressed report, which nothing here reads', async () => {
    const workplace = await aWorkplace();
    const seen: unknown[] = [];
    host.faults.set('acme/shop', ({ method, url: asked = '', headers }) => {
      if (asked.includes('receive-pack')) seen.push([method, headers['accept-encoding']]);
      return asUsual;
    });
    const { name, sandbox } = workplace;
    await fetch(`${url}/git/${name}/forgejo/acme/shop.git/info/refs?service=git-receive-pack`, {
      headers: {
        authorization: basicAuthorization('agent', keys.gitToken(sandbox.metadata.uid)),
        'accept-encoding': 'gzip',
      },
    });
    await post(workplace, creation('agent/x', 'report-status'));
    expect(seen).toEqual([
      ['GET', 'identity'],
      ['POST', 'identity'],
    ]);
  });

  it.each<[string, number]>([
    ['its first byte', 1],
    ['its commands', creation('agent/x', 'report-status').length],
  ])('that stalls after %s ends, and lets the next one in', async (_what, bytes) => {
    const { name, sandbox } = await aWorkplace();
    const before = clock.held;
    const request = httpRequest(`${url}/git/${name}/forgejo/acme/shop.git/git-receive-pack`, {
      method: 'POST',
      headers: {
        authorization: basicAuthorization('agent', keys.gitToken(sandbox.metadata.uid)),
        'transfer-encoding': 'chunked',
      },
    });
    let isOver = false;
    request.on('error', () => undefined).on('close', () => (isOver = true));
    request.write(creation('agent/x', 'report-status').slice(0, bytes));
    await eventually('the transfer has begun', () => clock.held > before);
    clock.pass();
    await eventually('the push has ended', () => isOver && clock.held === before, 20_000);
  });
});

describe('a hostile push', () => {
  /** The beginning of a pack with one commit whose content unpacks to this many bytes. */
  const packOf = (bytes: number): Buffer => {
    const sizes = [];
    for (let rest = bytes, first = true; first || rest > 0; first = false) {
      const bits = first ? 4 : 7;
      const low = rest % 2 ** bits;
      rest = Math.floor(rest / 2 ** bits);
      sizes.push((rest > 0 ? 0x80 : 0) | (first ? 0x10 : 0) | low);
    }
    const head = Buffer.from('PACK\0\0\0\x02\0\0\0\x01', 'latin1');
    return Buffer.concat([head, Buffer.from(sizes), deflateSync(Buffer.alloc(bytes, 0x20))]);
  };
  const update = `${ones} ${twos} refs/heads/agent/bomb\0report-status`;

  it.each<[string, string | Buffer]>([
    ['without a length', 'garbage'],
    ['with a length beyond its end', 'fff0 short'],
    ['with an id that is none', line(`x ${ones} refs/heads/agent/x\0report-status`) + flush],
    [
      'with a name that is hidden behind a NUL',
      line(`${zeros} ${ones} refs/heads/main\0refs/heads/agent/x\0report-status`) + flush,
    ],
    [
      'with one reference twice',
      line(`${zeros} ${ones} refs/heads/agent/x\0report-status`) +
        line(`${zeros} ${twos} refs/heads/agent/x`) +
        flush,
    ],
    [
      'with more references than one may have',
      Array.from({ length: 20_000 }, (_, index) =>
        line(`${zeros} ${ones} refs/heads/agent/${index}${index === 0 ? '\0report-status' : ''}`),
      ).join('') + flush,
    ],
    ['that is signed', line('push-cert\0report-status') + flush],
    [
      'whose pack unpacks to 256 MiB',
      Buffer.concat([Buffer.from(line(update) + flush), packOf(256 * 1024 * 1024)]),
    ],
  ])('%s is refused with a reason, and the host gets nothing of it', async (_what, body) => {
    const workplace = await aWorkplace();
    host.taken();
    const before = process.memoryUsage().rss;
    const { status, text } = await post(workplace, body);
    // Git shows either: a status with a text, or a report about the references.
    if (status === 200) expect(text).toMatch(/ng refs\/heads\/|unpack /);
    else expect([status, text.length > 10]).toEqual([400, true]);
    expect(host.taken().filter((each) => each.url.endsWith('/git-receive-pack'))).toEqual([]);
    expect(await pushesOf(workplace)).toEqual([]);
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024);
  });
});

describe('a hostile git host', () => {
  it('that redirects a push gets no credential to another place', async () => {
    const seen: (string | undefined)[] = [];
    const other = createServer((request, response) => {
      seen.push(request.headers.authorization);
      response.end();
    });
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const { port } = other.address() as AddressInfo;
    const workplace = await aWorkplace();
    const tree = await aClone(workplace, 'acme/shop', 'agent/redirected');
    host.faults.set('acme/shop', ({ method, url: asked = '' }, response) => {
      if (method !== 'POST' || !asked.endsWith('/git-receive-pack')) return asUsual;
      return response.writeHead(307, { location: `http://127.0.0.1:${port}${asked}` }).end();
    });
    const { code, output } = await git(workplace, tree, ['push', 'origin', 'agent/redirected']);
    other.close();
    expect(code).not.toBe(0);
    expect(output).toContain('The git host can not be asked');
    expect(output).not.toContain('s3cret');
    expect(seen).toEqual([]);
  });

  it('that does not answer ends its own pushes alone', async () => {
    const [slow, quick] = [await aWorkplace(), await aWorkplace({ repository: 'acme/other' })];
    const tree = await aClone(slow, 'acme/shop', 'agent/silent');
    const otherTree = await aClone(quick, 'acme/other', 'agent/quick');
    let isAsked = false;
    host.faults.set('acme/shop', ({ method, url: asked = '' }) => {
      if (method !== 'POST' || !asked.endsWith('/git-receive-pack')) return asUsual;
      isAsked = true;
      return undefined;
    });
    const pushing = git(slow, tree, ['push', 'origin', 'agent/silent']);
    expect(await git(quick, otherTree, ['push', 'origin', 'agent/quick'])).toMatchObject({
      code: 0,
    });
    await eventually('the push is at the host', () => isAsked);
    clock.pass();
    const { code, output } = await pushing;
    expect(code).not.toBe(0);
    expect(output).toContain('The git host can not be asked');
    expect(await pushesOf(slow)).toMatchObject([{ outcome: 'Unknown' }]);
  });
});

describe('the token of a sandbox', () => {
  it.each<[string, (own: Workplace) => Promise<{ where: Workplace; token?: string }>]>([
    [
      'of another sandbox',
      async (own) => ({
        where: own,
        token: keys.gitToken((await aWorkplace()).sandbox.metadata.uid),
      }),
    ],
    ['that is made up', (own) => Promise.resolve({ where: own, token: 'token' })],
    [
      'that is the session key',
      (own) => Promise.resolve({ where: own, token: keys.sessionKey(own.sandbox.metadata.uid) }),
    ],
    [
      'whose conversation is deleted',
      (own) => {
        stores.conversations.delete('default', own.conversation.metadata.name);
        return Promise.resolve({ where: own });
      },
    ],
    [
      'whose conversation is about another repository',
      async () => ({ where: await aWorkplace({ repository: 'acme/other' }) }),
    ],
  ])('does not open a repository: %s', async (_sentence, given) => {
    const own = await aWorkplace();
    const tree = await aClone(own);
    const { where, token } = await given(own);
    for (const args of [['fetch'], ['push', 'origin', 'agent/fix']]) {
      const { code, output } = await git(where, tree, args, token);
      expect(code).not.toBe(0);
      expect(output).toContain('No conversation in this sandbox has this repository');
    }
  });

  it('opens nothing while its sandbox is paused', async () => {
    const workplace = await aWorkplace();
    const tree = await aClone(workplace);
    const { sandbox } = workplace;
    stores.sandboxes.set({ ...sandbox, spec: { ...sandbox.spec, replicas: 0 } });
    for (const args of [['fetch'], ['push', 'origin', 'agent/fix']])
      expect((await git(workplace, tree, args)).code).not.toBe(0);
  });

  it('pushes nothing once the template is gone', async () => {
    const workplace = await aWorkplace();
    const tree = await aClone(workplace);
    stores.templates.delete('default', workplace.name);
    expect((await git(workplace, tree, ['push', 'origin', 'agent/fix'])).output).toContain(
      'Pushes are not allowed here',
    );
  });

  it('opens the repositories that the template names, for reading alone', async () => {
    const workplace = await aWorkplace({ git: { readable: ['acme/lib'] } });
    const tree = await aClone(workplace, 'acme/lib', 'agent/lib');
    const { code, output } = await git(workplace, tree, ['push', 'origin', 'agent/lib']);
    expect(code).not.toBe(0);
    expect(output).toContain('No conversation in this sandbox has this repository');
  });

  it('of an owner without a credential reads what is open, and pushes nothing', async () => {
    const workplace = await aWorkplace({ owner: 'bob', repository: 'acme/open' });
    const tree = await aClone(workplace, 'acme/open');
    const { code, output } = await git(workplace, tree, ['push', 'origin', 'agent/fix']);
    expect(code).not.toBe(0);
    expect(output).toContain('no credential with which to push');
  });

  it('is asked for where it is absent, and opens no large files', async () => {
    const { name, sandbox } = await aWorkplace();
    const path = `${url}/git/${name}/forgejo/acme/shop.git`;
    const absent = await fetch(`${path}/info/refs?service=git-upload-pack`);
    expect(absent.status).toBe(401);
    expect(absent.headers.get('www-authenticate')).toContain('Basic');
    const large = await fetch(`${path}/info/lfs/objects/batch`, {
      method: 'POST',
      headers: { authorization: basicAuthorization('agent', keys.gitToken(sandbox.metadata.uid)) },
    });
    expect(large.status).toBe(501);
  });
});
