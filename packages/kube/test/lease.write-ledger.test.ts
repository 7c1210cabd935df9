import { WriteLedger } from '../src/lease.ts';
import { VirtualClock } from '../../../test/support/virtual-clock.ts';

describe('a ledger of writes', () => {
  it('counts from when a write is sent, not from when it began to wait for a connection', async () => {
    const clock = new VirtualClock();
    const ledger = new WriteLedger(clock, 5000);
    const write = ledger.begin();
    await clock.advance(2000);
    write.sent();
    await clock.advance(1000);
    write.ended(false);
    expect(ledger.settledAt).toBe(7000);
  });

  it('forgets a write whose outcome is known', () => {
    const ledger = new WriteLedger(new VirtualClock(), 5000);
    ledger.begin().ended(true);
    expect(ledger.settledAt).toBe(Number.NEGATIVE_INFINITY);
  });

  it('keeps a write of unknown outcome, whatever is known of later ones', async () => {
    const clock = new VirtualClock();
    const ledger = new WriteLedger(clock, 5000);
    const later = ledger.begin();
    const lost = ledger.begin();
    await clock.advance(1000);
    lost.sent();
    lost.ended(false);
    expect(ledger.settledAt).toBe(6000);
    await clock.advance(500);
    later.ended(true);
    ledger.begin().ended(true);
    expect(ledger.settledAt).toBe(6000);
  });

  it('keeps the last of several writes of unknown outcome, in any order of their ends', async () => {
    const clock = new VirtualClock();
    const ledger = new WriteLedger(clock, 5000);
    const first = ledger.begin();
    await clock.advance(2000);
    const second = ledger.begin();
    second.ended(false);
    first.ended(false);
    expect(ledger.settledAt).toBe(7000);
    const waiting = ledger.begin();
    expect(ledger.settledAt).toBe(7000);
    waiting.ended(true);
    expect(ledger.settledAt).toBe(7000);
  });
});
