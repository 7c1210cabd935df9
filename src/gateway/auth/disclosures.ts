import type { IncomingMessage } from 'node:http';
import type { Response } from 'express';
import { LRUCache } from 'lru-cache';
import type { Clock } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';
import type { ClientAddress } from '@conversation-operator/http/limits/client-address';
import { sessionKeyGenerationOf, type Sandbox } from '../../resources/sandbox.ts';
import { expiryBy } from '../lookup/expiry.ts';
import type { Reader } from './session-keys.ts';
import type { Principal } from './authenticate.ts';

/** Delay between two lines about the same API key and session key. */
const repeatMs = 60 * 60 * 1000;
/**
 * Maximum number of pairs of an API key and a sandbox that are remembered; a pair beyond that is
 * recorded anew.
 */
const maxRemembered = 20_000;
/** Maximum number of sandboxes that a line names; more are counted. */
const maxNames = 100;

export interface DisclosuresOptions {
  readonly audit: Logger;
  readonly clock: Clock;
  readonly clientAddress: ClientAddress;
}

/**
 * Records in the audit who was shown which sandboxes' session keys: a line for each answer that
 * shows some, but each session key at most once an hour, so that polling writes nothing. None is
 * left out: a reader writes no more lines than there are sandboxes that run and rotations, and
 * these leave a line of their own already.
 */
export class Disclosures {
  readonly #options: DisclosuresOptions;
  /** Session key generations of the last hour, by uid of the API key and of the sandbox. */
  readonly #recorded: LRUCache<string, { readonly generation: number | undefined }>;

  constructor(options: DisclosuresOptions) {
    this.#options = options;
    this.#recorded = new LRUCache({
      max: maxRemembered,
      ttl: repeatMs,
      ...expiryBy(options.clock),
    });
  }

  /** The reader of one answer. */
  readerOf(principal: Principal, request: IncomingMessage, response: Response): Reader {
    let shown: string[] | undefined;
    return {
      keyUid: principal.keyUid,
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

  /** Whether no line of the last hour has this session key, and remembers that one has it now. */
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
    { owner, keyName }: Principal,
    request: IncomingMessage,
    response: Response,
  ): void {
    const { audit, clientAddress } = this.#options;
    // The address is read at once, because the connection may end before the response.
    const client = clientAddress(request);
    response.once('close', () => {
      const { requestId, route } = response.locals;
      audit.info('SessionKeyRead', {
        requestId,
        action: route?.operationId,
        owner,
        key: keyName,
        client,
        sandboxes: shown.slice(0, maxNames),
        ...(shown.length > maxNames ? { more: shown.length - maxNames } : {}),
        status: response.headersSent ? response.statusCode : 0,
      });
    });
  }
}
