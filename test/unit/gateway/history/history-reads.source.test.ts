import {
  historySourceOf,
  type HistoryFacts,
} from '../../../../src/gateway/history/history-reads.ts';

const head = '0000000007-0123456789abcdef01234567';
const stored = { head, events: 7, bytes: 100 };
const expired = { events: 0, bytes: 0, expiredTime: '2026-01-01T00:00:00Z' };
const facts = (more: Partial<HistoryFacts>): HistoryFacts => ({
  start: 'READY',
  phase: 'PAUSED',
  isStopping: false,
  readsArchives: true,
  archive: stored,
  ...more,
});

describe('the events of a conversation', () => {
  it.each<[string, Partial<HistoryFacts>, string]>([
    ['are with the agent of a running sandbox', { phase: 'RUNNING' }, 'agent'],
    [
      'are with the agent also where the service keeps no history',
      { phase: 'RUNNING', readsArchives: false, archive: undefined },
      'agent',
    ],
    [
      'are with the agent until the stop of a pause has archived the last of them',
      { isStopping: true },
      'agent',
    ],
    [
      'are not read from an agent that stops where the service keeps no history',
      { isStopping: true, readsArchives: false },
      'archive-disabled',
    ],
    ['are archived while the sandbox is paused', { phase: 'PAUSED' }, 'archive'],
    ['are archived while it is resumed', { phase: 'STARTING' }, 'archive'],
    ['are archived when it has failed', { phase: 'ERROR' }, 'archive'],
    ['are archived when it is gone', { phase: 'MISSING' }, 'archive'],
    [
      'are archived where the archive was deleted and begun anew',
      { archive: { ...expired, ...stored } },
      'archive',
    ],
    [
      'are nowhere yet during the start',
      { start: 'PREPARING_REPOSITORY', archive: undefined },
      'nowhere',
    ],
    [
      'are nowhere yet during the start in a running sandbox',
      { start: 'WORKING', phase: 'RUNNING', readsArchives: false },
      'nowhere',
    ],
    [
      'do not exist after a failed start',
      { start: 'ERROR', phase: 'ERROR', archive: undefined },
      'archive-empty',
    ],
    ['were never archived', { archive: undefined }, 'archive-empty'],
    [
      'were never archived, as the status says',
      { archive: { events: 0, bytes: 0 } },
      'archive-empty',
    ],
    ['were deleted', { archive: expired }, 'archive-expired'],
    ['are not kept', { readsArchives: false }, 'archive-disabled'],
    ['are not kept any more', { readsArchives: false, archive: expired }, 'archive-disabled'],
  ])('%s', (_case, more, source) => {
    expect(historySourceOf(facts(more))).toBe(source);
  });
});
