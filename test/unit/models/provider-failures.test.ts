import fc from 'fast-check';
import {
  maxProviderFailures,
  mergedFailures,
  providerFailureKinds,
  withFailures,
  type ProviderFailureDelta,
  type ProviderFailures,
} from '../../../src/models/provider-failures.ts';

const message = 'The provider answers with status 503.';
const aFailure = (
  time: string,
  more: Partial<ProviderFailureDelta> = {},
): ProviderFailureDelta => ({
  host: 'api.openai.com',
  kind: 'ServerError',
  count: 1,
  time,
  message,
  ...more,
});
const of = (...deltas: readonly ProviderFailureDelta[]) => withFailures([], deltas);

it('failures of one host and kind are counted in the month and on the last day', () => {
  expect(
    of(
      aFailure('2026-11-15T23:59:59.000Z', { count: 5 }),
      aFailure('2026-11-16T00:00:01.000Z', { count: 2 }),
      aFailure('2026-11-16T09:00:00.000Z', { message: 'The provider answers with status 529.' }),
    ),
  ).toEqual([
    {
      host: 'api.openai.com',
      kind: 'ServerError',
      count: 8,
      lastDay: '2026-11-16',
      countOfLastDay: 3,
      lastTime: '2026-11-16T09:00:00.000Z',
      message: 'The provider answers with status 529.',
    },
  ]);
});

it('a failure of yesterday that is written late counts in the month, and changes nothing of today', () => {
  const today = aFailure('2026-11-16T00:00:01.000Z');
  const [first] = of(today, aFailure('2026-11-15T23:59:59.000Z', { message: 'late', count: 4 }));
  expect(first).toEqual({ ...of(today)[0], count: 5 });
});

it('an earlier failure of the same day does not replace the last one', () => {
  const [first] = of(
    aFailure('2026-11-16T09:00:00.000Z'),
    aFailure('2026-11-16T08:00:00.000Z', { message: 'earlier' }),
  );
  expect(first).toMatchObject({ countOfLastDay: 2, lastTime: '2026-11-16T09:00:00.000Z', message });
});

const failures = fc.array(
  fc.record({
    host: fc.constantFrom(...Array.from({ length: 130 }, (_, i) => `h${i}`), 'x'.repeat(300)),
    kind: fc.constantFrom(...providerFailureKinds),
    count: fc.integer({ min: 1, max: 9 }),
    time: fc
      .integer({ min: 0, max: 30 })
      .map((hours) => new Date(Date.UTC(2026, 10, 15, hours)).toISOString()),
    message: fc.constant(message),
  }),
  { maxLength: 400 },
);
const countOf = (all: readonly { readonly count: number }[]): number =>
  all.reduce((sum, { count }) => sum + count, 0);

it('no failure is lost, no number falls, and the list stays within its length', () => {
  fc.assert(
    fc.property(failures, failures, (first, second) => {
      const before = withFailures([], first);
      const after = withFailures(before, second);
      expect(countOf(after)).toBe(countOf(first) + countOf(second));
      expect(after.length).toBeLessThanOrEqual(maxProviderFailures);
      const key = ({ host, kind }: ProviderFailures) => `${kind} ${host}`;
      const known = new Map(after.map((each) => [key(each), each]));
      expect(known.size).toBe(after.length);
      for (const each of before) {
        const now = known.get(key(each));
        expect(now?.count).toBeGreaterThanOrEqual(each.count);
        expect([now?.lastTime ?? '', each.lastTime].sort()).toEqual([each.lastTime, now?.lastTime]);
      }
      for (const { host } of after) expect(host.length).toBeLessThanOrEqual(253);
    }),
    { numRuns: 50 },
  );
});

it('merged deltas have the same sums', () => {
  fc.assert(
    fc.property(
      failures.map((all) => all.filter(({ host }) => /^h\d$/.test(host))),
      (all) => {
        const byKey = (one: ProviderFailures, other: ProviderFailures) =>
          `${one.kind} ${one.host}` < `${other.kind} ${other.host}` ? -1 : 1;
        const merged = mergedFailures(all);
        const counted = (deltas: readonly ProviderFailureDelta[]) =>
          withFailures(
            [],
            deltas.toSorted((one, other) => (one.time < other.time ? -1 : 1)),
          ).toSorted(byKey);
        expect(counted(merged)).toEqual(counted(all));
      },
    ),
    { numRuns: 50 },
  );
});
