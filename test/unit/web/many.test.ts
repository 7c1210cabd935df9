import { fittingRows, outcomeOf, performMany, questionFor } from '../../../src/web/many.ts';
import { Row } from '../../../src/web/row.ts';
import { isManyKey, type ManyAction } from '../../../src/web/selection.ts';
import { aConversation, aSandbox, aTask, idOf } from '../../support/page-records.ts';
import { running, started, withSandbox } from '../sentences/facts.ts';
import type { Facts } from '../../../src/sentences/facts.ts';

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

it('says how many of those that it asks about are not shown', () => {
  const [shown, ...hidden] = [row(1), row(2), row(3)];
  const { text } = questionFor('delete', [shown, ...hidden], [], (each) => each === shown);
  expect(text).toContain('Delete 3 conversations (3 Working; 2 not shown by the filter)?');
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

it('leaves a row as it is that has changed its group or is gone, and keeps what has failed', async () => {
  const rows = [row(1), row(2), row(3), row(4)];
  const question = questionFor('delete', rows, rows);
  rows[0]?.set(running({ execution_status: 'finished' }));
  const outcome = await performMany(question, {
    act: ({ id }) => Promise.resolve(id !== idOf(3)),
    isThere: ({ id }) => id !== idOf(2),
    onAnswer: () => undefined,
  });
  const ids = Object.values(outcome).map((some: readonly Row[]) => some.map(({ id }) => id));
  expect(ids).toEqual([[idOf(4)], [idOf(3)], [idOf(1), idOf(2)]]);
});

it('leaves a row that changes its group while others are deleted', async () => {
  const rows = Array.from({ length: 8 }, (_, index) => row(index + 1));
  const question = questionFor('delete', rows, rows);
  const { changed } = await performMany(question, {
    act: () => {
      rows[7]?.set(running({ execution_status: 'finished' }));
      return Promise.resolve(true);
    },
    isThere: () => true,
    onAnswer: () => undefined,
  });
  expect(changed.map(({ id }) => id)).toEqual([idOf(8)]);
});

it('has four requests under way at a time', async () => {
  const rows = Array.from({ length: 9 }, (_, index) => row(index + 1));
  let [present, most] = [0, 0];
  await performMany(questionFor('pause', rows, rows), {
    act: async () => {
      most = Math.max(most, ++present);
      await Promise.resolve();
      present--;
      return true;
    },
    isThere: () => true,
    onAnswer: () => undefined,
  });
  expect(most).toBe(4);
});
