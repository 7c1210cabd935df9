import { z } from 'zod';
import { branch } from '../../http/fields.ts';
import {
  commentBody,
  commentOf,
  description,
  encodedRepository,
  latest,
  line,
  login,
  name,
  pageUrl,
  path,
  pullRequestNumber,
  repositoryName,
  time,
  title,
} from './fields.ts';
import {
  HostApiError,
  type ApiTarget,
  type HostApi,
  type HostRepository,
  type PullRequest,
  type PullRequestComment,
} from './host-api.ts';
import type { JsonApi, Refusal } from './json-api.ts';

const pull = z.object({
  number: pullRequestNumber(),
  html_url: pageUrl(),
  state: z.enum(['open', 'closed']),
  merged: z.boolean(),
  draft: z.boolean().optional(),
  title: title(),
  // The repository of `head` may be a deleted fork, so `repo_id` may be negative.
  head: z.object({ ref: name(), repo_id: z.int() }),
  base: z.object({ ref: name(), repo_id: z.int() }),
});
type Pull = z.output<typeof pull>;
const details = pull.extend({ body: description() });

const user = login();
const comment = z
  .object({
    user,
    body: commentBody(),
    created_at: time(),
    path: path().optional(),
    position: line(),
    original_position: line(),
  })
  .transform((each) =>
    commentOf({
      author: each.user,
      body: each.body,
      time: each.created_at,
      path: each.path,
      line: each.position || each.original_position,
    }),
  );
const review = z.object({
  id: z.int().positive(),
  user,
  body: commentBody().nullish(),
  submitted_at: time(),
  comments_count: z.int().nonnegative().optional(),
});

/** The titles by which Gitea and Forgejo recognize a draft, unless configured otherwise. */
const draftTitle = /^(wip:|\[wip\])/i;
const titleOf = (text: string, isDraft: boolean): string =>
  isDraft && !draftTitle.test(text) ? `WIP: ${text}` : text;

const pullRequestOf = (each: Pull): PullRequest => ({
  number: each.number,
  url: each.html_url,
  state: each.merged ? 'merged' : each.state,
  isDraft: each.draft ?? draftTitle.test(each.title),
  title: each.title,
  head: each.head.ref,
  base: each.base.ref,
});

const refusedAs = ({ status }: Refusal) => (status === 409 ? 'exists' : 'invalid');

const pageSize = 50;
/** Maximum pages of open pull requests that `openOf` reads. */
const maxPages = 5;
const maxReviews = 10;

const encodedBranch = (text: string): string => text.split('/').map(encodeURIComponent).join('/');

const undefinedIfMissing = (error: unknown): undefined => {
  if (error instanceof HostApiError && error.code === 'not-found') return undefined;
  throw error;
};

