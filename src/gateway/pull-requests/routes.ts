import type { PullRequests } from './pull-requests.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { z } from 'zod';
import { ProblemError } from '../errors/problem-error.ts';
import { callerOf, type Route, changeableConversation, endpoints } from '../http/route.ts';
import { branch, optional, shownName, shownText, conversationParams } from '../http/fields.ts';

const maxTitleLength = 256;
const maxBodyLength = 65_536;

/** Fields of a request that opens a pull request. The tool of agents has the same fields. */
export const pullRequestFields = {
  title: shownName(maxTitleLength).describe('Title of the pull request.'),
  body: optional(shownText(maxBodyLength)).describe('Description in Markdown.'),
  head: optional(branch()).describe(
    'Branch with the changes. Absent: the branch that was pushed last.',
  ),
  base: optional(branch()).describe(
    'Branch that is to get the changes. Absent: the default branch.',
  ),
  draft: optional(z.boolean()).describe('True: the host asks for no review yet.'),
};

const { post } = endpoints('conversations');

const openedSchema = z.object({ number: z.int(), url: z.string(), provider: z.string() });

/** Routes with which clients open pull requests. Agents use tools instead. */
export function pullRequestRoutes({
  lookup,
  pullRequests,
}: {
  readonly lookup: ResourceLookup;
  readonly pullRequests: Pick<PullRequests, 'open'> | undefined;
}): readonly Route[] {
  return [
    post('/api/v1/app-conversations/{id}/pull-request', 'openPullRequest', {
      summary: 'Open a pull request from a branch that the sandbox has pushed',
      params: conversationParams,
      body: z.strictObject(pullRequestFields),
      responses: { 201: openedSchema },
      problems: [
        'not-found',
        'wrong-state',
        'conflict',
        'pull-request-exists',
        'pull-request-refused',
        'pull-request-invalid',
        'pull-requests-unsupported',
        'git-host-denied',
        'git-host-busy',
        'git-host-unavailable',
        'rate-limited',
        'share-exceeded',
        'overloaded',
      ],
      handle: async ({ body, ...call }) => {
        const conversation = await changeableConversation(lookup, call);
        if (pullRequests === undefined)
          throw new ProblemError(
            'pull-requests-unsupported',
            'This gateway can not open pull requests.',
          );
        const { pullRequest, isNew } = await pullRequests.open(
          { conversation, by: 'client', from: callerOf(call) },
          body,
        );
        const { number, url, provider, head } = pullRequest;
        if (!isNew)
          throw new ProblemError(
            'pull-request-exists',
            `The branch ${head} has an open pull request: ${number}, ${url}`,
          );
        return { status: 201, json: { number, url, provider } };
      },
    }),
  ];
}
