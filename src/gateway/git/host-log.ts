import type { Finding } from '@conversation-operator/git/ls-remote';
import type { Clock } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';
import { LRUCache } from 'lru-cache';
import { expiryBy } from '../lookup/expiry.ts';
import { fingerprintOf } from './credentials.ts';
import type { Inquiry } from './inquiry.ts';

/** Delay before a refused credential is logged again. */
const repeatMs = 3_600_000;
const maxRefused = 10_000;

/** Logs changes of git hosts that concern all owners, without the address of a host. */
export class HostLog {
  readonly #logger: Logger;
  /** Providers that did not answer the last request. */
  readonly #away = new Set<string>();
  /** Fingerprints of credentials whose refusal by a host is logged already. */
  readonly #refused: LRUCache<string, true>;

  constructor({ clock, logger }: { readonly clock: Clock; readonly logger: Logger }) {
    this.#logger = logger;
    this.#refused = new LRUCache({ max: maxRefused, ttl: repeatMs, ...expiryBy(clock) });
  }

  record({ host: { provider }, credential }: Inquiry, { status, reason }: Finding): void {
    const isAway = status === undefined || status >= 500;
    if (isAway && !this.#away.has(provider)) {
      this.#away.add(provider);
      this.#logger.warn('a git host can not be asked; starts are accepted without it', {
        provider,
        reason,
      });
    } else if (!isAway && this.#away.delete(provider)) {
      this.#logger.info('a git host answers again', { provider });
    }
    if (status !== 401 || credential === undefined) return;
    const fingerprint = fingerprintOf(credential);
    if (this.#refused.has(fingerprint)) return;
    this.#refused.set(fingerprint, true);
    this.#logger.warn('a git host does not accept a credential', {
      provider,
      credential: credential.name,
    });
  }
}
