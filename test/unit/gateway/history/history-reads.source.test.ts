import {
  historySourceOf,
  type HistoryFacts,
} from '../../../../src/gateway/history/history-reads.ts';

const facts = (more: Partial<HistoryFacts>): HistoryFacts => ({
  start: 'READY',
  phase: 'PAUSED',
  isStopping: false,
  readsArchives: true,
  ...more,
});

describe('the events of a conversation', () => {
  it.each<[string, Partial<HistoryFacts>, string]>([
    ['are with the agent of a running sandbox', { phase: 'RUNNING' }, 'agent'],
    [
      'are with the agent also where the service keeps no history',
      { phase: 'RUNNING', readsArchives: false },
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
    ['are nowhere yet during the start', { start: 'PREPARING_REPOSITORY' }, 'nowhere'],
    [
      'are nowhere yet during the start in a running sandbox',
      { start: 'WORKING', phase: 'RUNNING', readsArchives: false },
      'nowhere',
    ],
    ['are archived after a failed start', { start: 'ERROR', phase: 'ERROR' }, 'archive'],
    ['are not kept', { readsArchives: false }, 'archive-disabled'],
  ])('%s', (_case, more, source) => {
    expect(historySourceOf(facts(more))).toBe(source);
  });
});
