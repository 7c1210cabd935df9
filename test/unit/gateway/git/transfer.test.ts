import { PassThrough } from 'node:stream';
import { Transfer } from '../../../../src/gateway/git/transfer.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const limits = { idleMs: 60_000, totalMs: 3_600_000 };

let clock: VirtualClock;
let transfer: Transfer;
beforeEach(() => {
  clock = new VirtualClock();
  transfer = new Transfer(limits, { clock, signal: new AbortController().signal });
});

/** One byte at each interval, through a stream of the transfer. */
async function trickle(bytes: number, intervalMs: number): Promise<void> {
  const stream = transfer.newStream();
  stream.pipe(new PassThrough()).resume();
  for (let sent = 0; sent < bytes && !transfer.signal.aborted; sent++) {
    await clock.advance(intervalMs);
    stream.write('.');
    await clock.settle();
  }
}

it('never interrupts a clone that is slow and steady before its maximum duration', async () => {
  await trickle(71, 50_000);
  expect(transfer.signal.aborted).toBe(false);
  await clock.advance(50_000);
  expect(transfer.signal.reason).toMatchObject({ message: 'it has taken too long' });
});

it('interrupts a clone that stalls, and not before the maximum pause', async () => {
  await trickle(2, 30_000);
  await clock.advance(59_999);
  expect(transfer.signal.aborted).toBe(false);
  await clock.advance(1);
  expect(transfer.signal.reason).toMatchObject({ message: 'nothing has moved for too long' });
});

it('leaves no timer at its end', async () => {
  await trickle(2, 30_000);
  transfer.end();
  expect(clock.timers).toBe(0);
  await clock.advance(limits.totalMs);
  expect(transfer.signal.aborted).toBe(false);
});
