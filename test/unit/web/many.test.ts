import { outcomeOf, questionFor, fittingRows } from '../../../src/web/many.ts';
import { Row } from '../../../src/web/row.ts';
import { isManyKey, type ManyAction } from '../../../src/web/selection.ts';
import { aConversation, aSandbox, aTask, idOf } from '../../support/page-records.ts';
import { running, started, withSandbox } from './facts.ts';
import type { Facts } from '../../../src/web/facts.ts';

const failedStart: Facts = {
  ...withSandbox('ERROR', 'branch-not-found'),
  task: aTask(1, { status: 'ERROR' }),
};

it.each<readonly [string, Facts, readonly ManyAction[]]>([
  ['works', running(), ['pause', 'delete']],
  ['is paused', withSandbox('PAUSED', 'user'), ['resume', 'delete']],
  ['waits for room', withSandbox('STARTING', 'waiting-for-quota'), ['pause', 'delete']],
  ['has failed at its start', failedStart, ['retry', 'delete']],
  ['has failed later', withSandbox('ERROR', 'image-pull-failed'), ['resume', 'delete']],
  ['is gone', { ...failedStart, ...withSandbox('MISSING', 'deleted') }, ['delete']],
  ['has only its start', started(), []],
])('offers what fits a conversation that %s', (_state, facts, actions) => {
  const rows = [new Row(idOf(1), facts)];
  const all = ['pause', 'resume', 'retry', 'delete'] as const;
  expect(all.filter((action) => fittingRows(action, rows).length > 0)).toEqual(actions);
});

const row = (number: number, sandboxId = `sbx-${number}`) =>
  new Row(idOf(number), {
    conversation: aConversation(number, { sandbox_id: sandboxId }),
    sandbox: aSandbox(number),
  });

it.each<readonly [string, ManyAction, readonly Row[], string]>([
  [
    'a deletion of one',
    'delete',
    [row(1)],
    'Delete 1 conversation (1 Working)? Its files and its history are deleted too.',
  ],
  [
    'a pause of sandboxes that others share',
    'pause',
    [row(1), row(2)],
    'Pause 2 conversations (2 Working)? Runs of their agents are interrupted. 2 conversations in the same sandboxes are paused too.',
  ],
])('asks before %s', (_what, action, rows, text) => {
  const others = [row(3, 'sbx-1'), row(4, 'sbx-2'), row(5)];
  expect(questionFor(action, rows, [...rows, ...others]).text).toBe(text);
});

it('states an outcome whole', () => {
  const outcome = { done: [row(1)], failed: [row(2), row(3)], changed: [row(4)] };
  expect(outcomeOf('pause', outcome)).toBe(
    '1 paused. 2 failed: each says why. 1 conversation changed after the question, and was left as it is.',
  );
});

it('knows no key of the prototype', () => {
  expect(['p', 'd', 'toString', 'z'].filter(isManyKey)).toEqual(['p', 'd']);
});
