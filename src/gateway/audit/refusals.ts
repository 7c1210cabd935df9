import { compact } from '@conversation-operator/base/compact';
import type { Clock } from '@conversation-operator/base/clock';
import { subscriberOf } from '@conversation-operator/http/limits/client-address';
import type { Audit, AuditLine } from '../../observability/audit.ts';
import { Repeats } from './repeats.ts';

/** Lines of one address, or IPv6 /64, before its further refusals get one line a minute. */
const linesOfAddress = 10;
/** Maximum addresses with lines of their own; all others together have as many as one. */
const maxAddresses = 500;

/** Statuses of a request whose sender may not do, or not now, what it asks for. */
const statuses: ReadonlySet<number> = new Set([401, 403, 429]);

/** Writes refused requests to the audit log: a flood of them gets few lines, and their number. */
export class Refusals {
  readonly #requests: Repeats<AuditLine<'Refused'>>;
  readonly #signIns: Repeats<AuditLine<'SignInRefused'>>;

  constructor({ audit, clock }: { readonly audit: Audit; readonly clock: Clock }) {
    const bounds = { clock, linesAtOnce: linesOfAddress, maxNames: maxAddresses };
    this.#requests = new Repeats({
      ...bounds,
      write: (line, repeats) => audit('Refused', compact({ ...line, repeats })),
    });
    this.#signIns = new Repeats({
      ...bounds,
      write: (line, repeats) => audit('SignInRefused', compact({ ...line, repeats })),
    });
  }

  /** Does nothing for a request with another status. */
  record(line: AuditLine<'Refused'>): void {
    if (statuses.has(line.status)) this.#requests.record(subscriberOf(line.client), line);
  }

  recordSignIn(line: AuditLine<'SignInRefused'>): void {
    this.#signIns.record(subscriberOf(line.client), line);
  }

  /** Writes the lines about what has none yet. */
  close(): void {
    this.#requests.close();
    this.#signIns.close();
  }
}
