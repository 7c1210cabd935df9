import { silentLogger } from '@conversation-operator/base/logger';
import type { AgentClient, AgentConversation } from '../../../../../src/agent/agent.ts';
import { AgentError } from '../../../../../src/agent/errors.ts';
import {
  withRunResult,
  withoutEarlierResult,
} from '../../../../../src/controllers/conversation/execution/run-result.ts';
import type { ConversationStatus } from '../../../../../src/resources/conversation-status.ts';
import { later, noon } from '../../../../support/builders.ts';
import { VirtualClock } from '../../../../support/virtual-clock.ts';

const id = '019aa6a65c4d7b1e8f1f2f7f4f3a2b10';
const key = 'sk-0123456789abcdef';
const reported: AgentConversation = {
  id,
  executionStatus: 'finished',
  reportedStatus: 'finished',
  title: undefined,
  updatedAt: noon,
  lastUserMessageId: 'm1',
  metrics: undefined,
};
const running: ConversationStatus = { executionStatus: 'running', lastActivityTime: later(-9_000) };
const over: ConversationStatus = { executionStatus: 'finished', lastActivityTime: noon };
const known: ConversationStatus = { ...over, lastResult: { message: 'Known.' } };
const failed = { reason: 'ToolFailed', exitCode: 3, message: 'It failed.' } as const;

type Read = AgentClient['lastResult'];

/** The status after a report, and how often the agent was asked for the result. */
async function after(
  read: Read,
  before: ConversationStatus,
  status: ConversationStatus,
  state = reported,
) {
  const clock = new VirtualClock();
  let reads = 0;
  const lastResult: Read = (...call) => {
    reads += 1;
    return read(...call);
  };
  const next = withRunResult(
    { agent: { lastResult }, clock, logger: silentLogger },
    {
      endpoint: { baseUrl: 'http://agent', sessionKey: 'key' },
      state,
      secrets: () => Promise.resolve([{ name: 'key', value: key }]),
    },
    { before, status, signal: new AbortController().signal },
  );
  const late = clock.advance(2_000).then(() => {
    throw new Error('The status waits for more than two seconds.');
  });
  return { status: await Promise.race([next, late]), reads };
}

const answers =
  (result: Awaited<ReturnType<Read>>): Read =>
  () =>
    Promise.resolve(result);

const cases: readonly (readonly [
  string,
  ConversationStatus,
  ConversationStatus,
  ConversationStatus['lastResult'],
  number,
])[] = [
  ['is read when the run ends', running, over, failed, 1],
  ['is read when the agent was first polled after its run', {}, over, failed, 1],
  ['is read again after an activity', known, { ...known, lastActivityTime: later(1) }, failed, 1],
  ['stays while the agent is at rest', known, known, known.lastResult, 0],
  [
    'is not read while the run continues',
    known,
    { ...known, executionStatus: 'running' },
    known.lastResult,
    0,
  ],
  [
    'has no reason where the status is one',
    running,
    { ...over, executionStatus: 'error' },
    { message: 'It failed.' },
    1,
  ],
  [
    'has its reason where the agent is idle',
    running,
    { ...over, executionStatus: 'idle' },
    failed,
    1,
  ],
];

describe('the result of a run', () => {
  it.each(cases)('%s', async (_what, before, next, lastResult, reads) => {
    const { status, reads: count } = await after(answers(failed), before, next);
    expect([status.lastResult, count]).toEqual([lastResult, reads]);
  });

  it('has no part of a secret, wherever that is in a long message', async () => {
    for (const size of [65_510, 65_525, 65_536]) {
      const message = `Done.${'\n'.repeat(size)}${key}`;
      const { status } = await after(answers({ message }), running, over);
      expect(status.lastResult?.message).not.toMatch(/sk-|0123/);
    }
  });

  it('is not read before a user has said something', async () => {
    const state = { ...reported, lastUserMessageId: undefined };
    expect(await after(answers(failed), running, over, state)).toEqual({ status: over, reads: 0 });
  });

  const problems: readonly (readonly [string, Read])[] = [
    ['the agent knows none', answers(undefined)],
    ['the read fails', () => Promise.reject(new AgentError('malformed', 'Too large.'))],
    [
      'the agent does not answer within two seconds',
      (_endpoint, _state, { signal } = {}) =>
        new Promise((_resolve, reject) => {
          signal?.addEventListener('abort', () => reject(new AgentError('aborted', 'aborted')));
        }),
    ],
  ];
  it.each(problems)('is absent where %s, and the status is as reported', async (_what, read) => {
    const { status } = await after(read, known, { ...known, lastActivityTime: later(1) });
    expect(status).toEqual({ ...over, lastActivityTime: later(1) });
  });

  it('contains no secret, also where the secret is at the end of what is stored', async () => {
    for (const length of [0, 150, 185, 199, 250]) {
      const message = `${'a '.repeat(length / 2)}${key} is the key.`;
      const { status } = await after(answers({ message }), running, over);
      expect(status.lastResult?.message).not.toContain(key.slice(0, 5));
    }
  });

  const texts: readonly (readonly [string, string, string | undefined])[] = [
    [
      'on one line',
      'All blocks succeeded.\n\n1. `ls`: exit code 0',
      'All blocks succeeded. 1. `ls`: exit code 0',
    ],
    ['none of white space', ' \n ', undefined],
    [
      'of whole sentences',
      `${'It is done. '.repeat(15)}${'b'.repeat(100)}`,
      `${'It is done. '.repeat(15)}…`,
    ],
    ['of whole words', 'word '.repeat(60), `${'word '.repeat(39).trim()}…`],
    ['of one long word', 'x'.repeat(300), `${'x'.repeat(198)}…`],
    ['with a mark behind what is too long to be read', `${'\u0007'.repeat(5_000)}end`, '…'],
  ];
  it.each(texts)('has the words of the agent %s', async (_what, message, words) => {
    const { status } = await after(answers({ message }), running, over);
    expect(status.lastResult?.message).toBe(words);
  });

  it('goes once a run begins, and stays otherwise', () => {
    expect(withoutEarlierResult({ ...known, executionStatus: 'running' })).toEqual({
      ...over,
      executionStatus: 'running',
    });
    expect(withoutEarlierResult(known)).toBe(known);
  });
});
