import { directly } from '@conversation-operator/outward/outward';
import { newHostApis, type HostApis } from '../../../../../src/gateway/git/host-api/host-apis.ts';
import type { HostApi } from '../../../../../src/gateway/git/host-api/host-api.ts';
import {
  githubError,
  startGithubApi,
  type GithubAnswer,
  type GithubApi,
} from '../../../../support/github-api.ts';
import { githubExample } from '../../../../support/github-schema.ts';

type Fields = Readonly<Record<string, unknown>>;

/** A pull request as GitHub shows it; the example is one of acme/shop itself. */
function aPull({
  head = {},
  base = {},
  ...fields
}: { head?: object; base?: object } & Fields = {}) {
  const example = githubExample('pull') as { head: object; base: { repo: object } } & Fields;
  return {
    ...example,
    number: 5,
    html_url: 'https://github.com/acme/shop/pull/5',
    title: 'Fix',
    draft: false,
    state: 'open',
    merged: false,
    merged_at: null,
    comments: 0,
    body: 'Because.',
    head: { ...example.head, ref: 'agent/fix', repo: example.base.repo, ...head },
    base: { ...example.base, ref: 'main', ...base },
    ...fields,
  };
}
const fork = { repo: { ...(aPull().base as { repo: object }).repo, id: 99 } };
const found = {
  number: 5,
  url: 'https://github.com/acme/shop/pull/5',
  state: 'open',
  isDraft: false,
  title: 'Fix',
  head: 'agent/fix',
  base: 'main',
};

const aComment = (at: number, fields: Fields = {}) => ({
  ...githubExample('comment'),
  body: `comment ${at}`,
  created_at: new Date(Date.UTC(2030, 0, 1) + at * 1000).toISOString().replace('.000', ''),
  ...fields,
});
const aReviewComment = (at: number, fields: Fields = {}) => ({
  ...githubExample('reviewComment'),
  ...aComment(at),
  pull_request_review_id: 1,
  ...fields,
});