/** The REST API of Forgejo and Gitea, version 1. */
export function forgejoApi(api: JsonApi): HostApi {
  const repositoryPath = (target: ApiTarget) => `/repos/${encodedRepository(target)}`;
  const pullsPath = (target: ApiTarget) => `${repositoryPath(target)}/pulls`;
  const pullPath = (target: ApiTarget, number: number) => `${pullsPath(target)}/${number}`;
  const commentsPath = (target: ApiTarget, number: number) =>
    `${repositoryPath(target)}/issues/${number}/comments`;

  const repository = async (target: ApiTarget): Promise<HostRepository> => {
    const schema = z.object({ full_name: repositoryName(), default_branch: name() });
    const found = await api.ask(target, { path: repositoryPath(target) }, schema);
    return { name: found.full_name, defaultBranch: found.default_branch };
  };

  /** The open or closed pull request from `head` into the default branch, the usual base. */
  const intoDefaultBranch = async (target: ApiTarget, head: string): Promise<Pull | undefined> => {
    const { defaultBranch: base } = await repository(target);
    // The API has no path for a base with a slash.
    if (base.includes('/') || ![base, head].every((each) => branch().safeParse(each).success))
      return undefined;
    return api
      .ask(
        target,
        { path: `${pullsPath(target)}/${encodeURIComponent(base)}/${encodedBranch(head)}` },
        pull,
      )
      .catch(undefinedIfMissing);
  };

  const reviewsOf = async (target: ApiTarget, number: number) => {
    const pageOf = (page: number) =>
      api.list(
        target,
        { path: `${pullPath(target, number)}/reviews`, query: { page, limit: pageSize } },
        z.array(review),
      );
    const { items, total = 0 } = await pageOf(1);
    const last = Math.ceil(total / pageSize);
    return last > 1 ? [...items, ...(await pageOf(last)).items] : items;
  };

  /** The texts of the latest reviews, and their comments on lines of the changes. */
  const reviewComments = async (
    target: ApiTarget,
    number: number,
  ): Promise<readonly PullRequestComment[]> => {
    const reviews = await reviewsOf(target, number);
    const texts = reviews.flatMap(({ user: author, body, submitted_at }) =>
      typeof body === 'string' && body !== '' ? [{ author, body, time: submitted_at }] : [],
    );
    const withComments = reviews.filter(({ comments_count: count = 0 }) => count > 0);
    const onChanges = await Promise.all(
      withComments
        .slice(-maxReviews)
        .map(({ id }) =>
          api.ask(
            target,
            { path: `${pullPath(target, number)}/reviews/${id}/comments` },
            z.array(comment),
          ),
        ),
    );
    return [...texts, ...onChanges.flat()];
  };

  return {
    repository,
    create: async (target, { title: text, body, head, base, draft }) => {
      const request = {
        path: pullsPath(target),
        body: { title: titleOf(text, draft), body, head, base },
        refusedAs,
      };
      try {
        return pullRequestOf(await api.ask(target, request, pull));
      } catch (error) {
        if (!(error instanceof HostApiError && error.code === 'not-found')) throw error;
        // 404 means an unknown branch or an unknown repository; `repository` throws for the latter.
        await repository(target);
        throw new HostApiError('invalid', `The repository has no branch ${head} or ${base}`, {
          cause: error,
        });
      }
    },
    /** If the base is not the default branch, only 250 open pull requests are searched. */
    openOf: async (target, head) => {
      const isWanted = (each: Pull) =>
        each.state === 'open' && each.head.ref === head && each.head.repo_id === each.base.repo_id;
      const likely = await intoDefaultBranch(target, head);
      if (likely !== undefined && isWanted(likely)) return pullRequestOf(likely);
      for (let page = 1; page <= maxPages; page++) {
        const query = { state: 'open', sort: 'recentupdate', limit: pageSize, page };
        const pulls = await api.ask(target, { path: pullsPath(target), query }, z.array(pull));
        const own = pulls.find(isWanted);
        if (own !== undefined) return pullRequestOf(own);
        // A host may return fewer than `pageSize` items, so only an empty page is the last one.
        if (pulls.length === 0) return undefined;
      }
      return undefined;
    },
    get: async (target, number) =>
      pullRequestOf(await api.ask(target, { path: pullPath(target, number) }, pull)),
    details: async (target, number) => {
      const found = await api.ask(target, { path: pullPath(target, number) }, details);
      const comments = await Promise.all([
        api.ask(target, { path: commentsPath(target, number) }, z.array(comment)),
        reviewComments(target, number),
      ]);
      return { ...pullRequestOf(found), body: found.body, comments: latest(comments.flat()) };
    },
    comment: async (target, number, body) => {
      // The path of comments accepts issues too, so this request checks for a pull request.
      await api.ask(target, { path: pullPath(target, number) }, pull);
      const made = await api.ask(
        target,
        { path: commentsPath(target, number), body: { body } },
        z.object({ html_url: pageUrl() }),
      );
      return { url: made.html_url };
    },
  };
}
