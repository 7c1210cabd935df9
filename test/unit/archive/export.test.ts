import fc from 'fast-check';
import { eventFileName, exportedHistory } from '../../../src/archive/export.ts';
import type { HistoryEvent } from '../../../src/archive/history.ts';
import { unzip } from '../../support/unzip.ts';

describe('the name of the file of an event', () => {
  it.each([
    ['a UUID', 0, '6b0e-1A_9', 'event_000000_6b0e-1A_9.json'],
    ['a path', 7, '../../etc/passwd', 'event_000007_______etc_passwd.json'],
    ['a drive and a stream', 8, 'C:\\a:b', 'event_000008_C__a_b.json'],
    ['nothing', 9, '', 'event_000009_.json'],
    ['too much', 1_000_000, 'x'.repeat(300), `event_1000000_${'x'.repeat(64)}.json`],
  ])('of %s', (_case, position, id, name) => {
    expect(eventFileName({ id, position })).toBe(name);
  });

  it('never leaves the folder, nor gets long', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.nat(), (id, position) => {
        expect(eventFileName({ id, position })).toMatch(
          /^event_\d{6,10}_[A-Za-z0-9_-]{0,64}\.json$/,
        );
      }),
    );
  });
});

it('an export has each event, and the record with their number', async () => {
  const event = (position: number): HistoryEvent => ({
    id: `e${position}`,
    position,
    json: Buffer.from(JSON.stringify({ id: `e${position}`, text: 'ü' })),
  });
  const parts = async function* () {
    yield await Promise.resolve([event(0), event(1)]);
    yield [event(2)];
  };
  const chunks = exportedHistory(parts(), { record: { id: 'c1', title: 'T' }, time: 0 });
  const files = await unzip(Buffer.concat(await Array.fromAsync(chunks)));
  expect(files.map(([name]) => name)).toEqual([
    'event_000000_e0.json',
    'event_000001_e1.json',
    'event_000002_e2.json',
    'meta.json',
  ]);
  expect(files.map(([, text]) => JSON.parse(text) as unknown)).toEqual([
    ...[0, 1, 2].map((position) => ({ id: `e${position}`, text: 'ü' })),
    { id: 'c1', title: 'T', event_count: 3 },
  ]);
});
