import type { Clock } from '@conversation-operator/base/clock';
import type { BudgetLedger } from '../../budget/ledger.ts';
import type { RecordKey } from '../../budget/record-store.ts';
import type { ProviderFailureDelta, ProviderFailureKind } from '../../models/provider-failures.ts';
import type { Metrics } from '../../observability/metrics.ts';
import { ProviderError } from './providers.ts';
import { recordKeyOf } from './usage-store.ts';

export interface ProviderFailuresOptions {
  readonly ledger: Pick<BudgetLedger, 'requestWrite'>;
  readonly usage: { add(key: RecordKey, delta: ProviderFailureDelta): void };
  readonly namespace: string;
  readonly clock: Pick<Clock, 'now'>;
  readonly metrics: Pick<Metrics, 'providerFailures'>;
}

/** A failure of a provider. The message is of a closed set: it has no text of a provider. */
export interface ProviderFailure {
  readonly kind: ProviderFailureKind;
  readonly message: string;
}

/**
 * Counts failures of providers in the UsageRecord of the namespace, which administrators read on
 * the page /operate, whatever process of the relay has seen them.
 */
export class ProviderFailureCounts {
  readonly #options: ProviderFailuresOptions;

  constructor(options: ProviderFailuresOptions) {
    this.#options = options;
  }

  /** Counts a failure of the provider with this host; undefined: it is none. */
  count(host: string, failure: ProviderFailure | undefined): void {
    if (failure === undefined) return;
    const { ledger, usage, namespace, clock, metrics } = this.#options;
    const time = new Date(clock.now()).toISOString();
    const record = recordKeyOf(namespace, { month: time.slice(0, 'YYYY-MM'.length) });
    metrics.providerFailures.inc({ kind: failure.kind });
    usage.add(record, { host, ...failure, count: 1, time });
    ledger.requestWrite(record);
  }
}

/** The failure that the status of an answer shows. Other errors are of the request. */
export function failureOfStatus(status: number): ProviderFailure | undefined {
  if (status === 401 || status === 402 || status === 403)
    return {
      kind: 'KeyRefused',
      message: `The provider refuses the key of the platform (status ${status}).`,
    };
  if (status === 429)
    return { kind: 'RateLimited', message: 'The provider limits the rate of calls (status 429).' };
  return status >= 500
    ? { kind: 'ServerError', message: `The provider answers with status ${status}.` }
    : undefined;
}

export const webPage: ProviderFailure = {
  kind: 'WebPage',
  message: 'The provider answers with a web page.',
};

export const errorInAnswer: ProviderFailure = {
  kind: 'ServerError',
  message: 'The provider answers with an error in place of an answer.',
};

/** The failure of an answer that has broken off; undefined if its agent has left. */
export function failureOfStream({
  hasLeft,
  isLate,
}: Readonly<Record<'hasLeft' | 'isLate', boolean>>): ProviderFailure | undefined {
  if (hasLeft) return undefined;
  return isLate
    ? { kind: 'TimedOut', message: 'An answer of the provider has taken too long.' }
    : { kind: 'Broken', message: 'An answer of the provider has broken off.' };
}

/** The failure of a call without an answer; undefined if its agent has left. */
export function failureOfCall(
  error: unknown,
  { hasLeft, isLate }: Readonly<Record<'hasLeft' | 'isLate', boolean>>,
): ProviderFailure | undefined {
  if (hasLeft) return undefined;
  if (isLate) return { kind: 'TimedOut', message: 'The provider has not answered in time.' };
  if (!(error instanceof ProviderError))
    return { kind: 'Broken', message: 'The call of the provider has failed.' };
  if (error.redirect !== undefined)
    return { kind: 'Redirect', message: `The provider redirects with status ${error.redirect}.` };
  if (error.mayBeCharged)
    return { kind: 'Broken', message: 'The provider has closed the connection without an answer.' };
  const code = codeOf(error.cause);
  return { kind: 'Unreachable', message: `The provider can not be reached${code}.` };
}

/** The code of a system or TLS error, such as ECONNREFUSED, in parentheses. */
function codeOf(cause: unknown): string {
  const { code } = (cause ?? {}) as { readonly code?: unknown };
  return typeof code === 'string' && /^[A-Z][A-Z0-9_]{2,63}$/.test(code) ? ` (${code})` : '';
}
