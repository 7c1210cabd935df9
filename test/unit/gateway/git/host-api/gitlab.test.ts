import { directly } from '@conversation-operator/outward/outward';
import { newHostApis, type HostApis } from '../../../../../src/gateway/git/host-api/host-apis.ts';
import type { HostApi } from '../../../../../src/gateway/git/host-api/host-api.ts';
import { startJsonHost, type JsonAnswer, type JsonHost } from '../../../../support/json-host.ts';

/** A merge request as GitLab shows it, in part. */
const aRequest = (fields: object = {}) => ({
  id: 900,
  iid: 5,
  project_id: 3,
  state: 'opened',
  draft: false,
  work_in_progress: false,
  title: 'Fix',
  description: 'Because.',
  user_notes_count: 0,
  merge_status: 'can_be_merged',
  source_branch: 'agent/fix',
  target_branch: 'main',
  source_project_id: 3,
  target_project_id: 3,
  web_url: 'https://gitlab.example/group/sub/lib/-/merge_requests/5',
  ...fields,
});
const aNote = (at: number, fields: object = {}) => ({
  id: at,
  type: null,
  body: `note ${at}`,
  system: false,
  resolvable: false,
  author: { id: 1, username: 'alice', name: 'Alice' },
  created_at: new Date(Date.UTC(2030, 0, 1) + at * 1000).toISOString(),
  ...fields,
});
const found = {
  number: 5,
  url: 'https://gitlab.example/group/sub/lib/-/merge_requests/5',
  state: 'open',
  isDraft: false,
  title: 'Fix',
  head: 'agent/fix',
  base: 'main',
};
const project = '/base/api/v4/projects/group%2Fsub%2Flib';

