import fc from 'fast-check';
import {
  accountKey,
  endOfAccountMs,
  isTimeZone,
  periodKinds,
  Periods,
} from '../../../src/budget/period.ts';

const hour = 3_600_000;
const at = (text: string) => Date.parse(text);

it.each([
  ['Day', 'UTC', '2026-11-30T12:00:00Z', '2026-11-30', '2026-11-30T00:00:00Z', 24],
  ['Week', 'UTC', '2026-11-30T00:00:00Z', '2026-11-30', '2026-11-30T00:00:00Z', 168],
  ['Week', 'UTC', '2026-11-29T23:59:59Z', '2026-11-23', '2026-11-23T00:00:00Z', 168],
  ['Month', 'UTC', '2026-12-31T23:59:59Z', '2026-12-01', '2026-12-01T00:00:00Z', 31 * 24],
  ['Month', 'UTC', '2028-02-29T00:00:00Z', '2028-02-01', '2028-02-01T00:00:00Z', 29 * 24],
  // Clocks go forward: a day of 23 hours, and a month that lacks an hour.
  ['Day', 'Europe/Berlin', '2026-03-29T12:00:00Z', '2026-03-29', '2026-03-28T23:00:00Z', 23],
  ['Month', 'Europe/Berlin', '2026-03-15T12:00:00Z', '2026-03-01', '2026-02-28T23:00:00Z', 743],
  // Clocks go back: a day of 25 hours.
  ['Day', 'Europe/Berlin', '2026-10-25T12:00:00Z', '2026-10-25', '2026-10-24T22:00:00Z', 25],
  ['Week', 'America/New_York', '2026-11-01T12:00:00Z', '2026-10-26', '2026-10-26T04:00:00Z', 169],
  ['Day', 'Asia/Kolkata', '2026-11-29T18:30:00Z', '2026-11-30', '2026-11-29T18:30:00Z', 24],
  [
    'Day',
    'Australia/Lord_Howe',
    '2026-10-03T20:00:00Z',
    '2026-10-04',
    '2026-10-03T13:30:00Z',
    23.5,
  ],
  ['Day', 'Asia/Kathmandu', '2026-11-30T00:00:00Z', '2026-11-30', '2026-11-29T18:15:00Z', 24],
  ['Day', '+05:30', '2026-11-29T18:30:00Z', '2026-11-30', '2026-11-29T18:30:00Z', 24],
  // Midnight is left out.
  ['Day', 'America/Santiago', '2026-09-06T12:00:00Z', '2026-09-06', '2026-09-06T04:00:00Z', 23],
  // Midnight comes twice: the clock goes back from it to 23:00.
  ['Day', 'America/Santiago', '2026-04-05T03:30:00Z', '2026-04-04', '2026-04-04T03:00:00Z', 25],
  // Samoa has left out 30 December.
  ['Day', 'Pacific/Apia', '2011-12-29T12:00:00Z', '2011-12-29', '2011-12-29T10:00:00Z', 24],
  ['Day', 'Pacific/Apia', '2011-12-30T10:00:00Z', '2011-12-31', '2011-12-30T10:00:00Z', 24],
  ['Month', 'Pacific/Apia', '2011-12-30T10:00:00Z', '2011-12-01', '2011-12-01T10:00:00Z', 30 * 24],
] as const)('the %s in %s at %s begins on %s', (kind, zone, instant, firstDay, start, hours) => {
  const startMs = at(start);
  const endMs = startMs + hours * hour;
  expect(new Periods().around(kind, zone, at(instant))).toEqual({ kind, firstDay, startMs, endMs });
});

it('a day that the clock shows again after its end belongs to the next one', () => {
  // Until 2011, the clock of Newfoundland went back from 00:01 to 23:01 of the day before.
  const periods = new Periods();
  const again = at('2010-11-07T02:45:00Z');
  expect(periods.day('America/St_Johns', again)).toBe('2010-11-06');
  const { startMs, endMs } = periods.around('Day', 'America/St_Johns', again);
  expect(startMs <= again && again < endMs).toBe(true);
});

it('periods have every instant once, in every zone', () => {
  const zones = Intl.supportedValuesOf('timeZone');
  const instants = fc.integer({ min: at('2012-01-01T00:00:00Z'), max: at('2040-01-01T00:00:00Z') });
  fc.assert(
    fc.property(
      fc.constantFrom(...zones),
      fc.constantFrom(...periodKinds),
      instants,
      (zone, kind, instant) => {
        const periods = new Periods();
        const period = periods.around(kind, zone, instant);
        expect(period.startMs <= instant && instant < period.endMs).toBe(true);
        expect(periods.around(kind, zone, period.endMs - 1)).toEqual(period);
        expect(new Periods().around(kind, zone, period.startMs)).toEqual(period);
        expect(periods.around(kind, zone, period.endMs).startMs).toBe(period.endMs);
        expect(endOfAccountMs(accountKey('default', period, 'USD'))).toBeGreaterThan(period.endMs);
      },
    ),
    { numRuns: 200 },
  );
});

it.each([
  ['Europe/Berlin', true],
  ['UTC', true],
  ['+05:30', true],
  ['Mars/Olympus', false],
  ['', false],
])('%s is a zone: %s', (text, is) => {
  expect(isTimeZone(text)).toBe(is);
});

it('an account has the name of its budget, its period and its unit', () => {
  const period = { kind: 'Month', firstDay: '2026-11-01' } as const;
  expect(accountKey('default', period, 'USD')).toBe('default/Month/2026-11-01');
  expect(accountKey('default', period, 'Tokens')).toBe('default/Month/2026-11-01/Tokens');
});

it.each(['conversation', 'default/Month/2026', 'default/Year/2026-01-01', '', 'a/Day/2026-13-45'])(
  'an account without a period never ends: %s',
  (key) => {
    expect(endOfAccountMs(key)).toBe(Infinity);
  },
);
