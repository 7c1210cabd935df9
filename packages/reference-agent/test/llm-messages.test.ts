import {
  agentMessage,
  type AgentEvent,
  type EventBody,
} from '@conversation-operator/agent-server/events';
import { historyOf } from '../src/llm-messages.ts';
import {
  terminalAction,
  terminalObservation,
} from '@conversation-operator/agent-server/tool-events';

let number = 0;
const stored = (body: EventBody): AgentEvent => ({
  id: `e${(number += 1)}`,
  timestamp: '2026-01-01T00:00:00.000000',
  ...body,
});
const user = (text: string) =>
  stored({
    kind: 'MessageEvent',
    source: 'user',
    llm_message: { role: 'user', content: [{ type: 'text', text }] },
    activated_skills: [],
  });
const call = (toolCallId: string) => ({
  toolCallId,
  responseId: 'r',
  thought: '',
  command: 'ls',
  timeoutSeconds: 1,
});
const action = (toolCallId: string) => stored(terminalAction(call(toolCallId)));
const result = (toolCallId: string, output: string, exitCode = 0) =>
  stored(
    terminalObservation(call(toolCallId), 'a', '/', {
      exitCode,
      stdout: output,
      stderr: '',
      timedOut: false,
    }),
  );
const failure = (tool_call_id: string) =>
  stored({
    kind: 'AgentErrorEvent',
    source: 'agent',
    tool_name: 'terminal',
    tool_call_id,
    error: 'interrupted',
  });

const shape = (events: readonly AgentEvent[]) =>
  historyOf(events).map((message) =>
    'tool_calls' in message ? 'call' : `${message.role}: ${JSON.stringify(message.content)}`,
  );

describe('the history that a model sees', () => {
  it.each([
    [
      'messages in their order',
      [user('a'), stored(agentMessage('b'))],
      ['user: "a"', 'assistant: "b"'],
    ],
    [
      'each call with its result',
      [user('a'), action('1'), result('1', 'out', 2)],
      ['user: "a"', 'call', 'tool: "out\\n[exit code 2]"'],
    ],
    [
      'an interrupted call with what became of it',
      [action('1'), failure('1')],
      ['call', 'tool: "interrupted"'],
    ],
    [
      'a message that came while a command ran behind its result',
      [action('1'), user('a'), result('1', '')],
      ['call', 'tool: "\\n[exit code 0]"', 'user: "a"'],
    ],
    [
      'no call without a result, but the message that came then',
      [user('a'), action('1'), user('b')],
      ['user: "a"', 'user: "b"'],
    ],
  ])('has %s', (_name, events, expected) => {
    expect(shape(events)).toEqual(expected);
  });

  it('leaves old output out when there is too much', () => {
    const long = 'x'.repeat(250_000);
    const messages = historyOf([action('1'), result('1', long), action('2'), result('2', long)]);
    expect(messages[1]?.content).toBe('[old output omitted]');
    expect(messages[3]?.content).toContain('xxx');
  });
});