describe('merge requests of GitLab', () => {
  let answers: Record<string, JsonAnswer>;
  let gitlab: JsonHost;
  let apis: HostApis;
  let api: HostApi;
  const target = {
    repository: 'group/sub/lib',
    token: 's3cret',
    signal: new AbortController().signal,
  };

  beforeEach(async () => {
    answers = {};
    gitlab = await startJsonHost(({ method, target: url }) => {
      const answer = answers[`${method} ${url.split('?')[0]?.replace(project, '') ?? ''}`];
      return answer ?? { status: 404, body: { message: '404 Project Not Found' } };
    });
    apis = newHostApis({ outward: directly, hosts: { gitlab: `${gitlab.url}/base` }, apiUrls: {} });
    api = apis.of('gitlab') as HostApi;
  });
  afterEach(async () => {
    await apis.close();
    await gitlab.close();
    for (const { headers } of gitlab.calls) expect(headers.authorization).toBe('Bearer s3cret');
  });

  it('have the present name of the project and its default branch', async () => {
    const path_with_namespace = 'acme/group/store';
    answers = { 'GET ': { body: { path_with_namespace, default_branch: 'trunk' } } };
    const expected = { name: path_with_namespace, defaultBranch: 'trunk' };
    expect(await api.repository(target)).toEqual(expected);
    expect(gitlab.targets).toEqual([`GET ${project}`]);
  });

  it.each([{}, { default_branch: null }, { default_branch: '' }])(
    'have no default branch in an empty project: %j',
    async (body) => {
      answers = { 'GET ': { body: { path_with_namespace: 'acme/shop', ...body } } };
      await expect(api.repository(target)).rejects.toMatchObject({
        code: 'not-found',
        message: 'The repository has no branch',
      });
    },
  );

  it.each<[string, object, object]>([
    ['an open one', {}, {}],
    ['a draft', { draft: true, title: 'Draft: Fix' }, { isDraft: true, title: 'Draft: Fix' }],
    ['a draft of an old GitLab', { draft: undefined, work_in_progress: true }, { isDraft: true }],
    ['a closed one', { state: 'closed' }, { state: 'closed' }],
    ['a merged one', { state: 'merged' }, { state: 'merged' }],
    ['one that is being merged', { state: 'locked' }, { state: 'open' }],
    ['one of a fork that is gone', { source_project_id: null }, {}],
  ])('are read: %s', async (_what, fields, expected) => {
    answers = { 'GET /merge_requests/5': { body: aRequest(fields) } };
    expect(await api.get(target, 5)).toEqual({ ...found, ...expected });
  });

  it.each<[string, object]>([
    ['an address that is none of the web', { web_url: 'data:text/html,x' }],
    ['no number', { iid: null }],
    ['an unknown state', { state: 'odd' }],
  ])('are refused with %s', async (_what, fields) => {
    answers = { 'GET /merge_requests/5': { body: aRequest(fields) } };
    await expect(api.get(target, 5)).rejects.toMatchObject({ code: 'unavailable' });
  });

  it.each<[string, boolean, string]>([
    ['Fix', false, 'Fix'],
    ['Fix', true, 'Draft: Fix'],
    ['draft: Fix', true, 'draft: Fix'],
  ])('are created: %s, as a draft: %s', async (title, draft, sent) => {
    answers = { 'POST /merge_requests': { status: 201, body: aRequest({ title: sent, draft }) } };
    const wish = { title, body: 'Because.', head: 'agent/fix', base: 'main', draft };
    expect(await api.create(target, wish)).toEqual({ ...found, title: sent, isDraft: draft });
    expect(gitlab.calls[0]?.body).toEqual({
      title: sent,
      description: 'Because.',
      source_branch: 'agent/fix',
      target_branch: 'main',
    });
  });

  it.each<[number, unknown, string, string]>([
    [
      409,
      { message: ['Another open merge request already exists for this source branch: !5'] },
      'exists',
      '409: Another open merge request already exists for this source branch: !5',
    ],
    [400, { message: { base: ['is invalid'] } }, 'invalid', '400: is invalid'],
    [422, { error: 'no' }, 'invalid', '422: no'],
    [403, { message: '403 Forbidden' }, 'denied', '403: 403 Forbidden'],
    [401, { message: 's3cret is no token' }, 'denied', '401: … is no token'],
  ])('are not created where GitLab answers %i %j', async (status, body, code, message) => {
    answers = { 'POST /merge_requests': { status, body } };
    const wish = { title: 'Fix', body: '', head: 'agent/fix', base: 'main', draft: false };
    await expect(api.create(target, wish)).rejects.toMatchObject({
      code,
      message: `The API of the git host answers ${message}`,
    });
  });

  it.each<[string, object[], number | undefined]>([
    ['none', [], undefined],
    ['the one of the branch', [aRequest()], 5],
    ['not that of a fork', [aRequest({ source_project_id: 4 })], undefined],
    ['not that of a fork that is gone', [aRequest({ source_project_id: null })], undefined],
    ['not that of another branch', [aRequest({ source_branch: 'x' })], undefined],
    ['not a merged one', [aRequest({ state: 'merged' })], undefined],
  ])('are found by their branch: %s', async (_what, body, expected) => {
    answers = { 'GET /merge_requests': { body } };
    expect((await api.openOf(target, 'agent/fix'))?.number).toBe(expected);
    expect(gitlab.targets).toEqual([
      `GET ${project}/merge_requests?source_branch=agent%2Ffix&state=opened&per_page=100`,
    ]);
  });

  it('have the notes of people, by time', async () => {
    const position = { new_path: 'src/a.ts', old_path: 'src/a.ts', new_line: null, old_line: 7 };
    answers = {
      'GET /merge_requests/5': { body: aRequest({ description: null }) },
      'GET /merge_requests/5/notes': {
        body: [
          aNote(4, { type: 'DiffNote', position }),
          aNote(3, { system: true, body: 'added 1 commit' }),
          aNote(2),
        ],
      },
    };
    expect(await api.details(target, 5)).toEqual({
      ...found,
      body: '',
      comments: [
        { author: 'alice', body: 'note 2', time: '2030-01-01T00:00:02.000Z' },
        {
          author: 'alice',
          body: 'note 4',
          time: '2030-01-01T00:00:04.000Z',
          path: 'src/a.ts',
          line: 7,
        },
      ],
    });
    expect(gitlab.targets).toContain(
      `GET ${project}/merge_requests/5/notes?sort=desc&order_by=created_at&per_page=100`,
    );
  });

  it('keep the latest 50 notes', async () => {
    answers = {
      'GET /merge_requests/5': { body: aRequest() },
      'GET /merge_requests/5/notes': {
        body: Array.from({ length: 100 }, (_, at) => aNote(100 - at)),
      },
    };
    const { comments } = await api.details(target, 5);
    expect([comments.length, comments[0]?.body, comments.at(-1)?.body]).toEqual([
      50,
      'note 51',
      'note 100',
    ]);
  });

  it('get comments, whose address is made from that of the request', async () => {
    answers = {
      'GET /merge_requests/5': { body: aRequest() },
      'POST /merge_requests/5/notes': { status: 201, body: aNote(77) },
    };
    expect(await api.comment(target, 5, 'Done.')).toEqual({ url: `${found.url}#note_77` });
    expect(gitlab.calls.at(-1)?.body).toEqual({ body: 'Done.' });
    await expect(api.comment(target, 6, 'Done.')).rejects.toMatchObject({ code: 'not-found' });
  });
});
