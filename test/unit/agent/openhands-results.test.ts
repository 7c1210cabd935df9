import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { resultOf } from '../../../src/agent/openhands-results.ts';
import { recentEventsSchema, type RecentEvent } from '../../../src/agent/wire.ts';

const parsed = (items: readonly object[]): readonly RecentEvent[] =>
  recentEventsSchema.parse({ items }).items;

const said = (source: 'user' | 'agent', text: string): object => ({
  kind: 'MessageEvent',
  source,
  llm_message: { content: [{ type: 'text', text }] },
});
const asked = said('user', 'Do it.');
const call = { kind: 'ActionEvent', source: 'agent', action: { kind: 'TerminalAction' } };
const ran = (observation: object) => ({ kind: 'ObservationEvent', observation, tool_call_id: 'c' });
const exit = (code: number, kind = 'TerminalObservation') =>
  ran({ kind, exit_code: code, is_error: code > 0 });
const finish = { kind: 'ActionEvent', action: { kind: 'FinishAction', message: 'All done.' } };
const finished = ran({ kind: 'FinishObservation' });
const acp = (status: string, id = 'c') => ({ kind: 'ACPToolCallEvent', status, tool_call_id: id });
const rejected = { kind: 'UserRejectObservation', tool_call_id: 'c' };

const cases: readonly (readonly [string, readonly object[], unknown])[] = [
  ['nothing without events', [], undefined],
  ['nothing before the agent has done something', [said('agent', 'Old.'), asked], undefined],
  [
    'the last message',
    [asked, call, exit(0), said('agent', 'First.'), said('agent', ' Done. ')],
    { message: 'Done.' },
  ],
  [
    'the message of the tool that ends a run',
    [asked, call, exit(0), finish, finished],
    { message: 'All done.' },
  ],
  [
    'a command that failed last',
    [asked, call, exit(3), said('agent', 'No.')],
    { reason: 'ToolFailed', exitCode: 3, message: 'No.' },
  ],
  [
    'a command that failed before the tool that ends a run',
    [asked, call, exit(3), finish, finished],
    { reason: 'ToolFailed', exitCode: 3, message: 'All done.' },
  ],
  [
    'a command that failed before a thought',
    [asked, call, exit(3), ran({ kind: 'ThinkObservation' })],
    { reason: 'ToolFailed', exitCode: 3 },
  ],
  [
    'a command that failed before the last one as mended',
    [asked, call, exit(3), call, exit(0), finish],
    { message: 'All done.' },
  ],
  [
    'a command that still runs as no failure',
    [asked, call, exit(-1), finish],
    { message: 'All done.' },
  ],
  [
    'a command that failed before the last message of the user as mended',
    [call, exit(3), asked, call, exit(0), finish],
    { message: 'All done.' },
  ],
  [
    'a failed tool without an exit code',
    [asked, call, ran({ is_error: true }), finish],
    { reason: 'ToolFailed', message: 'All done.' },
  ],
  [
    'a call that was not understood',
    [asked, call, { kind: 'AgentErrorEvent' }],
    { reason: 'ToolFailed' },
  ],
  [
    'a call that a pause has ended',
    [
      asked,
      call,
      {
        kind: 'AgentErrorEvent',
        error: 'Tool call interrupted before completion. The conversation was paused.',
      },
      said('agent', 'The others succeeded.'),
    ],
    { message: 'The others succeeded.' },
  ],
  [
    'a failed call of an ACP agent',
    [asked, acp('pending'), acp('failed'), said('agent', 'No.')],
    { reason: 'ToolFailed', message: 'No.' },
  ],
  [
    'a call of an ACP agent that went well',
    [asked, acp('failed', 'b'), acp('completed'), said('agent', 'Yes.')],
    { message: 'Yes.' },
  ],
  ['a rejection', [asked, call, rejected], { reason: 'ToolRejected' }],
  [
    'a rejection that an ACP agent reports as a failure',
    [asked, rejected, acp('failed'), said('agent', 'Ok.')],
    { reason: 'ToolRejected', message: 'Ok.' },
  ],
  [
    'a failure after a rejection of another call',
    [asked, rejected, acp('failed', 'd')],
    { reason: 'ToolFailed' },
  ],
  [
    'no exit code that no resource holds',
    [asked, ran({ is_error: true, exit_code: 1e30 }), finish],
    { reason: 'ToolFailed', message: 'All done.' },
  ],
];

it.each(cases)('shows %s', (_what, events, result) => {
  expect(resultOf(parsed(events.toReversed()), true)).toEqual(result);
});

const withoutModel: readonly (readonly [string, readonly object[], boolean, unknown])[] = [
  [
    'did nothing',
    [asked, said('agent', 'No model.')],
    false,
    { reason: 'ModelNotConfigured', message: 'No model.' },
  ],
  ['ran a command', [asked, call, exit(0), said('agent', 'Ran.')], false, { message: 'Ran.' }],
  [
    'ran a command that failed',
    [asked, call, exit(3)],
    false,
    { reason: 'ToolFailed', exitCode: 3 },
  ],
  ['did more than was read', [said('agent', 'Ran.')], false, { message: 'Ran.' }],
  ['has a model and only answers', [asked, said('agent', 'Yes.')], true, { message: 'Yes.' }],
];

it.each(withoutModel)('of an agent that %s', (_what, events, hasModel, result) => {
  expect(resultOf(parsed(events.toReversed()), hasModel)).toEqual(result);
});

const recorded = (agent: string) =>
  JSON.parse(
    readFileSync(join(import.meta.dirname, `../../fixtures/histories/${agent}.json`), 'utf8'),
  ) as object[][];

describe('the recorded runs', () => {
  it.each(['claude', 'codex', 'gemini', 'kimi', 'opencode', 'qwen'])(
    'of %s end with its last message, and with a rejection',
    (agent) => {
      const [approved, rejection] = recorded(agent).map((events) =>
        resultOf(parsed(events.slice(-20).toReversed()), true),
      );
      expect(approved).toEqual({ message: expect.stringContaining('This is about') as string });
      expect(rejection).toMatchObject({ reason: 'ToolRejected' });
    },
  );

  it('of openhands-agent-server end with the message of its last tool', () => {
    const [events = []] = recorded('openhands');
    expect(resultOf(parsed(events.slice(-20).toReversed()), true)).toEqual({ message: 'all done' });
  });

  it('of the reference agent end with a failed command, and with a rejection', () => {
    const results = recorded('reference-agent').map((events) =>
      resultOf(parsed(events.toReversed()), false),
    );
    expect(results).toEqual([
      expect.objectContaining({ reason: 'ToolFailed', exitCode: 3 }),
      expect.objectContaining({ reason: 'ToolRejected' }),
    ]);
  });
});
