import { z } from 'zod';
import { described, text, timestamp } from './schema.ts';

/** Maximum pull requests that the status of a conversation lists. */
export const maxPullRequests = 20;

/** Maximum characters of the address of a pull request. */
export const maxPullRequestUrl = 2048;

/** States of a pull request. A draft counts as open. */
export const pullRequestStates = ['Open', 'Closed', 'Merged'] as const;

export const pullRequestsSchema = z
  .array(
    z.object({
      number: described(z.int().min(1), 'Number of the pull request in its repository.'),
      url: described(text(maxPullRequestUrl), 'Address of its page on the git host.'),
      provider: described(text(64), 'Git host of the pull request.'),
      repository: described(text(255), 'Repository of the pull request, owner/name.'),
      title: described(text(512), 'Title of the pull request.'),
      head: described(text(255), 'Branch with the changes.'),
      base: described(text(255), 'Branch that is to get the changes.'),
      draft: described(z.boolean(), 'True: the pull request is a draft.'),
      state: described(
        z.enum(pullRequestStates),
        'State that the git host reported last: Open, Closed or Merged.',
      ),
      stateTime: described(timestamp(), 'Time at which the gateway first read this state.'),
    }),
  )
  .max(maxPullRequests);

export type PullRequestRecord = z.output<typeof pullRequestsSchema>[number];
