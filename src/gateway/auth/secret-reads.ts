import { compact } from '@conversation-operator/base/compact';
import type { Clock } from '@conversation-operator/base/clock';
import { TokenBuckets } from '@conversation-operator/http/limits/rate-limits';
import { type Sandbox, sessionKeyGenerationOf } from '../../resources/sandbox.ts';
import { ProblemError } from '../errors/problem-error.ts';
import type { IncomingMessage } from 'node:http';
import type { Response } from 'express';
import { LRUCache } from 'lru-cache';
import type { ClientAddress } from '@conversation-operator/http/limits/client-address';
import type { Audit, AuditHolder, AuditOrigin } from '../../observability/audit.ts';
import { Repeats } from '../audit/repeats.ts';
import { expiryBy } from '../lookup/cache.ts';
import type { Reader } from './session-keys.ts';
import { holderOf, type Principal } from './key-ring.ts';

/** Rate limit of a sandbox; its agent reads all secrets at its start and some for each command. */
const sandboxRate = { perSecond: 20, burst: 200, capacity: 20_000 };
const ownerRate = { perSecond: 100, burst: 1_000, capacity: 20_000 };

/** One read of a secret, without the value of the secret. */
export interface SecretRead extends AuditOrigin, Partial<Omit<AuditHolder, 'owner'>> {
  readonly sandbox: Sandbox;
  readonly secret: string;
  /** Id of the conversation whose agent reads; undefined for other readers. */
  readonly conversation?: string | undefined;
  /** Name of the API key of the reader, or the kind of its credential. */
  readonly by: string;
}

/**
 * Limits how often a sandbox's secrets are read, and writes every read to the audit log. The first
 * read of a secret by a reader gets a log line at once. Further reads share at most one line a
 * minute, which has their number. The rate limits also bound the memory of this class.
 */
export class SecretReads {
  readonly #ofSandboxes: TokenBuckets;
  readonly #ofOwners: TokenBuckets;
  readonly #repeats: Repeats<SecretRead>;

  constructor({ audit, clock }: { readonly audit: Audit; readonly clock: Clock }) {
    this.#ofSandboxes = new TokenBuckets({ clock, ...sandboxRate });
    this.#ofOwners = new TokenBuckets({ clock, ...ownerRate });
    this.#repeats = new Repeats({
      clock,
      linesAtOnce: 1,
      maxNames: Infinity,
      write: ({ sandbox: { metadata, spec }, ...read }, repeats) =>
        audit(
          'SecretRead',
          compact({ ...read, owner: spec.owner, sandbox: metadata.name, repeats }),
        ),
    });
  }

  /** Counts a read. Throws `rate-limited` above `sandboxRate` or `ownerRate`. */
  admit({ metadata: { uid }, spec: { owner } }: Sandbox): void {
    if (this.#ofSandboxes.take(uid).allowed && this.#ofOwners.take(owner).allowed) return;
    throw new ProblemError('rate-limited', 'The secrets of this sandbox are read too often.', {
      retryAfterSeconds: 1,
    });
  }

  /** Records a read whose response contains the value of the secret. */
  record(read: SecretRead): void {
    const { sandbox, conversation, secret, by } = read;
    this.#repeats.record(JSON.stringify([sandbox.metadata.uid, conversation, secret, by]), read);
  }

  /** Writes the log lines for the reads that have none yet. */
  close(): void {
    this.#repeats.close();
  }
}

/** Minimum time between two log lines about the same API key and session key. */
const disclosureRepeatMs = 60 * 60 * 1000;
/** Maximum pairs of an API key and a sandbox in memory; a forgotten pair is logged again. */
const maxRemembered = 20_000;
/** Maximum sandboxes that a log line names; the line contains the number of the others. */
const maxNames = 100;

interface DisclosuresOptions {
  readonly audit: Audit;
  readonly clock: Clock;
  readonly clientAddress: ClientAddress;
}

/**
 * Writes to the audit log which API key was shown the session keys of which sandboxes. A response
 * causes at most one line. The line names a sandbox only if no line of the last hour names it for
 * the same API key, so that polling adds no lines. No line is dropped: a reader causes at most one
 * line for each running sandbox and key rotation, which have lines of their own in the audit log.
 */
export class Disclosures {
  readonly #options: DisclosuresOptions;
  /** Generation of the session key shown in the last hour, by the UIDs of API key and sandbox. */
  readonly #recorded: LRUCache<string, { readonly generation: number | undefined }>;

  constructor(options: DisclosuresOptions) {
    this.#options = options;
    this.#recorded = new LRUCache({
      max: maxRemembered,
      ttl: disclosureRepeatMs,
      ...expiryBy(options.clock),
    });
  }

  readerOf(principal: Principal, request: IncomingMessage, response: Response): Reader {
    let shown: string[] | undefined;
    return {
      keyUid: principal.keyUid,
      opensAgents: principal.chain.scopes.has('manage'),
      disclosed: (sandbox) => {
        if (!this.#isNew(principal.keyUid, sandbox)) return;
        if (shown === undefined) {
          shown = [];
          this.#recordAtEnd(shown, principal, request, response);
        }
        shown.push(sandbox.metadata.name);
      },
    };
  }

  /** Records that the session key is shown; returns whether this needs a line in the audit log. */
  #isNew(keyUid: string, sandbox: Sandbox): boolean {
    const generation = sessionKeyGenerationOf(sandbox);
    const key = `${keyUid}/${sandbox.metadata.uid}`;
    const last = this.#recorded.get(key);
    if (last !== undefined && last.generation === generation) return false;
    this.#recorded.set(key, { generation });
    return true;
  }

  #recordAtEnd(
    shown: readonly string[],
    principal: Principal,
    request: IncomingMessage,
    response: Response,
  ): void {
    const { audit, clientAddress } = this.#options;
    // The address is read at once, because the connection may end before the response.
    const client = clientAddress(request);
    response.once('close', () => {
      const { requestId, route } = response.locals;
      audit('SessionKeyRead', {
        requestId,
        action: route?.operationId,
        ...holderOf(principal),
        client,
        sandboxes: shown.slice(0, maxNames),
        ...(shown.length > maxNames ? { more: shown.length - maxNames } : {}),
        status: response.headersSent ? response.statusCode : 0,
      });
    });
  }
}
