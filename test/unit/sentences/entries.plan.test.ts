import type { AgentEvent } from '../../../src/agent/event-kinds.ts';
import { lastRunMsOf, planOf } from '../../../src/sentences/entries.ts';

const acp = (...value: readonly unknown[]): AgentEvent => ({
  kind: 'ConversationStateUpdateEvent',
  key: 'plan',
  value,
});
const tasks = [
  { title: 'Read', notes: '', status: 'done' },
  { title: 'Write', notes: '', status: 'todo' },
];

describe('the plan of an agent', () => {
  it('knows no state of the prototype', () => {
    const { steps } = planOf([acp({ content: 'Read', status: 'constructor' })]);
    expect(steps).toEqual([{ text: 'Read', state: 'open' }]);
  });

  it.each<[string, readonly AgentEvent[], readonly object[]]>([
    [
      'of the Agent Client Protocol, as it was sent last',
      [
        acp({ content: 'Read', status: 'in_progress' }),
        acp({ content: 'Read', status: 'completed' }, { content: 'Write', status: 'in_progress' }),
        { kind: 'MessageEvent' },
      ],
      [
        { text: 'Read', state: 'done' },
        { text: 'Write', state: 'doing' },
      ],
    ],
    [
      'of OpenHands',
      [
        {
          kind: 'ActionEvent',
          action: { kind: 'TaskTrackerAction', command: 'plan', task_list: tasks },
        },
      ],
      [
        { text: 'Read', state: 'done' },
        { text: 'Write', state: 'open' },
      ],
    ],
    [
      'of OpenHands, as it is read again',
      [
        {
          kind: 'ObservationEvent',
          observation: { kind: 'TaskTrackerObservation', task_list: tasks },
        },
        {
          kind: 'ActionEvent',
          action: { kind: 'TaskTrackerAction', command: 'view', task_list: [] },
        },
      ],
      [
        { text: 'Read', state: 'done' },
        { text: 'Write', state: 'open' },
      ],
    ],
    ['that is over', [acp({ content: 'Read' }), acp()], []],
    ['that is none', [{ key: 'plan', value: 'x' }, { action: null }, {}], []],
    [
      'with steps that are none',
      [acp(null, 5, {}, { content: 7, status: [] })],
      [
        { text: '', state: 'open' },
        { text: '', state: 'open' },
      ],
    ],
  ])('%s', (_case, events, steps) => {
    expect(planOf(events)).toEqual({ steps, more: 0 });
  });

  it('is bounded, and says how much is missing', () => {
    const step = { content: 'x'.repeat(1_000), status: 'pending' };
    const { steps, more } = planOf([acp(...Array<object>(150).fill(step))]);
    expect(steps).toHaveLength(100);
    expect(more).toBe(50);
    expect(steps[0]?.text).toBe(`${'x'.repeat(500)}…`);
  });
});

describe('the time of the last run', () => {
  const status = (value: string, second: number): AgentEvent => ({
    key: 'execution_status',
    value,
    timestamp: `2026-01-01T00:00:${String(second).padStart(2, '0')}.000001`,
  });
  it.each<[string, readonly AgentEvent[], number | undefined]>([
    ['is known of one that is over', [status('running', 1), {}, status('finished', 31)], 30_000],
    [
      'is that of the last one',
      [status('running', 1), status('error', 9), status('running', 10), status('idle', 12)],
      2_000,
    ],
    ['is unknown while it runs', [status('finished', 1), status('running', 2)], undefined],
    ['is unknown where its beginning is not read', [status('finished', 2)], undefined],
    [
      'is unknown where the clock was changed',
      [status('running', 9), status('idle', 1)],
      undefined,
    ],
  ])('%s', (_case, events, ms) => {
    expect(lastRunMsOf(events)).toBe(ms);
  });
});
