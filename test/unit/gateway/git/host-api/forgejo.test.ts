import { directly } from '@conversation-operator/outward/outward';
import { newHostApis, type HostApis } from '../../../../../src/gateway/git/host-api/host-apis.ts';
import type { HostApi } from '../../../../../src/gateway/git/host-api/host-api.ts';
import { startJsonHost, type JsonAnswer, type JsonHost } from '../../../../support/json-host.ts';

/** A pull request as Gitea shows it, in part. */
const aPull = ({
  head = {},
  base = {},
  ...fields
}: { head?: object; base?: object; [field: string]: unknown } = {}) => ({
  id: 900,
  number: 5,
  state: 'open',
  merged: false,
  draft: false,
  title: 'Fix',
  body: 'Because.',
  comments: 0,
  html_url: 'http://forge.example/acme/shop/pulls/5',
  head: { label: 'agent/fix', ref: 'agent/fix', repo_id: 3, ...head },
  base: { label: 'main', ref: 'main', repo_id: 3, ...base },
  ...fields,
});
const timeOf = (at: number) =>
  new Date(Date.UTC(2030, 0, 1) + at * 1000).toISOString().replace('.000Z', '+00:00');
const aComment = (at: number, fields: object = {}) => ({
  id: at,
  body: `comment ${at}`,
  user: { id: 1, login: 'alice' },
  created_at: timeOf(at),
  ...fields,
});
const aReview = (id: number, fields: object = {}) => ({
  id,
  user: { id: 2, login: 'bob' },
  state: 'COMMENT',
  body: '',
  comments_count: 0,
  submitted_at: timeOf(id),
  ...fields,
});
const found = {
  number: 5,
  url: 'http://forge.example/acme/shop/pulls/5',
  state: 'open',
  isDraft: false,
  title: 'Fix',
  head: 'agent/fix',
  base: 'main',
};
const root = '/api/v1/repos/acme/shop';

