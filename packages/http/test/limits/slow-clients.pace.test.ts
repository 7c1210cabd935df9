import { VirtualClock } from '../../../../test/support/virtual-clock.ts';
import { ClientPace } from '../../src/limits/slow-clients.ts';

describe('a client that reads a long response', () => {
  let clock: VirtualClock;
  let taken = 0;
  let isEnded = false;
  let pace: ClientPace;
  beforeEach(() => {
    clock = new VirtualClock();
    taken = 0;
    isEnded = false;
    pace = new ClientPace({
      clock,
      minBytesPerSecond: 100,
      moved: () => taken,
      tooSlow: () => (isEnded = true),
    });
  });

  /** Lets the client take these bytes each second, while the response waits for it. */
  const read = (seconds: number, bytesPerSecond: number) =>
    pace.during(async () => {
      for (let second = 0; second < seconds; second++) {
        await clock.advance(1000);
        taken += bytesPerSecond;
      }
    });

  it.each([
    ['nothing', 0, true],
    ['a byte a second', 1, true],
    ['a little less than the minimum', 99, true],
    ['more than the minimum', 110, false],
  ])(
    'takes %s, %i bytes a second; whether it is ended: %s',
    async (_what, bytesPerSecond, ends) => {
      await read(31, bytesPerSecond);
      expect(isEnded).toBe(ends);
      pace.end();
      expect(clock.timers).toBe(0);
    },
  );

  it('is ended also where it was fast before', async () => {
    await read(120, 10_000);
    expect(isEnded).toBe(false);
    await read(61, 1);
    expect(isEnded).toBe(true);
  });

  it('stays where the response waits for its source', async () => {
    for (let turn = 0; turn < 20; turn++) {
      await clock.advance(10_000);
      await read(1, 1);
    }
    expect(isEnded).toBe(false);
  });
});
