import { isoTime, type Clock } from '@conversation-operator/base/clock';
import { heads } from '@conversation-operator/git/ref-list';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { conversations, type Conversation } from '../../resources/conversation.ts';
import { plainText } from '../../resources/plain-text.ts';
import { maxPullRequests, type PullRequestRecord } from '../../resources/pull-request.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { notFound } from '../errors/common-problems.ts';
import type { PullRequest } from '../git/host-api/host-api.ts';
import { writeOnStored } from '../lookup/stored.ts';

export interface PullRequestRecordsOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
}

const stateOf = { open: 'Open', closed: 'Closed', merged: 'Merged' } as const;
const maxTitleLength = 512;

/** Provider of a pull request, and its repository by the name that the conversation uses. */
export type RecordedPlace = Pick<PullRequestRecord, 'provider' | 'repository'>;

/** Keeps pull requests in the status of their conversation. */
export class PullRequestRecords {
  readonly #options: PullRequestRecordsOptions;

  constructor(options: PullRequestRecordsOptions) {
    this.#options = options;
  }

  /** The conversation in the API server. Throws `not-found` if it has another UID. */
  async stored({ metadata: { namespace, name, uid } }: CachedConversation): Promise<Conversation> {
    const stored = await this.#options.client.get(conversations, namespace, name);
    if (stored.metadata.uid !== uid) throw notFound('conversation');
    return stored;
  }

  /** Stores a pull request in the status, in place of the record with the same number. */
  async record(
    conversation: CachedConversation,
    place: RecordedPlace,
    opened: PullRequest,
  ): Promise<PullRequestRecord> {
    const pullRequest = recordOf(opened, place, isoTime(this.#options.clock));
    await this.#write(conversation, (known) => [
      ...known.filter((other) => !isSame(other, pullRequest)).slice(1 - maxPullRequests),
      pullRequest,
    ]);
    return pullRequest;
  }

  /** Stores the changes of a pull request that the status already contains. */
  async update(
    conversation: CachedConversation,
    place: RecordedPlace,
    pullRequest: PullRequest,
  ): Promise<void> {
    const now = isoTime(this.#options.clock);
    const seen = recordOf(pullRequest, place, now);
    const known = conversation.status?.pullRequests?.find((other) => isSame(other, seen));
    if (known === undefined || isUpToDate(known, seen)) return;
    await this.#write(conversation, (all) =>
      all.map((other) =>
        isSame(other, seen)
          ? { ...seen, stateTime: other.state === seen.state ? other.stateTime : now }
          : other,
      ),
    );
  }

  #write(
    conversation: CachedConversation,
    change: (known: readonly PullRequestRecord[]) => readonly PullRequestRecord[],
  ): Promise<unknown> {
    const { client } = this.#options;
    return writeOnStored(
      () => this.stored(conversation),
      ({ metadata: { namespace, name, resourceVersion }, status }) =>
        client.mergePatch(
          conversations,
          namespace,
          name,
          {
            metadata: { resourceVersion },
            status: { pullRequests: change(status?.pullRequests ?? []) },
          },
          { subresource: 'status' },
        ),
    );
  }
}

const recordOf = (
  { number, url, title, head, base, isDraft, state }: PullRequest,
  { provider, repository }: RecordedPlace,
  time: string,
): PullRequestRecord => ({
  number,
  url,
  provider,
  repository,
  head,
  base,
  draft: isDraft,
  title: plainText(title, maxTitleLength),
  state: stateOf[state],
  stateTime: time,
});

type Identity = Pick<PullRequestRecord, 'number' | 'provider' | 'repository'>;
const isSame = (one: Identity, other: Identity): boolean =>
  one.number === other.number &&
  one.provider === other.provider &&
  one.repository === other.repository;

const isUpToDate = (known: PullRequestRecord, seen: PullRequestRecord): boolean =>
  known.state === seen.state &&
  known.draft === seen.draft &&
  known.title === seen.title &&
  known.url === seen.url &&
  known.base === seen.base;

/** The branch of the last push that the host has accepted; undefined if it was no branch. */
export function lastPushed({ status }: Pick<Conversation, 'status'>): string | undefined {
  const push = status?.pushes?.findLast(({ outcome }) => outcome === 'Accepted');
  return push?.ref.startsWith(heads) === true ? push.ref.slice(heads.length) : undefined;
}

/** Numbers of the pull requests that a conversation is about, then of those that it has opened. */
export const numbersOf = ({
  spec,
  status,
}: Pick<Conversation, 'spec' | 'status'>): readonly number[] => [
  ...(spec.prNumbers ?? []),
  ...(status?.pullRequests ?? []).map(({ number }) => number),
];

export function numberOf(conversation: Conversation, number: number | undefined): number {
  const known = number ?? numbersOf(conversation).at(-1);
  if (known === undefined)
    throw new ProblemError('not-found', 'The conversation has no pull request.');
  return known;
}
