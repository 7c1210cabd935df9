import type { Response } from 'express';
import type { Clock } from '@conversation-operator/base/clock';
import { compact } from '@conversation-operator/base/compact';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { subscriberOf } from '@conversation-operator/http/limits/client-address';
import { TokenBuckets, type RateLimits } from '@conversation-operator/http/limits/rate-limits';
import type { KubeClient } from '@conversation-operator/kube/client';
import { found } from '@conversation-operator/kube/errors';
import { isLive } from '@conversation-operator/kube/object';
import {
  isShareOf,
  shareNameOf,
  shares,
  type Share,
  type ShareSpec,
} from '../../resources/share.ts';
import type { Audit, AuditLine } from '../../observability/audit.ts';
import { Repeats } from '../audit/repeats.ts';
import { holderOf, type Principal } from '../auth/key-ring.ts';
import { hashKey, isEqual, isWellFormedShareToken } from '../auth/key.ts';
import { notFound, unavailable } from '../errors/common-problems.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { originOf } from '../http/route.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import type { OpenedShare } from './shared-record.ts';
import { principalIfAny, type ReaderNeeds } from '../stages/authenticate.ts';

/** Maximum age of a read of a Share, which bounds how long a revoked share opens. */
const confirmedMs = 2_000;
/** Maximum tokens in memory; the API server is asked again about a forgotten one. */
const maxTokens = 2_000;

const shareRate = { perSecond: 50, burst: 200, capacity: 20_000 };
const addressRate = { perSecond: 20, burst: 100, capacity: 20_000 };
/** Rate of one address with tokens that no recent read has found; each costs a read of a Share. */
const newTokenRate = { perSecond: 1, burst: 20, capacity: 20_000 };

/** An answer of the API server about one token. */
interface Answer {
  atMs: number;
  /** Whether this answer, or while it is awaited the one before, has a Share. */
  isFound: boolean;
  readonly share: Promise<Share | undefined>;
}

interface OpenSharesNeeds extends ReaderNeeds {
  readonly client: Pick<KubeClient, 'get'>;
  readonly namespace: string;
  readonly clock: Clock;
  readonly audit: Audit;
  readonly lookup: Pick<ResourceLookup, 'conversation'>;
  readonly rateLimits: Pick<RateLimits, 'failedKey'>;
  readonly isSynced: () => boolean;
}

/** Whether a share is for this reader. The owner may open it too, to see what others see. */
export function isFor(
  { owner, subject }: Pick<ShareSpec, 'owner' | 'subject'>,
  reader: Pick<Principal, 'owner' | 'groups' | 'chain'> | undefined,
): boolean {
  if (subject.kind === 'Link') return true;
  if (reader?.chain.scopes.has('read') !== true || subject.name === undefined) return false;
  if (reader.owner === owner) return true;
  return subject.kind === 'User'
    ? reader.owner === subject.name
    : reader.groups.includes(subject.name);
}

/** Expiration time of a share; Infinity without one. An unreadable time counts as past. */
const expiryOf = ({ expirationTime }: ShareSpec): number =>
  expirationTime === undefined ? Infinity : Date.parse(expirationTime) || 0;

/**
 * Opens shares by the token in their link. The API server confirms each Share at least every 2 s,
 * so that a revocation counts on every replica, also where a watch is silent. A gateway that does
 * not reach the API server opens nothing. All reasons not to open a share have the same answer.
 */
export class OpenShares {
  readonly #needs: OpenSharesNeeds;
  readonly #answers = recentlyUsed<Answer>(maxTokens);
  readonly #shareRates: TokenBuckets;
  readonly #addressRates: TokenBuckets;
  readonly #newTokenRates: TokenBuckets;
  readonly #openings: Repeats<AuditLine<'ShareOpened'>>;

