import fc from 'fast-check';
import { timeText } from '../../../../src/gateway/http/fields.ts';
import {
  agentPageId,
  archiveTime,
  historyFilterOf,
  archiveQueryOf,
} from '../../../../src/gateway/history/events.ts';

describe('a time of a query', () => {
  // The right column is what Python's datetime.isoformat makes of the left one in an agent.
  it.each([
    ['2026-01-02', '2026-01-02T00:00:00'],
    ['2026-01-02T03:04', '2026-01-02T03:04:00'],
    ['2026-01-02 03:04:05', '2026-01-02T03:04:05'],
    ['2026-01-02T03:04:05', '2026-01-02T03:04:05'],
    ['2026-01-02T03:04:05Z', '2026-01-02T03:04:05'],
    ['2026-01-02t03:04:05z', '2026-01-02T03:04:05'],
    ['2026-01-02T03:04:05.1', '2026-01-02T03:04:05.100000'],
    ['2026-01-02T03:04:05.000', '2026-01-02T03:04:05'],
    ['2026-01-02T03:04:05.000001Z', '2026-01-02T03:04:05.000001'],
    ['2026-01-02T03:04:05.123456789', '2026-01-02T03:04:05.123456'],
    ['2026-01-02T03:04:05.0000009', '2026-01-02T03:04:05'],
    ['2026-01-01T00:30:00+02:00', '2025-12-31T22:30:00'],
    ['2026-01-01T00:30:00.5 02:00', '2025-12-31T22:30:00.500000'],
    ['2026-01-01T00:30:00+0200', '2025-12-31T22:30:00'],
    ['2026-12-31T23:30:00-01:00', '2027-01-01T00:30:00'],
    ['2024-02-28T23:30:00-01:00', '2024-02-29T00:30:00'],
    ['9999-12-31T23:59:59-01:00', '9999-12-31T23:59:59.999999'],
    ['0000-01-01T00:00:00+01:00', '0'],
  ])('%s becomes %s', (text, local) => {
    expect(archiveTime(text)).toBe(local);
  });

  it('is later as a text when it is later', () => {
    const time = fc.date({
      min: new Date('1970-01-01T00:00:00Z'),
      max: new Date('2999-01-01T00:00:00Z'),
      noInvalidDate: true,
    });
    fc.assert(
      fc.property(time, time, fc.integer({ min: -14, max: 14 }), (one, other, hours) => {
        const sign = hours < 0 ? '-' : '+';
        const offset = `${sign}${String(Math.abs(hours)).padStart(2, '0')}:00`;
        const local = new Date(other.getTime() + hours * 3_600_000).toISOString();
        const [first, second] = [one.toISOString(), local.replace('Z', offset)];
        expect(Math.sign(Number(archiveTime(first) > archiveTime(second)))).toBe(
          Number(one.getTime() > other.getTime()),
        );
      }),
    );
  });

  it('becomes a text, whatever the schema accepts', () => {
    const digits = (length: number) => fc.stringMatching(new RegExp(`^\\d{${length}}$`));
    const text = fc
      .tuple(digits(4), digits(2), digits(2), digits(2), digits(2), digits(2))
      .map(([year, month, day, hour, minute, second]) =>
        [`${year}-${month}-${day}`, `${hour}:${minute}:${second}`].join('T'),
      );
    fc.assert(
      fc.property(text, (time) => {
        if (!timeText().safeParse(time).success) return;
        expect(archiveTime(time)).toMatch(/^(?:0|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{6})?)$/);
      }),
      { numRuns: 2000 },
    );
  });
});

describe('a page id', () => {
  it.each([
    ['of an archive has a position, which agents do not know', '6b0e@12', '6b0e'],
    ['of an agent stays', '6b0e-11', '6b0e-11'],
    ['stays where something else is behind the sign', '6b0e@x', '6b0e@x'],
    ['stays where the number is no position', '6b0e@12345678901', '6b0e@12345678901'],
    ['loses the last position alone', 'a@1@2', 'a@1'],
  ])('%s', (_case, pageId, expected) => {
    expect(agentPageId(pageId)).toBe(expected);
  });
});

describe('a query of an archive', () => {
  it('has what was asked for', () => {
    const query = archiveQueryOf({
      kind: 'A',
      kind__eq: 'B',
      sort_order: 'TIMESTAMP_DESC',
      page_id: 'e1@3',
      limit: 50,
      timestamp__gte: '2026-01-01',
      timestamp__lt: '2026-01-02T00:00:00+01:00',
    });
    expect(query).toEqual({
      kind: 'B',
      from: '2026-01-01T00:00:00',
      before: '2026-01-01T23:00:00',
      descending: true,
      pageId: 'e1@3',
      limit: 50,
    });
  });

  it('begins with the oldest event by default', () => {
    expect(archiveQueryOf({ limit: 100 })).toMatchObject({ descending: false, pageId: undefined });
  });

  it('has no source, and says so', () => {
    expect(() => historyFilterOf({ source: 'user' })).toThrow(/query\.source/);
  });
});
