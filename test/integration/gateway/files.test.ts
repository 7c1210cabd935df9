import { fakeAgent, type FakeAgent } from '../../unit/agent/fake-agent.ts';
import { newUuid } from '@conversation-operator/base/uuid';
import { maxFileBytes } from '../../../src/agent/workspace-files.ts';
import type { WorkspaceSnapshot } from '../../../src/archive/workspace-snapshot.ts';
import type { ArchiveStatus, StartStatus } from '../../../src/resources/conversation-status.ts';
import type { SandboxState } from '../../../src/resources/sandbox.ts';
import { FakeHistory, headOf, storedEvents } from '../../support/gateway/fake-history.ts';
import { TestGateway } from '../../support/gateway/test-gateway.ts';

const time = '2026-01-01T00:00:00Z';
const snapshot: WorkspaceSnapshot = {
  version: 1,
  workingDir: '/workspace/project',
  takenAt: time,
  files: ['of the snapshot'],
  filesTruncated: false,
  changes: [],
  diffs: {},
  diffsTruncated: false,
};
const is = (type: string) => ({
  type,
  status: 'True' as const,
  reason: type,
  message: '',
  lastTransitionTime: time,
});

describe('the files of a conversation', () => {
  let gateway: TestGateway;
  let agent: FakeAgent;
  beforeEach(async () => {
    gateway = await TestGateway.start();
  });
  afterEach(async () => {
    await gateway.stop();
  });

  const id = newUuid(Date.now());
  const base = `/api/v1/app-conversations/${id}`;
  const bash = 'POST /api/bash/execute_bash_command';
  const folder = '/workspace/project';
  const setUp = async (
    answers: Parameters<typeof fakeAgent>[0] = {},
    wish: { replicas?: 0 | 1; start?: StartStatus; stops?: boolean; archive?: ArchiveStatus } = {},
  ) => {
    agent = await fakeAgent(answers);
    const running: SandboxState = {
      podIP: '127.0.0.1',
      agentPort: Number(new URL(agent.endpoint.baseUrl).port),
      conditions: [is('Admitted'), is('Ready')],
      ...(wish.stops === true ? { containerID: 'container-1' } : {}),
    };
    await gateway.addSandbox('sbx', { replicas: wish.replicas ?? 1, status: running });
    const start = wish.start ?? 'READY';
    await gateway.addConversation(id, {
      status: {
        start: { status: start, transitions: [{ status: start, time }] },
        sandboxName: 'sbx',
        workingDir: folder,
        ...(wish.archive === undefined ? {} : { archive: wish.archive }),
      },
    });
    return { [Symbol.asyncDispose]: () => agent[Symbol.asyncDispose]() };
  };
  const names = (...all: readonly string[]) =>
    Buffer.from(`\0\0${all.map((name) => `${name}\0`).join('')}`).toString('base64');

  it('are read from the agent, in the folder that the record shows', async () => {
    await using _agent = await setUp({
      [bash]: { body: { exit_code: 0, stdout: names('b', 'a/c') } },
      'GET /api/file/download': {
        text: 'the text',
        headers: { 'content-type': 'application/octet-stream' },
      },
      'GET /api/git/changes': { body: [{ status: 'ADDED', path: 'b', more: 1 }] },
      'GET /api/git/diff': { body: { modified: 'new', original: null } },
    });
    const [record] = (await gateway.get(`/api/v1/app-conversations?ids=${id}`)).json as {
      readonly workspace: { readonly working_dir: string };
    }[];
    expect(record?.workspace.working_dir).toBe(folder);
    expect(await gateway.get(`${base}/files?path=${folder}`)).toMatchObject({
      status: 200,
      json: ['a/c', 'b'],
    });
    expect(await gateway.get(`${base}/file?file_path=${folder}/a%20b`)).toMatchObject({
      status: 200,
      json: 'the text',
    });
    expect(await gateway.get(`${base}/git/changes?path=${folder}`)).toMatchObject({
      status: 200,
      json: [{ status: 'ADDED', path: 'b' }],
    });
    expect(await gateway.get(`${base}/git/diff?path=${folder}/b`)).toMatchObject({
      status: 200,
      json: { modified: 'new', original: null },
    });
    expect(agent.requests.map(({ route, query }) => [route, query['path']])).toEqual([
      [bash, undefined],
      ['GET /api/file/download', `${folder}/a b`],
      ['GET /api/git/changes', folder],
      ['GET /api/git/diff', `${folder}/b`],
    ]);
    const { body } = agent.requests[0] ?? {};
    expect((body as { readonly command: string }).command).toContain(`set -- '${folder}'`);
    const [sandbox] = gateway.caches.sandboxes.store.list();
    const key = gateway.keys.sessionKey(sandbox?.metadata.uid ?? '');
    for (const { headers } of agent.requests) expect(headers['x-session-api-key']).toBe(key);
  });

  const content = (path: string) => {
    const headers = { authorization: `Bearer ${gateway.alice}` };
    return fetch(`${gateway.url}${base}/file/content?file_path=${path}`, { headers });
  };

  it.each([
    ['an image', '\x89PNG\r\n\x1a\n\0\0', 'image/png'],
    ['a page', '<!doctype html><script>alert(1)</script>', 'application/octet-stream'],
    ['a drawing with scripts', '<svg onload="alert(1)"/>', 'application/octet-stream'],
    ['a page that begins late', 'GIF<script>', 'application/octet-stream'],
  ])('are downloads that are no documents: %s', async (_what, text, type) => {
    const bytes = Buffer.from(text, 'latin1');
    await using _agent = await setUp({
      'GET /api/file/download': { bytes, headers: { 'content-type': 'text/html' } },
    });
    const answer = await content(`${folder}/%E2%80%AE(a)'%22.png`);
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, type]);
    expect(answer.headers.get('content-disposition')).toBe(
      "attachment; filename*=UTF-8''%E2%80%AE%28a%29%27%22.png",
    );
    expect(answer.headers.get('content-security-policy')).toBe("default-src 'none'; sandbox");
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
    expect(Buffer.from(await answer.arrayBuffer())).toEqual(bytes);
  });

  it('that do not exist, or of which a pause has kept no text, have no content', async () => {
    await using _agent = await setUp();
    const answer = await content(`${folder}/absent`);
    expect([answer.status, await answer.json()]).toMatchObject([404, { code: 'not-found' }]);
    const history = new FakeHistory();
    const diffs = { a: { modified: 'now', original: '' }, b: { modified: '', original: '' } };
    history.files = () => Promise.resolve({ ...snapshot, diffs });
    await gateway.stop();
    gateway = await TestGateway.start({ history });
    const archive = { ...history.archived(storedEvents(1)), files: headOf(1) };
    await using _paused = await setUp({}, { replicas: 0, archive });
    expect(await (await content(`${folder}/a`)).text()).toBe('now');
    for (const name of ['b', 'c']) expect((await content(`${folder}/${name}`)).status).toBe(404);
  });

  it('that do not exist are empty', async () => {
    await using _agent = await setUp({ [bash]: { body: { exit_code: 0, stdout: null } } });
    expect(await gateway.get(`${base}/file?file_path=/absent`)).toMatchObject({
      status: 200,
      json: '',
    });
    expect(await gateway.get(`${base}/files?path=/absent`)).toMatchObject({ json: [] });
  });

  it('are read from the agent while the sandbox stops, and then from the snapshot', async () => {
    const history = new FakeHistory();
    history.files = () => Promise.resolve(snapshot);
    await gateway.stop();
    gateway = await TestGateway.start({ history });
    const answers = { [bash]: { body: { exit_code: 0, stdout: names('of the agent') } } };
    const archive = { ...history.archived(storedEvents(1)), files: headOf(1) };
    await using running = await setUp(answers, { replicas: 0, stops: true, archive });
    const files = async () => (await gateway.get(`${base}/files?path=${folder}`)).json;
    expect(await files()).toEqual(['of the agent']);
    await running[Symbol.asyncDispose]();
    expect(await files()).toEqual(['of the snapshot']);
  });

  it.each([
    'files',
    'files?path=',
    'files?path=relative',
    `files?path=/${'x'.repeat(4096)}`,
    'file?path=/a',
    'file?file_path=a',
    'git/changes?path=..',
    'git/diff?file_path=/a',
  ])('are not asked for by %.30s', async (query) => {
    await using _agent = await setUp();
    expect(await gateway.get(`${base}/${query}`)).toMatchObject({
      status: 422,
      json: { code: 'invalid-request' },
    });
    expect(agent.requests).toEqual([]);
  });

  it.each<[string, string, Parameters<typeof fakeAgent>[0], string]>([
    [
      'a binary file',
      'file?file_path=/a',
      { 'GET /api/file/download': { text: 'a\0b' } },
      'The file is no text.',
    ],
    [
      'a large file',
      'file?file_path=/a',
      { 'GET /api/file/download': { text: 'x'.repeat(maxFileBytes + 1) } },
      `The file has more than ${maxFileBytes} bytes.`,
    ],
    [
      'what git refuses',
      'git/diff?path=/a',
      { 'GET /api/git/diff': { status: 400, body: { detail: 'File does not exist: /a' } } },
      'The agent answered 400: File does not exist: /a',
    ],
    [
      'too many changes',
      'git/changes?path=/a',
      {
        'GET /api/git/changes': {
          body: Array.from({ length: 60_000 }, () => ({ status: 'ADDED', path: 'x'.repeat(60) })),
        },
      },
      'The repository has too many changes to show.',
    ],
    [
      'an agent that knows nothing of git',
      'git/changes?path=/a',
      {},
      'The agent does not report what git says.',
    ],
    [
      'a folder that takes too long',
      'files?path=/a',
      { [bash]: { body: { exit_code: -1, stdout: null } } },
      'The folder has too many files to list them in time.',
    ],
    ['an agent that lists nothing', 'files?path=/a', {}, 'The sandbox can not list its files.'],
    [
      'a sandbox without the programs',
      'files?path=/a',
      { [bash]: { body: { exit_code: 127, stdout: null } } },
      'The sandbox can not list its files.',
    ],
  ])('are refused with words: %s', async (_case, query, answers, detail) => {
    await using _agent = await setUp(answers);
    expect(await gateway.get(`${base}/${query}`)).toMatchObject({
      status: 422,
      json: { code: 'workspace-unreadable', detail },
    });
  });

  it.each<[string, { replicas?: 0 | 1; start?: StartStatus }]>([
    ['is paused', { replicas: 0 }],
    ['is starting', { start: 'WORKING' }],
  ])('are in no state to be read while the sandbox %s', async (_case, wish) => {
    await using _agent = await setUp({}, wish);
    for (const query of ['files?path=/a', 'file?file_path=/a', 'git/changes?path=/a'])
      expect(await gateway.get(`${base}/${query}`)).toMatchObject({
        status: 409,
        json: { code: 'wrong-state' },
      });
    expect(agent.requests).toEqual([]);
  });

  it.each([
    ['breaks off', 'reset' as const],
    ['answers with something else', { body: { error: true } }],
    ['fails', { status: 500, body: { detail: 'Internal Server Error' } }],
  ])('are unavailable where the agent %s', async (_case, answer) => {
    await using _agent = await setUp({ 'GET /api/git/changes': answer });
    expect(await gateway.get(`${base}/git/changes?path=/a`)).toMatchObject({
      status: 503,
      json: { code: 'unavailable' },
    });
  });

  it('are given up where the agent is silent', async () => {
    await gateway.stop();
    gateway = await TestGateway.start({ eventsFirstByteMs: 100 });
    await using _agent = await setUp({ 'GET /api/git/changes': 'hang' });
    expect(await gateway.get(`${base}/git/changes?path=/a`)).toMatchObject({
      status: 504,
      json: { code: 'agent-timeout' },
    });
  });
});