  constructor(needs: OpenSharesNeeds) {
    const { clock, audit } = needs;
    this.#needs = needs;
    this.#shareRates = new TokenBuckets({ clock, ...shareRate });
    this.#addressRates = new TokenBuckets({ clock, ...addressRate });
    this.#newTokenRates = new TokenBuckets({ clock, ...newTokenRate });
    this.#openings = new Repeats({
      clock,
      linesAtOnce: 1,
      // The rates above bound the readers of a minute.
      maxNames: Infinity,
      write: (line, repeats) => audit('ShareOpened', compact({ ...line, repeats })),
    });
  }

  /** Throws 404 unless the token opens a share for the request, 429 above a rate, and 503. */
  async open(token: string, response: Response): Promise<OpenedShare> {
    const { isSynced } = this.#needs;
    if (!isSynced()) throw unavailable();
    const origin = originOf(response);
    const { client } = origin;
    takeFrom(this.#addressRates, subscriberOf(client));
    const share = await this.#shareOf(token, client);
    if (share === undefined) throw this.#refused(client);
    takeFrom(this.#shareRates, share.metadata.uid);
    const reader = await this.#readerOf(share, response);
    if (!isFor(share.spec, reader)) throw this.#refused(client);
    const conversation = await this.#conversationOf(share);
    if (conversation === undefined) throw this.#refused(client);
    this.#openings.record(JSON.stringify([share.metadata.uid, reader?.keyName, client]), {
      ...origin,
      ...(reader && holderOf(reader)),
      share: share.metadata.name,
      conversation: share.spec.conversation.name,
      sharedBy: share.spec.owner,
    });
    return { share, conversation };
  }

  /**
   * Throws 404 where the share has ended in the meantime, such as while its read waited for an
   * agent, which may answer as late as it likes.
   */
  async confirm(token: string, { share }: OpenedShare, response: Response): Promise<void> {
    const current = await this.#shareOf(token, originOf(response).client);
    const isSame = current?.metadata.uid === share.metadata.uid;
    if (!isSame || (await this.#conversationOf(share)) === undefined)
      throw notFound('shared conversation');
  }

  /** Writes the audit lines of the openings that have none yet. */
  close(): void {
    this.#openings.close();
  }

  /** The reader; of a link only the person of a session, as the link opens without any credential. */
  #readerOf({ spec: { subject } }: Share, response: Response) {
    return subject.kind === 'Link'
      ? this.#needs.sessions.principalOf(response.req)
      : principalIfAny(this.#needs, response.req, response);
  }

  /** The conversation of a share, unless it has changed its owner since. */
  async #conversationOf(share: Share) {
    const { owner, conversation: shared } = share.spec;
    const conversation = await this.#needs.lookup.conversation(owner, shared.name);
    return conversation !== undefined && isShareOf(share, conversation) ? conversation : undefined;
  }

  /** The share of a token, if it is valid. */
  async #shareOf(token: string, client: string): Promise<Share | undefined> {
    if (!isWellFormedShareToken(token)) return undefined;
    const sha256 = hashKey(token);
    const share = await this.#read(sha256, client);
    if (share === undefined || !isLive(share) || !isEqual(share.spec.sha256, sha256))
      return undefined;
    const { ring, clock } = this.#needs;
    const { issuedBy } = share.spec;
    if (expiryOf(share.spec) <= clock.now()) return undefined;
    if (issuedBy !== undefined && ring.byName(issuedBy.name, issuedBy.uid) === undefined)
      return undefined;
    return share;
  }

  /** The Share as the API server has answered within `confirmedMs`. */
  #read(sha256: string, client: string): Promise<Share | undefined> {
    const { clock, namespace, client: kube } = this.#needs;
    const atMs = clock.monotonic();
    const known = this.#answers.get(sha256);
    if (known !== undefined && atMs - known.atMs < confirmedMs) return known.share;
    if (known?.isFound !== true) takeFrom(this.#newTokenRates, subscriberOf(client));
    const share = found(kube.get(shares, namespace, shareNameOf(sha256)));
    const answer: Answer = { atMs, isFound: known?.isFound === true, share };
    this.#answers.set(sha256, answer);
    share.then(
      (read) => (answer.isFound = read !== undefined),
      () => {
        // The next request asks again.
        answer.atMs = -Infinity;
      },
    );
    return share;
  }

  /** The answer to every request that may not open a share. Throws 429 after too many of them. */
  #refused(client: string): ProblemError {
    this.#needs.rateLimits.failedKey(client);
    return notFound('shared conversation');
  }
}

function takeFrom(rates: TokenBuckets, name: string): void {
  const { allowed, retryAfterMs } = rates.take(name);
  if (allowed) return;
  throw new ProblemError('rate-limited', 'Shared conversations are read too often. Try again.', {
    retryAfterSeconds: Math.max(1, Math.ceil(retryAfterMs / 1000)),
  });
}
