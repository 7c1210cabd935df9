import type { Facts } from '../../../src/sentences/facts.ts';
import { groupOf, pillOf, type Group } from '../../../src/sentences/groups.ts';
import {
  asking,
  ended,
  failedCommand,
  lostAnswer,
  running,
  started,
  withSandbox,
} from './facts.ts';

const cases: readonly (readonly [string, Facts, Group, string])[] = [
  ['an agent asks', running({ execution_status: 'waiting_for_confirmation' }), 'needs-you', 'Asks'],
  ['an agent is stuck', running({ execution_status: 'stuck' }), 'needs-you', 'Stuck'],
  ['a run has failed', running({ execution_status: 'error' }), 'needs-you', 'Run failed'],
  [
    'a start has failed for something its owner can mend',
    withSandbox('ERROR', 'branch-not-found'),
    'needs-you',
    'Failed',
  ],
  ['an agent works', running({ execution_status: 'running' }), 'working', 'Running'],
  ['an agent has not begun', running({ execution_status: null }), 'working', 'Running'],
  ['a start was accepted', started(), 'working', 'Starting'],
  ['a pod comes up', withSandbox('STARTING', 'waiting-for-pod'), 'working', 'Starting'],
  ['a start waits', withSandbox('STARTING', 'waiting-for-quota'), 'waiting', 'Waiting'],
  ['a resume waits', withSandbox('STARTING', 'waiting-for-idle-sandbox'), 'waiting', 'Waiting'],
  [
    'a start waits for the budget',
    withSandbox('STARTING', 'waiting-for-budget'),
    'waiting',
    'Waiting',
  ],
  [
    'a paused agent asks',
    withSandbox('PAUSED', 'quota', null, asking('rm -rf build')),
    'needs-you',
    'Paused',
  ],
  ['a quota has paused it', withSandbox('PAUSED', 'quota'), 'paused', 'Paused'],
  ['its run was stopped', running({ execution_status: 'paused' }), 'finished', 'Stopped'],
  [
    'an answer was lost',
    running({ ...lostAnswer, execution_status: 'finished' }),
    'needs-you',
    'Answer lost',
  ],
  [
    'an answer was lost during a pause',
    withSandbox('PAUSED', 'idle', null, lostAnswer),
    'needs-you',
    'Paused',
  ],
  [
    'an answer was lost, and the agent works',
    running({ ...lostAnswer, execution_status: 'running' }),
    'working',
    'Running',
  ],
  ['the last command failed', running(ended(failedCommand)), 'needs-you', 'Tool failed'],
  [
    'an agent without a model did nothing',
    running(ended({ reason: 'model-not-configured' })),
    'needs-you',
    'No model',
  ],
  [
    'the last tool call was rejected',
    running(ended({ reason: 'tool-rejected' }, { execution_status: 'idle' })),
    'finished',
    'Rejected',
  ],
  [
    'the sandbox of a run whose last command failed is paused',
    withSandbox('PAUSED', 'idle', null, { ...ended(failedCommand), execution_status: null }),
    'paused',
    'Paused',
  ],
  ['a reason is unknown', running(ended({ reason: 'other' })), 'finished', 'Finished'],
  ['its run is over', running({ execution_status: 'finished' }), 'finished', 'Finished'],
  ['it waits for a message', running({ execution_status: 'idle' }), 'finished', 'Idle'],
  ['an image is missing', withSandbox('ERROR', 'image-pull-failed'), 'failed', 'Failed'],
  ['its start has failed, without its record', started({ status: 'ERROR' }), 'failed', 'Failed'],
  ['its sandbox is gone', withSandbox('MISSING', 'deleted'), 'failed', 'Gone'],
];

it.each(cases)('where %s, the group and the pill say so', (_state, facts, group, label) => {
  expect([groupOf(facts), pillOf(facts).label]).toEqual([group, label]);
});
