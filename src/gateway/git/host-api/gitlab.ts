import { z } from 'zod';
import {
  commentBody,
  commentOf,
  description,
  latest,
  line,
  name,
  pageUrl,
  path,
  pullRequestNumber,
  repositoryName,
  segmentsOf,
  time,
  title,
} from './fields.ts';
import { HostApiError, type ApiTarget, type HostApi, type PullRequest } from './host-api.ts';
import type { JsonApi, Refusal } from './json-api.ts';

const mergeRequest = z.object({
  iid: pullRequestNumber(),
  web_url: pageUrl(),
  state: z.enum(['opened', 'closed', 'merged', 'locked']),
  draft: z.boolean().optional(),
  work_in_progress: z.boolean().optional(),
  title: title(),
  source_branch: name(),
  target_branch: name(),
  // `source_project_id` is null if the fork was deleted.
  source_project_id: z.int().nullish(),
  target_project_id: z.int(),
});
const details = mergeRequest.extend({ description: description() });
const position = z.object({
  new_path: path().nullish(),
  old_path: path().nullish(),
  new_line: line(),
  old_line: line(),
});
const note = z.object({
  author: z.object({ username: name() }),
  body: commentBody(),
  created_at: time(),
  /** GitLab adds a system note, which is no comment, for each push. */
  system: z.boolean(),
  position: position.nullish(),
});

/** GitLab locks a merge request during the merge, so `locked` counts as open. */
const states = { opened: 'open', closed: 'closed', merged: 'merged', locked: 'open' } as const;

const pullRequestOf = (each: z.output<typeof mergeRequest>): PullRequest => ({
  number: each.iid,
  url: each.web_url,
  state: states[each.state],
  isDraft: each.draft ?? each.work_in_progress ?? false,
  title: each.title,
  head: each.source_branch,
  base: each.target_branch,
});

/** GitLab recognizes a draft by the beginning of its title. */
const titleOf = (text: string, isDraft: boolean): string =>
  isDraft && !/^draft:/i.test(text) ? `Draft: ${text}` : text;

const refusedAs = ({ status }: Refusal) => (status === 409 ? 'exists' : 'invalid');

/** Twice `maxComments`, because half of the notes may be system notes. */
const notesPerPage = 100;

/** Merge requests by the REST API of GitLab, version 4. */
export function gitlabApi(api: JsonApi): HostApi {
  const projectPath = (target: ApiTarget) =>
    `/projects/${encodeURIComponent(segmentsOf(target).join('/'))}`;
  const requestsPath = (target: ApiTarget) => `${projectPath(target)}/merge_requests`;
  const requestPath = (target: ApiTarget, number: number) => `${requestsPath(target)}/${number}`;

  return {
    repository: async (target) => {
      const schema = z.object({
        path_with_namespace: repositoryName(),
        default_branch: name().nullish(),
      });
      const found = await api.ask(target, { path: projectPath(target) }, schema);
      const branch = found.default_branch ?? '';
      if (branch === '') throw new HostApiError('not-found', 'The repository has no branch');
      return { name: found.path_with_namespace, defaultBranch: branch };
    },
    create: async (target, { title: text, body, head, base, draft }) =>
      pullRequestOf(
        await api.ask(
          target,
          {
            path: requestsPath(target),
            body: {
              title: titleOf(text, draft),
              description: body,
              source_branch: head,
              target_branch: base,
            },
            refusedAs,
          },
          mergeRequest,
        ),
      ),
    openOf: async (target, head) => {
      const query = { source_branch: head, state: 'opened', per_page: 100 };
      const found = await api.ask(
        target,
        { path: requestsPath(target), query },
        z.array(mergeRequest),
      );
      const own = found.find(
        (each) =>
          states[each.state] === 'open' &&
          each.source_branch === head &&
          each.source_project_id === each.target_project_id,
      );
      return own === undefined ? undefined : pullRequestOf(own);
    },
    get: async (target, number) =>
      pullRequestOf(await api.ask(target, { path: requestPath(target, number) }, mergeRequest)),
    details: async (target, number) => {
      const query = { sort: 'desc', order_by: 'created_at', per_page: notesPerPage };
      const [found, notes] = await Promise.all([
        api.ask(target, { path: requestPath(target, number) }, details),
        api.ask(target, { path: `${requestPath(target, number)}/notes`, query }, z.array(note)),
      ]);
      const comments = notes
        .filter(({ system }) => !system)
        .map(({ author, body, created_at, position: place }) =>
          commentOf({
            author: author.username,
            body,
            time: created_at,
            path: place?.new_path ?? place?.old_path,
            line: place?.new_line ?? place?.old_line,
          }),
        );
      return { ...pullRequestOf(found), body: found.description, comments: latest(comments) };
    },
    comment: async (target, number, body) => {
      // The response to a new note does not contain its URL.
      const { web_url } = await api.ask(
        target,
        { path: requestPath(target, number) },
        mergeRequest,
      );
      const made = await api.ask(
        target,
        { path: `${requestPath(target, number)}/notes`, body: { body } },
        z.object({ id: z.int().positive() }),
      );
      return { url: `${web_url}#note_${made.id}` };
    },
  };
}