describe('pull requests of Forgejo and Gitea', () => {
  let answers: Record<string, JsonAnswer>;
  let forge: JsonHost;
  let apis: HostApis;
  let api: HostApi;
  const target = { repository: 'acme/shop', token: 's3cret', signal: new AbortController().signal };

  beforeEach(async () => {
    answers = { 'GET ': { body: { full_name: 'acme/shop', default_branch: 'main' } } };
    forge = await startJsonHost(({ method, target: url }) => {
      const path = url.replace(root, '');
      const answer =
        answers[`${method} ${path}`] ?? answers[`${method} ${path.split('?')[0] ?? ''}`];
      return answer ?? { status: 404, body: { message: 'not found', errors: null } };
    });
    apis = newHostApis({ outward: directly, hosts: { forgejo: forge.url }, apiUrls: {} });
    api = apis.of('forgejo') as HostApi;
  });
  afterEach(async () => {
    await apis.close();
    await forge.close();
    for (const { headers } of forge.calls) expect(headers.authorization).toBe('token s3cret');
  });

  it('have the present name of the repository and its default branch', async () => {
    answers = { 'GET ': { body: { full_name: 'acme/Store', default_branch: 'trunk' } } };
    expect(await api.repository(target)).toEqual({ name: 'acme/Store', defaultBranch: 'trunk' });
  });

  it.each<[string, Record<string, unknown>, object]>([
    ['an open one', {}, {}],
    ['a draft', { draft: true, title: 'WIP: Fix' }, { isDraft: true, title: 'WIP: Fix' }],
    [
      'a draft of an old version',
      { draft: undefined, title: '[wip] Fix' },
      { isDraft: true, title: '[wip] Fix' },
    ],
    ['none of an old version', { draft: undefined }, {}],
    ['a closed one', { state: 'closed' }, { state: 'closed' }],
    ['a merged one', { state: 'closed', merged: true }, { state: 'merged' }],
    [
      'one whose branch is gone',
      { head: { ref: 'refs/pull/5/head', repo_id: -1 } },
      { head: 'refs/pull/5/head' },
    ],
  ])('are read: %s', async (_what, fields, expected) => {
    answers = { 'GET /pulls/5': { body: aPull(fields) } };
    expect(await api.get(target, 5)).toEqual({ ...found, ...expected });
  });

  it.each<[string, Record<string, unknown>]>([
    ['an address that is none of the web', { html_url: 'ftp://forge/x' }],
    ['a negative number', { number: -5 }],
    ['no word whether it is merged', { merged: undefined }],
  ])('are refused with %s', async (_what, fields) => {
    answers = { 'GET /pulls/5': { body: aPull(fields) } };
    await expect(api.get(target, 5)).rejects.toMatchObject({ code: 'unavailable' });
  });

  it.each<[string, boolean, string]>([
    ['Fix', false, 'Fix'],
    ['Fix', true, 'WIP: Fix'],
    ['[WIP] Fix', true, '[WIP] Fix'],
  ])('are created: %s, as a draft: %s', async (title, draft, sent) => {
    answers = { 'POST /pulls': { status: 201, body: aPull({ title: sent, draft }) } };
    const wish = { title, body: 'Because.', head: 'agent/fix', base: 'main', draft };
    expect(await api.create(target, wish)).toEqual({ ...found, title: sent, isDraft: draft });
    expect(forge.calls[0]?.body).toEqual({
      title: sent,
      body: 'Because.',
      head: 'agent/fix',
      base: 'main',
    });
  });

  it.each<[string, JsonAnswer, Record<string, JsonAnswer>, string]>([
    ['one exists', { status: 409 }, {}, 'exists'],
    ['a value is wrong', { status: 422 }, {}, 'invalid'],
    ['the token may not', { status: 403 }, {}, 'denied'],
    ['the repository is archived', { status: 423 }, {}, 'denied'],
    ['a branch is unknown', { status: 404 }, {}, 'invalid'],
    ['the repository is unknown', { status: 404 }, { 'GET ': { status: 404 } }, 'not-found'],
    ['the host fails', { status: 500 }, {}, 'unavailable'],
  ])('are not created where %s', async (_what, answer, more, code) => {
    answers = { ...answers, 'POST /pulls': answer, ...more };
    const wish = { title: 'Fix', body: '', head: 'agent/fix', base: 'main', draft: false };
    await expect(api.create(target, wish)).rejects.toMatchObject({ code });
  });

  it('into the default branch are found by one request', async () => {
    answers['GET /pulls/main/agent/fix'] = { body: aPull() };
    expect(await api.openOf(target, 'agent/fix')).toEqual(found);
    expect(forge.targets).toEqual([`GET ${root}`, `GET ${root}/pulls/main/agent/fix`]);
  });

  it('are found behind a closed one of the same branches', async () => {
    answers['GET /pulls/main/agent/fix'] = { body: aPull({ number: 2, state: 'closed' }) };
    answers['GET /pulls'] = { body: [aPull()] };
    expect(await api.openOf(target, 'agent/fix')).toEqual(found);
  });

  it.each<[string, object[], number | undefined]>([
    ['none', [], undefined],
    ['one into another branch', [aPull({ base: { ref: 'next' } })], 5],
    ['not that of a fork', [aPull({ head: { repo_id: 4 } })], undefined],
    ['not that of another branch', [aPull({ head: { ref: 'x' } })], undefined],
    ['not a closed one', [aPull({ state: 'closed' })], undefined],
  ])('are found by their branch: %s', async (_what, body, expected) => {
    answers['GET /pulls?state=open&sort=recentupdate&limit=50&page=1'] = { body };
    answers['GET /pulls?state=open&sort=recentupdate&limit=50&page=2'] = { body: [] };
    expect((await api.openOf(target, 'agent/fix'))?.number).toBe(expected);
  });

  it.each([
    ['a slash', 'release/1', 'agent/fix'],
    ['dots', 'main', '../..'],
  ])('are searched for in pages where a branch has %s', async (_what, base, head) => {
    answers['GET '] = { body: { full_name: 'acme/shop', default_branch: base } };
    answers['GET /pulls'] = { body: [aPull({ head: { ref: head } })] };
    expect(await api.openOf(target, head)).toEqual({ ...found, head });
    expect(forge.targets).toEqual([
      `GET ${root}`,
      `GET ${root}/pulls?state=open&sort=recentupdate&limit=50&page=1`,
    ]);
  });

  it('are searched for in five pages', async () => {
    const others = Array.from({ length: 50 }, (_, at) => aPull({ head: { ref: `other-${at}` } }));
    answers['GET /pulls'] = { body: others };
    expect(await api.openOf(target, 'agent/fix')).toBeUndefined();
    expect(forge.targets.filter((each) => each.includes('page='))).toHaveLength(5);
  });

  it('are not found while the host fails', async () => {
    answers['GET /pulls/main/agent/fix'] = { status: 500 };
    await expect(api.openOf(target, 'agent/fix')).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('have their comments, reviews and comments on changes, by time', async () => {
    answers = {
      'GET /pulls/5': { body: aPull({ body: '' }) },
      'GET /issues/5/comments': { body: [aComment(1), aComment(5, { user: null })] },
      'GET /pulls/5/reviews': {
        body: [aReview(2, { body: 'Not yet.', comments_count: 2 }), aReview(6)],
      },
      'GET /pulls/5/reviews/2/comments': {
        body: [
          aComment(3, { path: 'a.ts', position: 7, original_position: 0 }),
          aComment(4, { path: 'b.ts', position: 0, original_position: 9 }),
        ],
      },
    };
    expect(await api.details(target, 5)).toEqual({
      ...found,
      body: '',
      comments: [
        { author: 'alice', body: 'comment 1', time: timeOf(1) },
        { author: 'bob', body: 'Not yet.', time: timeOf(2) },
        { author: 'alice', body: 'comment 3', time: timeOf(3), path: 'a.ts', line: 7 },
        { author: 'alice', body: 'comment 4', time: timeOf(4), path: 'b.ts', line: 9 },
        { author: 'ghost', body: 'comment 5', time: timeOf(5) },
      ],
    });
  });

  it('have the latest of many comments and reviews', async () => {
    const reviews = Array.from({ length: 120 }, (_, at) =>
      aReview(at + 1, { comments_count: 1, body: '' }),
    );
    const paged = (page: number): JsonAnswer => ({
      headers: { 'x-total-count': '120' },
      body: reviews.slice(50 * (page - 1), 50 * page),
    });
    answers = {
      'GET /pulls/5': { body: aPull() },
      'GET /issues/5/comments': { body: Array.from({ length: 70 }, (_, at) => aComment(at)) },
      'GET /pulls/5/reviews?page=1&limit=50': paged(1),
      'GET /pulls/5/reviews?page=3&limit=50': paged(3),
      ...Object.fromEntries(
        reviews.map(({ id }) => [
          `GET /pulls/5/reviews/${id}/comments`,
          { body: [aComment(1000 + id, { path: 'a.ts', position: 1 })] },
        ]),
      ),
    };
    const { comments } = await api.details(target, 5);
    expect([comments.length, comments[0]?.body, comments.at(-1)?.body]).toEqual([
      50,
      'comment 30',
      'comment 1120',
    ]);
    expect(forge.calls).toHaveLength(14);
  });

  it('get comments, where the number is that of a pull request', async () => {
    answers = {
      'GET /pulls/5': { body: aPull() },
      'POST /issues/5/comments': {
        status: 201,
        body: aComment(1, { html_url: `${found.url}#issuecomment-1` }),
      },
    };
    expect(await api.comment(target, 5, 'Done.')).toEqual({ url: `${found.url}#issuecomment-1` });
    expect(forge.calls.at(-1)?.body).toEqual({ body: 'Done.' });
    await expect(api.comment(target, 6, 'Done.')).rejects.toMatchObject({ code: 'not-found' });
  });
});
