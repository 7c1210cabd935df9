import { z } from 'zod';
import {
  commentBody,
  commentOf,
  description,
  encodedRepository,
  latest,
  line,
  login,
  maxComments,
  name,
  pageUrl,
  path,
  pullRequestNumber,
  repositoryName,
  segmentsOf,
  time,
  title,
} from './fields.ts';
import type { ApiTarget, HostApi, PullRequest, PullRequestComment } from './host-api.ts';
import type { JsonApi, Refusal } from './json-api.ts';

export const githubHeaders = {
  accept: 'application/vnd.github+json',
  'x-github-api-version': '2022-11-28',
};

const pull = z.object({
  number: pullRequestNumber(),
  html_url: pageUrl(),
  state: z.enum(['open', 'closed']),
  draft: z.boolean().optional(),
  merged: z.boolean().optional(),
  merged_at: z.string().nullish(),
  title: title(),
  // `repo` is null if the fork was deleted.
  head: z.object({ ref: name(), repo: z.object({ id: z.int() }).nullish() }),
  base: z.object({ ref: name(), repo: z.object({ id: z.int() }) }),
});
const details = pull.extend({ body: description(), comments: z.int().nonnegative() });
const user = login();
const comment = z
  .object({
    user,
    body: commentBody().nullish(),
    created_at: time(),
    path: path().nullish(),
    line: line(),
    original_line: line(),
  })
  .transform((each) =>
    commentOf({
      author: each.user,
      body: each.body ?? '',
      time: each.created_at,
      path: each.path,
      // After a later push has removed the line, the comment only has `original_line`.
      line: each.line ?? each.original_line,
    }),
  );

function pullRequestOf(each: z.output<typeof pull>): PullRequest {
  const isMerged = each.merged === true || typeof each.merged_at === 'string';
  return {
    number: each.number,
    url: each.html_url,
    state: isMerged ? 'merged' : each.state,
    isDraft: each.draft === true,
    title: each.title,
    head: each.head.ref,
    base: each.base.ref,
  };
}

/** GitHub responds with 422 to all rejected values; the text shows if a pull request exists. */
const refusedAs = ({ status, text }: Refusal) =>
  status === 422 && text.includes('A pull request already exists') ? 'exists' : 'invalid';

const pageSize = 50;

/** The REST API of GitHub, and of GitHub Enterprise Server. */
export function githubApi(api: JsonApi): HostApi {
  const repositoryPath = (target: ApiTarget) => `/repos/${encodedRepository(target)}`;
  const pullPath = (target: ApiTarget, number: number) =>
    `${repositoryPath(target)}/pulls/${number}`;
  const commentsPath = (target: ApiTarget, number: number) =>
    `${repositoryPath(target)}/issues/${number}/comments`;

  /** Comments on the pull request itself: the last two pages, because the oldest come first. */
  const discussion = async (target: ApiTarget, number: number, count: number) => {
    const last = Math.max(1, Math.ceil(count / pageSize));
    const pages = [last - 1, last].filter((page) => page > 0);
    const found = await Promise.all(
      pages.map((page) =>
        api.ask(
          target,
          { path: commentsPath(target, number), query: { per_page: pageSize, page } },
          z.array(comment),
        ),
      ),
    );
    return found.flat();
  };
  const onChanges = (target: ApiTarget, number: number): Promise<PullRequestComment[]> =>
    api.ask(
      target,
      {
        path: `${pullPath(target, number)}/comments`,
        query: { sort: 'created', direction: 'desc', per_page: maxComments },
      },
      z.array(comment),
    );

  return {
    repository: async (target) => {
      const schema = z.object({ full_name: repositoryName(), default_branch: name() });
      const found = await api.ask(target, { path: repositoryPath(target) }, schema);
      return { name: found.full_name, defaultBranch: found.default_branch };
    },
    create: async (target, { title: text, body, head, base, draft }) =>
      pullRequestOf(
        await api.ask(
          target,
          {
            path: `${repositoryPath(target)}/pulls`,
            body: { title: text, body, head, base, draft },
            refusedAs,
          },
          pull,
        ),
      ),
    openOf: async (target, head) => {
      const [owner = ''] = segmentsOf(target);
      const query = { head: `${owner}:${head}`, state: 'open', per_page: 100 };
      const found = await api.ask(
        target,
        { path: `${repositoryPath(target)}/pulls`, query },
        z.array(pull),
      );
      // GitHub ignores an invalid filter, and a fork may have a branch with this name. Therefore
      // the results are filtered again.
      const own = found.find(
        (each) =>
          each.state === 'open' &&
          each.head.ref === head &&
          each.head.repo?.id === each.base.repo.id,
      );
      return own === undefined ? undefined : pullRequestOf(own);
    },
    get: async (target, number) =>
      pullRequestOf(await api.ask(target, { path: pullPath(target, number) }, pull)),
    details: async (target, number) => {
      const found = await api.ask(target, { path: pullPath(target, number) }, details);
      const comments = await Promise.all([
        discussion(target, number, found.comments),
        onChanges(target, number),
      ]);
      return { ...pullRequestOf(found), body: found.body, comments: latest(comments.flat()) };
    },
    comment: async (target, number, body) => {
      // The path of comments accepts issues too, so this request checks for a pull request.
      await api.ask(target, { path: pullPath(target, number) }, pull);
      const schema = z.object({ html_url: pageUrl() });
      const made = await api.ask(
        target,
        { path: commentsPath(target, number), body: { body } },
        schema,
      );
      return { url: made.html_url };
    },
  };
}
