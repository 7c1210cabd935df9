import { VirtualClock } from '../../../test/support/virtual-clock.ts';
import { IdleTimer } from '../src/clock.ts';

let clock: VirtualClock;
let idleAt: number[];
const start = () =>
  new IdleTimer({ clock, idleMs: 1_000, onIdle: () => idleAt.push(clock.monotonic()) });
beforeEach(() => {
  clock = new VirtualClock();
  idleAt = [];
});

it('fires once, as soon as nothing has happened for the whole time', async () => {
  const timer = start();
  await clock.advance(700);
  timer.touch();
  await clock.advance(999);
  expect(idleAt).toEqual([]);
  await clock.advance(10_000);
  expect(idleAt).toEqual([1_700]);
  expect(clock.timers).toBe(0);
});

it('never fires while something happens, however slowly and for however long', async () => {
  const timer = start();
  for (let passed = 0; passed < 1_000; passed++) {
    await clock.advance(990);
    timer.touch();
  }
  expect(idleAt).toEqual([]);
});

it('leaves no timer when it is stopped', async () => {
  const timer = start();
  await clock.advance(500);
  timer.stop();
  expect(clock.timers).toBe(0);
});
