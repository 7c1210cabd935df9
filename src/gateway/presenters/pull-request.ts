import { z } from 'zod';
import type { CachedConversation } from '../../resources/cached-conversation.ts';

const pullRequestSchema = z.object({
  number: z.int(),
  url: z.string(),
  provider: z.string(),
  title: z.string(),
  head: z.string(),
  base: z.string(),
  draft: z.boolean(),
  state: z.enum(['open', 'closed', 'merged']).describe('As the git host reported it last.'),
});
export const pullRequestList = z.array(pullRequestSchema);
export type PullRequestView = z.output<typeof pullRequestSchema>;

const states = { Open: 'open', Closed: 'closed', Merged: 'merged' } as const;

/** The pull requests of a conversation, oldest first. */
export const presentPullRequests = ({ status }: CachedConversation): PullRequestView[] =>
  (status?.pullRequests ?? []).map(
    ({ number, url, provider, title, head, base, draft, state }) => ({
      ...{ number, url, provider, title, head, base, draft },
      state: states[state],
    }),
  );

/** Numbers of the pull requests that a conversation is about, then of those that it has opened. */
export const prNumbersOf = ({ spec, status }: CachedConversation): number[] => [
  ...new Set([
    ...(spec.prNumbers ?? []),
    ...(status?.pullRequests ?? []).map(({ number }) => number),
  ]),
];