describe('pull requests of GitHub', () => {
  const repository = { full: {} as Fields };
  let pulls: unknown[];
  let pull: unknown;
  let comments: unknown[];
  let reviewComments: unknown[];
  let created: GithubAnswer;
  let github: GithubApi;
  let apis: HostApis;
  let api: HostApi;
  const target = { repository: 'acme/shop', token: 's3cret', signal: new AbortController().signal };

  beforeEach(async () => {
    [pulls, pull, comments, reviewComments] = [[], aPull(), [], []];
    created = { status: 201, body: aPull() };
    const { repo } = aPull().base as unknown as { repo: Fields };
    repository.full = {
      ...repo,
      default_branch: 'trunk',
      network_count: 0,
      subscribers_count: 0,
      language: null,
      allow_rebase_merge: true,
    };
    github = await startGithubApi({
      'GET /repos/{owner}/{repo}': ({ params }) =>
        params['repo'] === 'shop'
          ? { status: 200, body: repository.full }
          : githubError(404, 'Not Found'),
      'GET /repos/{owner}/{repo}/pulls': () => ({ status: 200, body: pulls }),
      'POST /repos/{owner}/{repo}/pulls': () => created,
      'GET /repos/{owner}/{repo}/pulls/{pull_number}': ({ params }) =>
        params['pull_number'] === '5' ? { status: 200, body: pull } : githubError(404, 'Not Found'),
      'GET /repos/{owner}/{repo}/pulls/{pull_number}/comments': ({ query }) => {
        const { sort, direction, per_page: size } = query;
        expect([sort, direction]).toEqual(['created', 'desc']);
        return { status: 200, body: reviewComments.toReversed().slice(0, Number(size)) };
      },
      'GET /repos/{owner}/{repo}/issues/{issue_number}/comments': ({ query }) => {
        const [size, page] = [Number(query['per_page']), Number(query['page'])];
        return { status: 200, body: comments.slice(size * (page - 1), size * page) };
      },
      'POST /repos/{owner}/{repo}/issues/{issue_number}/comments': ({ body }) => ({
        status: 201,
        body: aComment(1, { ...body, html_url: 'https://github.com/acme/shop/pull/5#c-1' }),
      }),
    });
    apis = newHostApis({
      outward: directly,
      hosts: { github: 'https://github.com' },
      apiUrls: { github: github.url },
    });
    api = apis.of('github') as HostApi;
  });
  afterEach(async () => {
    await apis.close();
    await github.close();
    expect(github.violations).toEqual([]);
    for (const { headers } of github.calls)
      expect(headers).toMatchObject({
        authorization: 'Bearer s3cret',
        accept: 'application/vnd.github+json',
        'x-github-api-version': '2022-11-28',
      });
  });

  it('have the present name of the repository and its default branch', async () => {
    const expected = { name: expect.stringContaining('/') as string, defaultBranch: 'trunk' };
    expect(await api.repository(target)).toEqual(expected);
    await expect(api.repository({ ...target, repository: 'acme/none' })).rejects.toMatchObject({
      code: 'not-found',
    });
  });

  it.each(['..', 'acme/..', '../../user', 'acme', 'acme/a b', ''])(
    'are not asked for in %j',
    async (name) => {
      const wrong = { ...target, repository: name };
      await expect(api.repository(wrong)).rejects.toMatchObject({ code: 'not-found' });
      await expect(api.openOf(wrong, 'x')).rejects.toMatchObject({ code: 'not-found' });
      expect(github.calls).toEqual([]);
    },
  );

  it.each<[string, Fields, object]>([
    ['an open one', {}, {}],
    ['a draft', { draft: true }, { isDraft: true }],
    ['a closed one', { state: 'closed' }, { state: 'closed' }],
    [
      'a merged one',
      { state: 'closed', merged: true, merged_at: '2030-01-01T00:00:00Z' },
      { state: 'merged' },
    ],
    [
      'one with a hostile title',
      { title: `\u001b[2J${'x'.repeat(2000)}` },
      { title: `[2J${'x'.repeat(509)}` },
    ],
    ['one with a user in its address', { html_url: 'https://u:p@github.com/acme/shop/pull/5' }, {}],
  ])('are read: %s', async (_what, fields, expected) => {
    pull = aPull(fields);
    expect(await api.get(target, 5)).toEqual({ ...found, ...expected });
  });

  // GitHub's description knows no pull request of a fork that is gone; GitHub does.
  it('are read and not found by their branch where their fork is gone', async () => {
    const orphan = aPull({ head: { repo: null } });
    github.outage = { status: 200, body: orphan };
    expect(await api.get(target, 5)).toEqual(found);
    github.outage = { status: 200, body: [orphan] };
    expect(await api.openOf(target, 'agent/fix')).toBeUndefined();
  });

  it.each<[string, Fields]>([
    ['an address that is none of the web', { html_url: 'javascript:alert(1)' }],
    ['number 0', { number: 0 }],
    ['a number beyond the integers', { number: 2 ** 53 }],
    ['a state that does not exist', { state: 'locked' }],
    ['no title', { title: undefined }],
  ])('are refused with %s', async (_what, fields) => {
    github.outage = { status: 200, body: aPull(fields) };
    await expect(api.get(target, 5)).rejects.toMatchObject({ code: 'unavailable' });
  });

  it('are created', async () => {
    created = { status: 201, body: aPull({ draft: true }) };
    const wish = { title: 'Fix', body: 'Because.', head: 'agent/fix', base: 'main', draft: true };
    expect(await api.create(target, wish)).toEqual({ ...found, isDraft: true });
    expect(github.calls.map(({ body }) => body)).toEqual([wish]);
  });

  it.each<[string, number, object, string]>([
    [
      'exists',
      422,
      { errors: [{ message: 'A pull request already exists for acme:agent/fix.' }] },
      'exists',
    ],
    ['has no commits', 422, { errors: [{ message: 'No commits between main and x' }] }, 'invalid'],
    ['has no branch', 422, { errors: [{ field: 'head', code: 'invalid' }] }, 'invalid'],
    ['is not permitted', 403, {}, 'denied'],
    ['is one of an unknown repository', 404, {}, 'not-found'],
  ])('are not created where one %s', async (_what, status, body, code) => {
    created = { status, body: { message: 'Validation Failed', ...body } };
    const wish = { title: 'Fix', body: '', head: 'agent/fix', base: 'main', draft: false };
    await expect(api.create(target, wish)).rejects.toMatchObject({ code });
  });

  it.each<[string, object[], number | undefined]>([
    ['none', [], undefined],
    ['the one of the branch', [aPull()], 5],
    ['not that of a fork', [aPull({ head: fork })], undefined],
    ['not that of another branch', [aPull({ head: { ref: 'other' } })], undefined],
    ['not a closed one', [aPull({ state: 'closed' })], undefined],
    ['the own one behind that of a fork', [aPull({ head: fork, number: 4 }), aPull()], 5],
  ])('are found by their branch: %s', async (_what, list, expected) => {
    pulls = list;
    expect((await api.openOf(target, 'agent/fix'))?.number).toBe(expected);
    expect(github.calls[0]?.query).toEqual({
      head: 'acme:agent/fix',
      state: 'open',
      per_page: '100',
    });
  });

  it('have their comments and those on their changes, by time', async () => {
    pull = aPull({ comments: 2, body: null });
    comments = [aComment(1), aComment(4, { user: null })];
    reviewComments = [
      aReviewComment(2, { path: 'src/a.ts', line: 7 }),
      aReviewComment(3, { path: 'src/b.ts', line: undefined, original_line: 9 }),
    ];
    expect(await api.details(target, 5)).toEqual({
      ...found,
      body: '',
      comments: [
        { author: 'octocat', body: 'comment 1', time: '2030-01-01T00:00:01Z' },
        {
          author: 'octocat',
          body: 'comment 2',
          time: '2030-01-01T00:00:02Z',
          path: 'src/a.ts',
          line: 7,
        },
        {
          author: 'octocat',
          body: 'comment 3',
          time: '2030-01-01T00:00:03Z',
          path: 'src/b.ts',
          line: 9,
        },
        { author: 'ghost', body: 'comment 4', time: '2030-01-01T00:00:04Z' },
      ],
    });
  });

  it.each([0, 1, 49, 50, 51, 120])('keep the latest 50 of %i comments', async (count) => {
    comments = Array.from({ length: count }, (_, at) => aComment(at));
    pull = aPull({ comments: count });
    const { comments: kept } = await api.details(target, 5);
    const all = Array.from({ length: count }, (_, at) => `comment ${at}`);
    expect(kept.map(({ body }) => body)).toEqual(all.slice(-50));
    expect(github.calls.length).toBeLessThanOrEqual(4);
  });

  it('have bounded texts', async () => {
    const text = `\u0007${'x'.repeat(60_000)}`;
    pull = aPull({ comments: 1, body: text });
    comments = [aComment(1, { body: text })];
    const { body, comments: kept } = await api.details(target, 5);
    expect([body.length, kept[0]?.body.length]).toEqual([16_384, 4_096]);
  });

  it('get comments', async () => {
    expect(await api.comment(target, 5, 'Done.')).toEqual({
      url: 'https://github.com/acme/shop/pull/5#c-1',
    });
    expect(github.calls.at(-1)?.body).toEqual({ body: 'Done.' });
  });

  it('get no comment where there is an issue of the number', async () => {
    await expect(api.comment(target, 6, 'Done.')).rejects.toMatchObject({ code: 'not-found' });
    expect(github.calls).toHaveLength(1);
  });
});
