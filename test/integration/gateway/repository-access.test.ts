import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mountedGitCredentials } from '../../../src/commands/git-directory.ts';
import { RepositoryAccessChecker } from '../../../src/gateway/git/directory.ts';
import { packet } from '../../../packages/git/src/pkt-line.ts';
import { systemClock } from '@conversation-operator/base/clock';
import { directly } from '@conversation-operator/outward/outward';
import { createMetrics } from '../../../src/observability/metrics.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import { eventually } from '../../support/eventually.ts';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';
import { freePort } from '../../support/free-port.ts';
import { GitServer, asUsual } from '../../support/git-server.ts';
import { recordingLogger } from '../../support/recording-logger.ts';

const path = '/api/v1/app-conversations';
const hello = { initial_message: { content: [{ type: 'text', text: 'Hello' }] } };
const [alices, bobs, everybodys, rotated] = [
  'alice:s3cret-of-alice',
  'bob:s3cret-of-bob',
  'bot:s3cret-of-all',
  'alice:s3cret-rotated',
];
const impatienceMs = 1_000;

describe('a start with a repository', () => {
  let github: GitServer;
  let gitlab: GitServer;
  let plain: GitServer;
  let elsewhere: GitServer;
  let directory: RepositoryAccessChecker;
  let impatient: RepositoryAccessChecker;
  let gateway: TestGateway;
  /** A gateway that waits for hosts for a moment only. */
  let hasty: TestGateway;
  const folder = mkdtempSync(join(tmpdir(), 'git-credentials-'));
  const { logger, lines } = recordingLogger();
  const metrics = createMetrics();
  const answers: string[] = [];
  let skippedMs = 0;
  let closed: number;
  /** Lets everything expire that is known of repositories. */
  const expire = () => (skippedMs += 3_600_001);

  beforeAll(async () => {
    const withSecrets = { 'acme/public': {}, 'acme/shop': {}, 'acme/team': {}, 'acme/bobs': {} };
    github = await GitServer.start({
      repositories: {
        ...withSecrets,
        'acme/many': {
          branches: ['a', 'feature/one', 'feature/two', 'trunk', 'Fix'],
          head: 'trunk',
          tags: ['v1', 'release/v2'],
        },
        'acme/empty': { branches: [], head: 'trunk' },
      },
      readers: { 'acme/shop': [alices], 'acme/team': [everybodys], 'acme/bobs': [bobs] },
    });
    gitlab = await GitServer.start({
      prefix: '/scm',
      isOld: true,
      repositories: {
        'group/sub/lib': { branches: ['develop', 'main'], head: 'develop', tags: ['v1'] },
        'group/secret': {},
      },
      readers: { 'group/secret': [alices] },
    });
    plain = await GitServer.start({
      isPlain: true,
      repositories: { 'acme/files': { branches: ['main', 'x'], head: 'x', tags: ['v1'] } },
    });
    elsewhere = await GitServer.start({ repositories: { 'acme/public': {} } });
    writeFileSync(join(folder, 'github'), everybodys);
    writeFileSync(join(folder, 'github.alice'), `${alices}\n`);
    writeFileSync(join(folder, 'github.bob'), `${bobs}\n`);
    writeFileSync(join(folder, 'gitlab.alice'), alices);
    closed = await freePort();
    const hosts = {
      github: github.url,
      gitlab: gitlab.url,
      forgejo: plain.url,
      bitbucket: `http://127.0.0.1:${closed}`,
      azure_devops: 'file:///nowhere',
    };
    const directoryWith = (timeoutMs: number) =>
      new RepositoryAccessChecker({
        outward: directly,
        hosts,
        credentials: mountedGitCredentials({ folder, providers: Object.keys(hosts), logger }),
        timeoutMs,
        clock: { ...systemClock, monotonic: () => performance.now() + skippedMs },
        logger,
        metrics,
      });
    directory = directoryWith(15_000);
    impatient = directoryWith(impatienceMs);
    gateway = await TestGateway.start({ gitHosts: hosts, gitDirectory: directory });
    hasty = await gateway.replica({ gitHosts: hosts, gitDirectory: impatient });
  });
  beforeEach(() => {
    expire();
    lines.length = 0;
    for (const server of [github, gitlab, plain, elsewhere]) {
      server.faults.clear();
      server.taken();
    }
  });
  afterAll(async () => {
    await Promise.all([gateway.stop(), hasty.stop()]);
    await Promise.all([directory.close(), impatient.close()]);
    await Promise.all([github, gitlab, plain, elsewhere].map((server) => server.stop()));
    rmSync(folder, { recursive: true });
  });

  interface Wish {
    readonly provider?: string;
    readonly branch?: string;
    readonly key?: string;
  }
  const start = async (
    repository: string,
    { provider, branch, key = gateway.alice }: Wish = {},
  ) => {
    const body = {
      ...hello,
      selected_repository: repository,
      git_provider: provider,
      selected_branch: branch,
    };
    const answer = await gateway.post(path, body, { key });
    answers.push(answer.text);
    return answer;
  };
  const get = async (query: string, key = gateway.alice) => {
    const answer = await gateway.get(`/api/v1/git/${query}`, { key });
    answers.push(answer.text);
    return (answer.json as { items: unknown[] }).items;
  };
  const keyOf = (owner: string) => (owner === 'alice' ? gateway.alice : gateway.bob);
  const storedCount = async () =>
    (await gateway.client.list(conversations, { namespace })).items.length;

  it.each<[string, string, string, Wish, number]>([
    ['a public one', 'alice', 'acme/public', {}, 200],
    ['a public one, with its provider', 'alice', 'acme/public', { provider: 'github' }, 200],
    ['a public one of another owner', 'bob', 'acme/public', {}, 200],
    ['one without commits', 'alice', 'acme/empty', {}, 200],
    ['one that her own credential opens', 'alice', 'acme/shop', {}, 200],
    ["one that only another owner's credential opens", 'bob', 'acme/shop', {}, 403],
    ['one that his own credential opens', 'bob', 'acme/bobs', {}, 200],
    [
      "one that only everybody's credential opens, which she has another one for",
      'alice',
      'acme/team',
      {},
      403,
    ],
    ['a wrong name', 'alice', 'acme/none', {}, 403],
    ['a wrong owner', 'bob', 'missing/public', {}, 403],
    [
      'one of another host, by an older protocol',
      'bob',
      'group/sub/lib',
      { provider: 'gitlab' },
      200,
    ],
    ['a secret one of another host', 'alice', 'group/secret', { provider: 'gitlab' }, 200],
    ['the same without a credential', 'bob', 'group/secret', { provider: 'gitlab' }, 403],
    ['one of the first host on the second', 'alice', 'acme/public', { provider: 'gitlab' }, 403],
    ['one of a host that only serves files', 'bob', 'acme/files', { provider: 'forgejo' }, 200],
    ['a wrong name there', 'bob', 'acme/none', { provider: 'forgejo' }, 403],
    ['one of a host that does not answer', 'alice', 'acme/none', { provider: 'bitbucket' }, 200],
    ['one of a folder', 'alice', 'acme/none', { provider: 'azure_devops' }, 200],
    [
      'one of a host that is not configured',
      'alice',
      'acme/none',
      { provider: 'bitbucket_data_center' },
      200,
    ],
  ])('%s, by %s: %s %j gets %i', async (_name, owner, repository, wish, status) => {
    const before = await storedCount();
    const answer = await start(repository, { ...wish, key: keyOf(owner) });
    expect(answer.status).toBe(status);
    if (status === 200) return;
    expect(answer.json).toMatchObject({
      code: 'repository-access-denied',
      detail: `There is no repository ${repository}, or you have no access to it.`,
    });
    expect(await storedCount()).toBe(before);
  });

  it.each<[string, string, Wish, number]>([
    ['the default branch by its name', 'acme/many', { branch: 'trunk' }, 200],
    ['another branch', 'acme/many', { branch: 'a' }, 200],
    ['a branch with a slash', 'acme/many', { branch: 'feature/one' }, 200],
    ['the beginning of a branch', 'acme/many', { branch: 'feature' }, 422],
    ['a branch in other letters', 'acme/many', { branch: 'fix' }, 422],
    ['no branch of this name', 'acme/many', { branch: 'none' }, 422],
    ['a tag', 'acme/many', { branch: 'v1' }, 200],
    ['a tag with a slash', 'acme/many', { branch: 'release/v2' }, 200],
    [
      'the name of a full reference, which git clone does not take',
      'acme/many',
      { branch: 'refs/heads/a' },
      422,
    ],
    ['a detached HEAD, as a client of a checkout names it', 'acme/many', { branch: 'HEAD' }, 422],
    ['a commit, which git clone does not take', 'acme/many', { branch: 'c'.repeat(40) }, 422],
    ['a branch of a repository without commits', 'acme/empty', { branch: 'trunk' }, 422],
    ['a branch of a private repository', 'acme/shop', { branch: 'main' }, 200],
    ['no branch of a private repository', 'acme/shop', { branch: 'none' }, 422],
    ['a branch of a repository without access', 'acme/bobs', { branch: 'main' }, 403],
    [
      'a branch, by an older protocol',
      'group/sub/lib',
      { provider: 'gitlab', branch: 'develop' },
      200,
    ],
    ['a tag, by an older protocol', 'group/sub/lib', { provider: 'gitlab', branch: 'v1' }, 200],
    ['no branch, by an older protocol', 'group/sub/lib', { provider: 'gitlab', branch: 'v' }, 422],
    [
      'a branch of a host that only serves files',
      'acme/files',
      { provider: 'forgejo', branch: 'x' },
      200,
    ],
    [
      'a tag of a host that only serves files',
      'acme/files',
      { provider: 'forgejo', branch: 'v1' },
      200,
    ],
    [
      'no branch of a host that only serves files',
      'acme/files',
      { provider: 'forgejo', branch: 'none' },
      422,
    ],
    [
      'any branch of a host that does not answer',
      'acme/none',
      { provider: 'bitbucket', branch: 'none' },
      200,
    ],
    ['any branch of a folder', 'acme/none', { provider: 'azure_devops', branch: 'none' }, 200],
  ])('with %s: %s %j gets %i', async (_name, repository, wish, status) => {
    const before = await storedCount();
    const answer = await start(repository, wish);
    expect(answer.status).toBe(status);
    if (status !== 422) return;
    expect(answer.json).toMatchObject({
      code: 'branch-not-found',
      detail: `The repository ${repository} has no branch or tag ${wish.branch ?? ''}.`,
      errors: [{ path: 'body.selected_branch' }],
    });
    expect(await storedCount()).toBe(before);
  });

  it.each<[string, (request: IncomingMessage, response: ServerResponse) => unknown]>([
    ['fails', (_request, response) => response.writeHead(500).end()],
    ['talks nonsense', (_request, response) => response.writeHead(200).end('nonsense')],
    [
      'has more references of the beginning than are read',
      (_request, response) => {
        const line = (index: number) => packet(`${'1'.repeat(40)} refs/heads/none-${index}\n`);
        response
          .writeHead(200)
          .end(Array.from({ length: 40_000 }, (_, index) => line(index)).join(''));
      },
    ],
  ])(
    'with any branch is accepted where the host %s when it is asked for it',
    async (_name, fault) => {
      github.faults.set('acme/many', (request, response) =>
        request.method === 'POST' ? fault(request, response) : asUsual,
      );
      expect((await start('acme/many', { branch: 'none' })).status).toBe(200);
      expect(github.taken().map(({ method }) => method)).toEqual(['GET', 'POST']);
    },
  );

  it('with a branch asks the host once for a while, and soon again for one that is not there', async () => {
    for (let index = 0; index < 3; index++) {
      expect((await start('acme/many', { branch: 'a' })).status).toBe(200);
      expect((await start('acme/many', { branch: 'a', key: gateway.bob })).status).toBe(200);
      expect((await start('acme/many', { branch: 'none' })).status).toBe(422);
    }
    expect(github.taken().map(({ method }) => method)).toEqual(['GET', 'POST', 'GET', 'POST']);
    skippedMs += 11_000;
    await start('acme/many', { branch: 'a' });
    await start('acme/many', { branch: 'none' });
    expect(github.taken().map(({ method }) => method)).toEqual(['GET', 'POST']);
  });

  it('with a branch is refused alike on the stream and by the legacy interface', async () => {
    const body = { ...hello, selected_repository: 'acme/many', selected_branch: 'none' };
    expect(await gateway.post(`${path}/stream-start`, body)).toMatchObject({
      status: 422,
      json: { code: 'branch-not-found' },
    });
    const legacy = { initial_user_msg: 'Hello', repository: 'acme/many', selected_branch: 'none' };
    expect(await gateway.post('/api/conversations', legacy)).toMatchObject({
      status: 422,
      json: { code: 'branch-not-found' },
    });
  });

  it("is refused alike on the stream, and with the legacy interface's status there", async () => {
    const body = { ...hello, selected_repository: 'acme/none' };
    expect(await gateway.post(`${path}/stream-start`, body)).toMatchObject({
      status: 403,
      json: { code: 'repository-access-denied' },
    });
    const legacy = await gateway.post('/api/conversations', {
      initial_user_msg: 'Hello',
      repository: 'acme/none',
    });
    expect(legacy).toMatchObject({
      status: 401,
      json: { status: 401, code: 'repository-access-denied' },
    });
    expect(legacy.headers).toMatchObject({ 'www-authenticate': 'Bearer' });
    expect((await gateway.get('/api/v1/users/me')).status).toBe(200);
  });

  it('that is repeated finds its conversation, whatever the host says by then', async () => {
    const again = () =>
      gateway.post(
        path,
        { ...hello, selected_repository: 'acme/public' },
        { headers: { 'idempotency-key': 'k' } },
      );
    const first = await again();
    github.faults.set('acme/public', (_request, response) => response.writeHead(404).end());
    expire();
    expect((await again()).json).toMatchObject({ id: (first.json as { id: string }).id });
  });

  it('shows a secret only to the host that it is for, and only when none is not enough', async () => {
    await start('acme/public');
    await start('acme/shop');
    await start('group/secret', { provider: 'gitlab' });
    const authorization = `Basic ${Buffer.from(alices).toString('base64')}`;
    expect(github.taken()).toMatchObject([
      {
        method: 'GET',
        url: '/acme/public.git/info/refs?service=git-upload-pack',
        authorization: undefined,
        protocol: 'version=2',
      },
      { url: '/acme/shop.git/info/refs?service=git-upload-pack', authorization: undefined },
      { url: '/acme/shop.git/info/refs?service=git-upload-pack', authorization },
    ]);
    expect(gitlab.taken()).toMatchObject([
      { url: '/scm/group/secret.git/info/refs?service=git-upload-pack', authorization: undefined },
      { authorization },
    ]);
  });

  describe('at a host that', () => {
    const html = 'text/html; charset=utf-8';
    const smart = 'application/x-git-upload-pack-advertisement';
    it.each<[string, (response: ServerResponse) => void, number]>([
      ['fails', (response) => response.writeHead(500).end(), 200],
      ['is being maintained', (response) => response.writeHead(503).end(), 200],
      ['has had too many requests', (response) => response.writeHead(429).end(), 200],
      ['breaks off', (response) => void response.socket?.destroy(), 200],
      [
        'breaks off in the middle',
        (response) => void response.writeHead(200).write('x', () => response.socket?.destroy()),
        200,
      ],
      [
        'sends headers without end',
        (response) => void response.writeHead(200, { 'x-long': 'x'.repeat(100_000) }).end(),
        200,
      ],
      [
        'shows a page',
        (response) => response.writeHead(200, { 'content-type': html }).end('<html>Log in</html>'),
        200,
      ],
      [
        'talks nonsense',
        (response) => response.writeHead(200, { 'content-type': smart }).end('nonsense'),
        200,
      ],
      [
        'refuses within the protocol',
        (response) =>
          response.writeHead(200, { 'content-type': smart }).end('001cERR Repository not found'),
        403,
      ],
      ['has taken it down', (response) => response.writeHead(451).end(), 403],
      ['has it no more', (response) => response.writeHead(410).end(), 403],
      [
        'redirects to another host',
        (response) =>
          response.writeHead(302, { location: `${elsewhere.url}/acme/public.git/info/refs` }).end(),
        200,
      ],
      [
        'redirects to a page',
        (response) => response.writeHead(302, { location: '/login' }).end(),
        200,
      ],
      ['redirects nowhere', (response) => response.writeHead(302).end(), 200],
      [
        'redirects into nonsense',
        (response) => response.writeHead(302, { location: 'http://[' }).end(),
        200,
      ],
      [
        'redirects in a circle',
        (response) => response.writeHead(302, { location: '/acme/odd.git/info/refs' }).end(),
        200,
      ],
      [
        'redirects into a file',
        (response) => response.writeHead(302, { location: 'file:///etc/passwd' }).end(),
        200,
      ],
      [
        'has renamed it',
        (response) =>
          response
            .writeHead(301, { location: '/acme/public.git/info/refs?service=git-upload-pack' })
            .end(),
        200,
      ],
      [
        'has renamed it to a name that is gone',
        (response) => response.writeHead(301, { location: '/acme/none.git/info/refs' }).end(),
        403,
      ],
    ])('%s', async (_name, fault, status) => {
      github.faults.set('acme/odd', (_request, response) => fault(response));
      expect((await start('acme/odd')).status).toBe(status);
      expect(elsewhere.taken()).toEqual([]);
      expect(github.requests.length).toBeLessThanOrEqual(8);
    });

    it.each<[string, (response: ServerResponse) => void]>([
      ['hangs', () => undefined],
      [
        'hangs in the middle',
        (response) => void response.writeHead(200, { 'content-type': smart }).write('001e'),
      ],
    ])('%s is not waited for', async (_name, fault) => {
      github.faults.set('acme/odd', (_request, response) => fault(response));
      const begun = performance.now();
      for (let index = 0; index < 3; index++) {
        expect((await hasty.post(path, { ...hello, selected_repository: 'acme/odd' })).status).toBe(
          200,
        );
      }
      expect(github.taken()).toHaveLength(1);
      expect(performance.now() - begun).toBeGreaterThanOrEqual(impatienceMs - 5);
    });

    it('leads out of the folder of its repositories is not followed there', async () => {
      gitlab.faults.set('group/odd', (_request, response) =>
        response.writeHead(302, { location: '/other/x.git/info/refs' }).end(),
      );
      expect((await start('group/odd', { provider: 'gitlab' })).status).toBe(200);
      expect(gitlab.taken().map(({ url }) => url)).not.toContain('/other/x.git/info/refs');
    });

    it('sends without end is not read to the end', async () => {
      let sent = 0;
      github.faults.set('acme/odd', (_request, response) => {
        response.writeHead(200, { 'content-type': smart });
        const chunk = Buffer.from(
          `003d${'1'.repeat(40)} refs/heads/a-branch\n`.repeat(2000).slice(0, 61 * 2000),
        );
        const more = () => {
          while (!response.destroyed && response.write(chunk)) sent += chunk.length;
          sent += chunk.length;
        };
        response.on('drain', more);
        more();
      });
      expect((await start('acme/odd')).status).toBe(200);
      expect(sent).toBeLessThan(32 * 1024 * 1024);
    });

    it('could not be connected to is left alone for a while', async () => {
      await start('acme/any', { provider: 'bitbucket' });
      const back = await GitServer.start({ port: closed, repositories: {} });
      try {
        expect((await start('acme/none', { provider: 'bitbucket' })).status).toBe(200);
        expect(back.taken()).toEqual([]);
        skippedMs += 10_001;
        expect((await start('acme/none', { provider: 'bitbucket' })).status).toBe(403);
      } finally {
        await back.stop();
      }
    });

    it('is away is reported once, and once when it is back; not where it is', async () => {
      github.faults.set('acme/odd', (_request, response) => response.writeHead(503).end());
      await start('acme/odd');
      expire();
      await start('acme/odd');
      github.faults.clear();
      await start('acme/public');
      await start('acme/none', { provider: 'bitbucket' });
      expire();
      await start('acme/none', { provider: 'bitbucket' });
      const about = (provider: string) =>
        lines.filter(({ fields }) => fields['provider'] === provider).map(({ level }) => level);
      expect(about('github')).toEqual(['warn', 'info']);
      expect(about('bitbucket').length).toBeLessThanOrEqual(1);
      expect(JSON.stringify(lines)).not.toContain('127.0.0.1');
    });
  });

  describe('when it was asked before', () => {
    it('is not asked again for a while, whether it may be read or not', async () => {
      for (let index = 0; index < 3; index++) {
        expect((await start('acme/public')).status).toBe(200);
        expect((await start('acme/public', { key: gateway.bob })).status).toBe(200);
        expect((await start('acme/none')).status).toBe(403);
      }
      // Without a credential, and with alice's.
      expect(github.taken().map(({ url }) => url.split('.git')[0])).toEqual([
        '/acme/public',
        '/acme/none',
        '/acme/none',
      ]);
      skippedMs += 11_000;
      await start('acme/public');
      await start('acme/none');
      expect(github.taken().map(({ url }) => url.split('.git')[0])).toEqual([
        '/acme/none',
        '/acme/none',
      ]);
      skippedMs += 60_000;
      await start('acme/public');
      expect(github.taken()).toHaveLength(1);
    });

    it("lets one owner's questions hang, and is asked those of another all the same", async () => {
      const hanging: ServerResponse[] = [];
      const end = () => {
        for (const response of hanging.splice(0)) response.writeHead(401).end();
      };
      const names = Array.from({ length: 20 }, (_, index) => `acme/slow-${index}`);
      for (const name of names)
        github.faults.set(name, (_request, response) => void hanging.push(response));
      const slow = names.map((name) => start(name));
      await eventually('some hang', () => hanging.length > 0);
      expect(await start('acme/public', { key: gateway.bob })).toMatchObject({ status: 200 });
      expect(github.taken().length).toBeLessThanOrEqual(5);
      const ending = setInterval(end, 10);
      const statuses = (await Promise.all(slow)).map(({ status }) => status);
      clearInterval(ending);
      expect(new Set(statuses)).toEqual(new Set([403]));
    });

    it('asks once for a crowd', async () => {
      const crowd = await Promise.all(Array.from({ length: 20 }, () => start('acme/public')));
      expect(new Set(crowd.map(({ status }) => status))).toEqual(new Set([200]));
      expect(github.taken()).toHaveLength(1);
    });

    it("never takes one owner's answer for another's", async () => {
      expect((await start('acme/shop')).status).toBe(200);
      expect((await start('acme/shop', { key: gateway.bob })).status).toBe(403);
      expect((await start('acme/shop')).status).toBe(200);
    });

    it('asks again with a credential that was rotated on disk', async () => {
      expect((await start('acme/shop')).status).toBe(200);
      github.readers['acme/shop'] = [rotated];
      expire();
      expect((await start('acme/shop')).status).toBe(403);
      expect(lines).toContainEqual({
        level: 'warn',
        message: 'a git host does not accept a credential',
        fields: { provider: 'github', credential: 'github.alice' },
      });
      writeFileSync(join(folder, 'github.alice'), rotated);
      expect((await start('acme/shop')).status).toBe(200);
      github.readers['acme/shop'] = [alices];
      writeFileSync(join(folder, 'github.alice'), alices);
      expire();
      expect((await start('acme/shop')).status).toBe(200);
    });

    it('counts what came of it', async () => {
      await start('acme/public');
      expect(await metrics.registry.metrics()).toMatch(/git_checks_total\{result="granted"\} \d+/);
    });
  });

  describe('is found', () => {
    const branch = (name: string, commit_sha = github.commits.get('acme/many')) => ({
      name,
      commit_sha,
      protected: false,
    });
    const found = (name: string, isPublic: boolean, main: string, provider = 'github') => [
      { id: name, full_name: name, git_provider: provider, is_public: isPublic, main_branch: main },
    ];

    it.each<[string, string, unknown]>([
      ['provider=github&query=acme/many', 'alice', () => found('acme/many', true, 'trunk')],
      ['query=acme/many', 'bob', () => found('acme/many', true, 'trunk')],
      ['provider=github&query=acme/shop', 'alice', () => found('acme/shop', false, 'main')],
      ['provider=github&query=acme/shop', 'bob', () => []],
      ['provider=github&query=acme/none', 'alice', () => []],
      ['provider=github&query=acme/empty', 'alice', () => found('acme/empty', true, 'trunk')],
      [
        'provider=gitlab&query=group/sub/lib',
        'bob',
        () => found('group/sub/lib', true, 'develop', 'gitlab'),
      ],
      [
        'provider=gitlab&query=group/secret',
        'alice',
        () => found('group/secret', false, 'main', 'gitlab'),
      ],
      [
        'provider=forgejo&query=acme/files',
        'alice',
        () => found('acme/files', true, 'x', 'forgejo'),
      ],
      [
        'provider=bitbucket&query=acme/any',
        'alice',
        () => found('acme/any', true, 'main', 'bitbucket'),
      ],
      [
        'provider=azure_devops&query=acme/any',
        'alice',
        () => found('acme/any', true, 'main', 'azure_devops'),
      ],
      ['provider=github&query=acme', 'alice', () => []],
      ['provider=github', 'alice', () => []],
      ['provider=unknown&query=acme/many', 'alice', () => []],
    ])('by repositories/search?%s of %s', async (query, owner, expected) => {
      expect(await get(`repositories/search?${query}`, keyOf(owner))).toEqual(
        (expected as () => unknown)(),
      );
    });

    it('by its URL', async () => {
      expect(
        await get(
          `repositories/search?query=${encodeURIComponent(`${github.url}/acme/many/tree/a`)}`,
        ),
      ).toMatchObject([{ full_name: 'acme/many', main_branch: 'trunk' }]);
    });

    it.each<[string, unknown]>([
      [
        'provider=github&repository=acme/many&query=',
        () => [
          branch('trunk'),
          branch('Fix'),
          branch('a'),
          branch('feature/one'),
          branch('feature/two'),
        ],
      ],
      ['repository=acme/many&query=feature', () => [branch('feature/one'), branch('feature/two')]],
      ['repository=acme/many&query=fix', () => [branch('Fix')]],
      [
        'repository=acme/many&query=a',
        () => [branch('a'), branch('feature/one'), branch('feature/two')],
      ],
      ['repository=acme/many&query=nothing', () => []],
      ['repository=acme/many&query=&limit=2', () => [branch('trunk'), branch('Fix')]],
      ['repository=acme/empty&query=', () => []],
      ['repository=acme/none&query=', () => []],
      ['repository=..%2Fnone&query=', () => [branch('main', '')]],
      [
        'provider=gitlab&repository=group/sub/lib',
        () => [
          branch('develop', gitlab.commits.get('group/sub/lib')),
          branch('main', gitlab.commits.get('group/sub/lib')),
        ],
      ],
      [
        'provider=forgejo&repository=acme/files',
        () => [
          branch('x', plain.commits.get('acme/files')),
          branch('main', plain.commits.get('acme/files')),
        ],
      ],
      ['provider=bitbucket&repository=acme/any&query=topic', () => [branch('topic', '')]],
      ['provider=bitbucket&repository=acme/any', () => [branch('main', '')]],
    ])('with its branches, by branches/search?%s', async (query, expected) => {
      expect(await get(`branches/search?${query}`)).toEqual((expected as () => unknown)());
    });

    it('with the typed names when the host lists everything but these', async () => {
      github.faults.set('acme/many', (request, response) =>
        request.method === 'POST'
          ? response.writeHead(500).end()
          : response
              .writeHead(200, { 'content-type': 'application/x-git-upload-pack-advertisement' })
              .end('000eversion 2\n0000'),
      );
      expect(await get('repositories/search?query=acme/many')).toEqual(
        found('acme/many', true, 'main'),
      );
      expect(await get('branches/search?repository=acme/many&query=topic')).toEqual([
        branch('topic', ''),
      ]);
    });

    it('with its first branches where there are too many, and the typed name', async () => {
      const line = (name: string) =>
        `${(name.length + 57).toString(16).padStart(4, '0')}${'1'.repeat(40)} refs/heads/${name}\n`;
      github.faults.set('acme/many', (_request, response) => {
        response.writeHead(200, { 'content-type': 'application/x-git-upload-pack-advertisement' });
        response.end(Array.from({ length: 40_000 }, (_, index) => line(`topic-${index}`)).join(''));
      });
      expect(await get('branches/search?repository=acme/many&query=topic-7')).toMatchObject({
        length: 100,
        0: { name: 'topic-7' },
      });
      expect(await get('branches/search?repository=acme/many&query=topic-39999')).toEqual([
        branch('topic-39999', ''),
      ]);
    });

    it('with branches that are asked for once', async () => {
      await get('repositories/search?query=acme/many');
      await get('branches/search?repository=acme/many');
      await get('branches/search?repository=acme/many&query=fix');
      await start('acme/many');
      expect(github.taken().map(({ method }) => method)).toEqual(['GET', 'POST']);
    });
  });

  it('leaves no secret in a log or an answer', () => {
    const secrets = [alices, bobs, everybodys, rotated].flatMap((secret) => {
      const [, password = ''] = secret.split(':');
      return [password, Buffer.from(secret).toString('base64')];
    });
    const everything = JSON.stringify([gateway.log, lines, answers]);
    expect(answers.length).toBeGreaterThan(50);
    for (const secret of secrets) expect(everything).not.toContain(secret);
    for (const { origin } of [github, gitlab, plain])
      expect(JSON.stringify(answers)).not.toContain(origin);
  });
});
