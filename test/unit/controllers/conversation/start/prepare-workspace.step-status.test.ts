import {
  isRunning,
  pollAfterMs,
  withStep,
} from '../../../../../src/controllers/conversation/start/prepare-workspace.ts';
import type { ConversationStatus } from '../../../../../src/resources/conversation-status.ts';
import { later, noon, noonMs } from '../../../../support/builders.ts';

const begun: ConversationStatus = { start: { status: 'PREPARING_REPOSITORY', transitions: [] } };
const running = (output: string) => ({ state: 'running', exitCode: 0, output }) as const;

describe('the status of a step', () => {
  const first = withStep(begun, { name: 'clone', report: running('Receiving: 1%'), nowMs: noonMs });

  it('says that it runs, and how far it is', () => {
    expect(first.start?.steps).toEqual([
      {
        name: 'clone',
        state: 'running',
        startedAt: noon,
        updatedAt: noon,
        output: 'Receiving: 1%',
      },
    ]);
    expect(isRunning(first, 'clone')).toBe(true);
    expect(isRunning(first, 'setup')).toBe(false);
  });

  it('is written for progress every 5 s at most', () => {
    expect(
      withStep(first, { name: 'clone', report: running('Receiving: 2%'), nowMs: noonMs + 4_999 }),
    ).toBe(first);
    const progressed = withStep(first, {
      name: 'clone',
      report: running('Receiving: 3%'),
      nowMs: noonMs + 5_000,
    });
    expect(progressed.start?.steps?.[0]?.output).toBe('Receiving: 3%');
  });

  it.each([
    ['done', { state: 'done', exitCode: 0, output: 'x' } as const, { state: 'done', exitCode: 0 }],
    [
      'failed',
      { state: 'done', exitCode: 7, output: 'x' } as const,
      { state: 'failed', exitCode: 7 },
    ],
    ['given up', { state: 'exhausted', exitCode: 0, output: 'x' } as const, { state: 'failed' }],
  ])('is written at once when it is %s', (_sentence, report, expected) => {
    const over = withStep(first, { name: 'clone', report, nowMs: noonMs + 1 });
    expect(over.start?.steps).toEqual([
      {
        name: 'clone',
        startedAt: noon,
        updatedAt: later(1),
        endedAt: later(1),
        output: 'x',
        ...expected,
      },
    ]);
    expect(withStep(over, { name: 'clone', report, nowMs: noonMs + 60_000 })).toBe(over);
  });

  it('is checked less and less often', () => {
    expect([1_000, 11_000, 61_000].map((ms) => pollAfterMs(first, 'clone', noonMs + ms))).toEqual([
      500, 2_000, 5_000,
    ]);
  });
});
