import type { IncomingMessage } from 'node:http';
import type { Response } from 'express';
import type { Clock } from '@conversation-operator/kube/clock';
import type { Logger } from '@conversation-operator/kube/logger';
import { sessionKeyGenerationOf, type Sandbox } from '../../resources/sandbox.ts';
import type { ClientAddress } from '../limits/client-address.ts';
import type { Reader } from '../proxy/session-keys.ts';
import type { Principal } from './authenticate.ts';

/** Between two lines about the same API key and session key. */
const repeatMs = 60 * 60 * 1000;
/** Maximum number of pairs of an API key and a sandbox that are remembered, some 150 bytes each. Beyond that all are recorded anew. */
const maxRemembered = 20_000;
/** Maximum number of sandboxes that a line names; more are counted. */
const maxNames = 100;

interface Recorded {
  /** Monotonic milliseconds. */
  readonly atMs: number;
  readonly generation: number | undefined;
}

export interface DisclosuresOptions {
  readonly audit: Logger;
  readonly clock: Clock;
  readonly clientAddress: ClientAddress;
}

/**
 * Records in the audit who was shown which sandboxes' session keys: a line for each answer that shows some, but each session key at most
 * once an hour, so that polling writes nothing. None is left out: a reader writes no more lines than there are sandboxes that run and
 * rotations, and these leave a line of their own already.
 */
export class Disclosures {
  readonly #options: DisclosuresOptions;
  /** By uid of the API key and uid of the sandbox. */
  readonly #recorded = new Map<string, Map<string, Recorded>>();
  #size = 0;

  constructor(options: DisclosuresOptions) {
    this.#options = options;
  }

  /** The reader of one answer. */
  readerOf(principal: Principal, request: IncomingMessage, response: Response): Reader {
    let shown: string[] | undefined;
    const nowMs = this.#options.clock.monotonic();
    return {
      keyUid: principal.keyUid,
      disclosed: (sandbox) => {
        if (!this.#isNew(principal.keyUid, sandbox, nowMs)) return;
        if (shown === undefined) {
          shown = [];
          this.#recordAtEnd(shown, principal, request, response);
        }
        shown.push(sandbox.metadata.name);
      },
    };
  }

  /** Whether no line of the last hour has this session key, and remembers that one has it now. */
  #isNew(keyUid: string, sandbox: Sandbox, nowMs: number): boolean {
    const generation = sessionKeyGenerationOf(sandbox);
    const { uid } = sandbox.metadata;
    const last = this.#recorded.get(keyUid)?.get(uid);
    if (last !== undefined && last.generation === generation && nowMs - last.atMs < repeatMs) return false;
    if (last === undefined && this.#size >= maxRemembered) {
      this.#recorded.clear();
      this.#size = 0;
    }
    const ofKey = this.#recorded.get(keyUid) ?? new Map<string, Recorded>();
    if (!ofKey.has(uid)) this.#size += 1;
    this.#recorded.set(keyUid, ofKey.set(uid, { atMs: nowMs, generation }));
    return true;
  }

  #recordAtEnd(shown: readonly string[], { owner, keyName }: Principal, request: IncomingMessage, response: Response): void {
    const { audit, clientAddress } = this.#options;
    // While the connection is there.
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
