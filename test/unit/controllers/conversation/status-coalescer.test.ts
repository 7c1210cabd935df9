import { StatusCoalescer } from '../../../../src/controllers/conversation/status-coalescer.ts';
import type { ConversationStatus } from '../../../../src/resources/conversation-status.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const stored: ConversationStatus = {
  executionStatus: 'running',
  lastActivityTime: '2030-01-01T00:00:00Z',
  title: 'one',
};
const busier: ConversationStatus = {
  ...stored,
  lastActivityTime: '2030-01-01T00:00:05Z',
  metrics: { promptTokens: 5 },
};

describe('StatusCoalescer', () => {
  const written: [string, ConversationStatus, ConversationStatus | undefined][] = [
    [
      'another execution status, with the metrics',
      { ...busier, executionStatus: 'finished' },
      stored,
    ],
    ['another title', { ...busier, title: 'two' }, stored],
    ['an error', { ...busier, executionDetail: 'why' }, stored],
    ['a field that goes', { executionStatus: 'running' }, stored],
    ['the first status', busier, undefined],
  ];
  it.each(written)('%s is written at once', (_, next, before) => {
    expect(new StatusCoalescer({ clock: new VirtualClock() }).withheld('a', next, before)).toBe(
      false,
    );
  });

  it('metrics and activity alone are written once in 30 s', async () => {
    const clock = new VirtualClock();
    const writes = new StatusCoalescer({ clock });
    let status = stored;
    let count = 0;
    for (let second = 0; second < 300; second++) {
      const next = { ...stored, metrics: { promptTokens: second + 1 } };
      if (!writes.withheld('a', next, status)) {
        status = next;
        count++;
      }
      await clock.advance(1_000);
    }
    expect(count).toBe(9);
  });

  it('what is withheld makes itself due', async () => {
    const clock = new VirtualClock();
    const writes = new StatusCoalescer({ clock });
    expect(writes.waitMs('a')).toBe(Infinity);
    writes.withheld('a', busier, stored);
    await clock.advance(10_000);
    expect(writes.waitMs('a')).toBe(20_000);
    await clock.advance(20_000);
    expect(writes.withheld('a', busier, stored)).toBe(false);
    expect(writes.waitMs('a')).toBe(Infinity);
  });

  it('a write of something else begins the time anew', async () => {
    const clock = new VirtualClock();
    const writes = new StatusCoalescer({ clock });
    writes.withheld('a', busier, stored);
    await clock.advance(29_000);
    expect(writes.withheld('a', { ...busier, executionStatus: 'idle' }, stored)).toBe(false);
    expect(writes.withheld('a', { ...busier, metrics: { promptTokens: 9 } }, busier)).toBe(true);
    expect(writes.waitMs('a')).toBe(30_000);
  });
});
