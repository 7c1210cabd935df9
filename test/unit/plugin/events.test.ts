import { eventLines } from '../../../src/plugin/events.ts';

const at = { timestamp: '2026-03-01T12:34:56.789' };

it.each([
  [
    'a message of a person',
    {
      ...at,
      kind: 'MessageEvent',
      source: 'user',
      llm_message: { content: [{ type: 'text', text: 'Fix it\nsoon' }] },
    },
    ['12:34:56 You:', '    Fix it\n    soon'],
  ],
  [
    'a command',
    {
      ...at,
      kind: 'ActionEvent',
      tool_name: 'terminal',
      tool_call_id: 'c1',
      action: { kind: 'TerminalAction', command: 'make\nmake test' },
    },
    ['12:34:56 terminal, running: make', '    make\n    make test'],
  ],
  [
    'its result, with the output',
    {
      ...at,
      kind: 'ObservationEvent',
      tool_name: 'terminal',
      tool_call_id: 'c1',
      observation: { content: [{ type: 'text', text: 'done' }], exit_code: 2 },
    },
    ['12:34:56 terminal, failed', '    done'],
  ],
  [
    'an error of the run',
    { ...at, kind: 'ConversationErrorEvent', detail: 'The model does not answer.' },
    ['12:34:56 ! The model does not answer.'],
  ],
  [
    'an event of an unknown kind',
    { ...at, kind: 'NewEvent', value: 3 },
    ['12:34:56 NewEvent:', '    {\n      "value": 3\n    }'],
  ],
])('%s is shown as on the page', (_name, event, lines) => {
  expect(eventLines(event)).toEqual(lines);
});

it('an event that the page hides has no lines', () => {
  expect(
    eventLines({ ...at, kind: 'ConversationStateUpdateEvent', key: 'stats', value: {} }),
  ).toEqual([]);
});
