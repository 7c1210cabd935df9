import { sumOf } from '../budget/money.ts';

/** Failures of providers of models, as the record of a namespace counts them. */
export const providerFailureKinds = [
  'Unreachable',
  'TimedOut',
  'Redirect',
  'WebPage',
  'KeyRefused',
  'RateLimited',
  'ServerError',
  'Broken',
] as const;
export type ProviderFailureKind = (typeof providerFailureKinds)[number];

/** Failures of one provider of one kind. No number of them ever falls. */
export interface ProviderFailures {
  /** Host and port of the provider; `other`: of all for which there is no room. */
  readonly host: string;
  readonly kind: ProviderFailureKind;
  /** In the month of the record. */
  readonly count: number;
  /** Last day in UTC with such a failure, as YYYY-MM-DD. */
  readonly lastDay: string;
  readonly countOfLastDay: number;
  readonly lastTime: string;
  readonly message: string;
}

/** Failures that are not in the record yet, all of one day. */
export interface ProviderFailureDelta {
  readonly host: string;
  readonly kind: ProviderFailureKind;
  readonly count: number;
  /** ISO 8601 in UTC. */
  readonly time: string;
  readonly message: string;
}

export const maxProviderFailures = 100;
/** The last places are those of `other`, one for each kind. */
const maxNamed = maxProviderFailures - providerFailureKinds.length;
const other = 'other';
const maxHostLength = 253;

const dayOf = (time: string): string => time.slice(0, 'YYYY-MM-DD'.length);
const keyOf = ({ host, kind }: Pick<ProviderFailures, 'host' | 'kind'>): string =>
  `${kind} ${host}`;

/** The same failures in as few deltas as possible. */
export function mergedFailures(
  deltas: readonly ProviderFailureDelta[],
): readonly ProviderFailureDelta[] {
  const merged = new Map<string, ProviderFailureDelta>();
  for (const delta of deltas) {
    const key = `${dayOf(delta.time)} ${keyOf(delta)}`;
    const known = merged.get(key);
    const last = known === undefined || known.time <= delta.time ? delta : known;
    merged.set(key, { ...last, count: sumOf(known?.count ?? 0, delta.count) });
  }
  return [...merged.values()];
}

function added(known: ProviderFailures | undefined, delta: ProviderFailureDelta): ProviderFailures {
  const { host, kind, count, time, message } = delta;
  const day = dayOf(time);
  if (known === undefined)
    return { host, kind, count, lastDay: day, countOfLastDay: count, lastTime: time, message };
  const sum = { ...known, count: sumOf(known.count, count) };
  // A replica may write the failures of yesterday after others have written those of today.
  if (day < known.lastDay) return sum;
  const before = day === known.lastDay ? known.countOfLastDay : 0;
  const last = time >= known.lastTime ? { lastTime: time, message } : {};
  return { ...sum, ...last, lastDay: day, countOfLastDay: sumOf(before, count) };
}

/** The failures with these deltas. Hosts without room are counted as `other`. */
export function withFailures(
  failures: readonly ProviderFailures[],
  deltas: readonly ProviderFailureDelta[],
): readonly ProviderFailures[] {
  const known = new Map(failures.map((each) => [keyOf(each), each]));
  let named = failures.filter(({ host }) => host !== other).length;
  for (const delta of deltas) {
    const isNew = !known.has(keyOf(delta));
    const hasRoom = named < maxNamed && delta.host.length <= maxHostLength;
    const place = isNew && !hasRoom ? { ...delta, host: other } : delta;
    if (isNew && place.host !== other) named++;
    known.set(keyOf(place), added(known.get(keyOf(place)), place));
  }
  return [...known.values()];
}
