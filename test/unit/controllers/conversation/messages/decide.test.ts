import fc from 'fast-check';
import {
  unconfirmedDelivery,
  isLost,
  type UnconfirmedDelivery,
  type InFlight,
  withNothingInFlight,
  withRejected,
  withInFlight,
  withDelivered,
  withoutRunPending,
} from '../../../../../src/controllers/conversation/messages/decide.ts';
import {
  isStored,
  requestPendingRun,
  runRequestOf,
} from '../../../../../src/controllers/conversation/messages/delivery.ts';
import { correctedByMessage } from '../../../../../src/controllers/conversation/execution/run-observer.ts';
import { withRunRequested } from '../../../../../src/controllers/conversation/execution/run-resume.ts';
import type { AgentConversation } from '../../../../../src/agent/agent.ts';
import type { LaterMessage } from '../../../../../src/resources/conversation.ts';
import type {
  ConversationStatus,
  ExecutionStatus,
} from '../../../../../src/resources/conversation-status.ts';
import { later, noon, noonMs } from '../../../../support/builders.ts';
import { VirtualClock } from '../../../../support/virtual-clock.ts';

const aMessage = (number: number, text: string, run = true): LaterMessage => ({
  number,
  id: `m${number}`,
  role: 'user',
  content: [{ type: 'text', text }],
  run,
});
const stored = (...texts: string[]) =>
  texts.map((text, index) => ({ id: String(index), timestamp: noon, text }));
const inFlight = (more: Partial<InFlight> = {}): InFlight => ({
  number: 1,
  attempt: 1,
  time: noon,
  container: 'one',
  ...more,
});
const agentSays = (executionStatus: ExecutionStatus): AgentConversation => ({
  id: 'c1',
  executionStatus,
  reportedStatus: executionStatus,
  title: undefined,
  updatedAt: undefined,
  lastUserMessageId: undefined,
  metrics: undefined,
});

describe('a message of unknown outcome', () => {
  const seconds = (count: number) => count * 1000;
  /** Polls of one process, each at its time in seconds. */
  const polls = (
    ...at: readonly (readonly [number, 'runs' | 'rests', string?])[]
  ): UnconfirmedDelivery | undefined =>
    at.reduce<UnconfirmedDelivery | undefined>(
      (known, [second, what, container = 'one']) =>
        unconfirmedDelivery(known, {
          uid: 'u',
          inFlight: inFlight(),
          container,
          isRunning: what === 'runs',
          now: seconds(second),
        }),
      undefined,
    );

  it.each<[string, UnconfirmedDelivery | undefined, number, string, boolean]>([
    ['is not lost at the first poll', polls([100, 'rests']), 100, 'one', false],
    ['may come as long as calls may be under way', polls([0, 'rests']), 19, 'one', false],
    ['is lost when that is over, and nothing runs', polls([0, 'rests']), 20, 'one', true],
    [
      'waits at the agent as long as something runs',
      polls([0, 'runs'], [900, 'runs']),
      900,
      'one',
      false,
    ],
    [
      'may be on its way to the disk when a run has just ended',
      polls([0, 'runs'], [900, 'rests']),
      902,
      'one',
      false,
    ],
    [
      'is lost when the run has ended for a while',
      polls([0, 'runs'], [900, 'rests']),
      903,
      'one',
      true,
    ],
    [
      'waits again when another run has begun',
      polls([0, 'runs'], [900, 'rests'], [901, 'runs'], [902, 'rests']),
      904,
      'one',
      false,
    ],
    [
      'is lost with its container, whatever runs now',
      polls([0, 'runs'], [20, 'runs']),
      21,
      'another',
      true,
    ],
    [
      'may still be under way to the same address when its container is gone',
      polls([0, 'runs']),
      19,
      'another',
      false,
    ],
    [
      'may wait in the next container when it was under way at the change',
      polls([0, 'runs'], [19, 'runs'], [900, 'runs', 'another']),
      900,
      'another',
      false,
    ],
    [
      'may wait in the next container when no poll saw the change',
      polls([0, 'runs', 'another']),
      900,
      'another',
      false,
    ],
    [
      'is lost when the run in the next container has ended for a while',
      polls([0, 'runs'], [1, 'rests', 'another']),
      20,
      'another',
      true,
    ],
  ])('%s', (_case, doubt, at, container, expected) => {
    expect(doubt !== undefined && isLost(doubt, container, seconds(at))).toBe(expected);
  });

  it.each<[string, Partial<InFlight>, string]>([
    ['has been sent again since', { attempt: 2 }, 'u'],
    ['is another one', { number: 2 }, 'u'],
    ['was marked anew', { time: later(1) }, 'u'],
    ['belongs to another conversation of the same name', {}, 'v'],
  ])('is in doubt from now on when it %s', (_case, more, uid) => {
    const known = polls([0, 'rests'], [19, 'rests']);
    expect(
      unconfirmedDelivery(known, {
        uid,
        inFlight: inFlight(more),
        container: 'one',
        isRunning: false,
        now: seconds(20),
      }),
    ).toMatchObject({ since: seconds(20) });
  });
});

describe('what the agent has stored', () => {
  it.each<[string, string, string[], boolean]>([
    ['is it, with the same text', 'Continue', ['Stop', 'Continue'], true],
    ['is not it, with another one', 'Continue', ['Cont', 'inue', 'Continue.'], false],
    ['is not it when there is nothing', 'Continue', [], false],
    [
      'is it, with what the agent hides',
      'use tok-123, not tok-123!',
      ['use <secret-hidden>, not <secret-hidden>!'],
      true,
    ],
    [
      'is not it when the rest differs',
      'use tok-123, not tok-123!',
      ['use <secret-hidden>, nor <secret-hidden>!'],
      false,
    ],
    ['is not it when parts overlap', 'abc', ['ab<secret-hidden>bc'], false],
  ])('%s', (_case, text, texts, expected) => {
    expect(isStored(aMessage(1, text), stored(...texts))).toBe(expected);
  });

  it('is it, whatever part of a text the agent hides', () => {
    fc.assert(
      fc.property(
        fc.string(),
        fc.string({ minLength: 1 }),
        fc.string(),
        (before, secret, after) => {
          const text = `${before}${secret}${after}`;
          expect(
            isStored(aMessage(1, text), stored(text.replaceAll(secret, '<secret-hidden>'))),
          ).toBe(true);
        },
      ),
    );
  });

  it('is all the text of a message in its parts', () => {
    const message: LaterMessage = {
      ...aMessage(1, ''),
      content: [
        { type: 'text', text: 'one' },
        { type: 'image', imageUrls: ['data:'] },
        { type: 'text', text: 'two' },
      ],
    };
    expect(isStored(message, stored('one\n\ntwo'))).toBe(true);
  });
});

describe('the status after a message', () => {
  it('shows the agent running as soon as the run of the message is requested', () => {
    const delivered = withDelivered(
      { executionStatus: 'finished', agentEpoch: 1 },
      aMessage(3, 'x'),
      { now: noon },
    );
    const status = withRunRequested(withoutRunPending(delivered), noon);
    expect(status).toEqual({
      executionStatus: 'running',
      agentEpoch: 1,
      messages: { lastDelivered: 3, lastDeliveredTime: noon },
    });
    expect(
      correctedByMessage(agentSays('finished'), status, { agentEpoch: 1, nowMs: noonMs + 1_000 })
        .executionStatus,
    ).toBe('running');
    expect(
      correctedByMessage(agentSays('finished'), status, { agentEpoch: 1, nowMs: noonMs + 2_000 })
        .executionStatus,
    ).toBe('finished');
    expect(
      correctedByMessage(agentSays('waiting_for_confirmation'), status, {
        agentEpoch: 1,
        nowMs: noonMs,
      }).executionStatus,
    ).toBe('waiting_for_confirmation');
    expect(
      correctedByMessage(agentSays('idle'), status, { agentEpoch: 2, nowMs: noonMs + 1_000 })
        .executionStatus,
    ).toBe('idle');
    expect(
      correctedByMessage(agentSays('finished'), status, {
        agentEpoch: 1,
        nowMs: noonMs - 3_600_000,
      }).executionStatus,
    ).toBe('finished');
  });

  it('leaves an interrupted run to the request for the run', () => {
    const interrupted: ConversationStatus = {
      executionStatus: 'paused',
      interruption: { reason: 'User', time: noon },
    };
    const delivered = withDelivered(interrupted, aMessage(1, 'x'), { now: later(5) });
    expect(delivered.interruption).toEqual(interrupted.interruption);
    expect(withRunRequested(delivered, later(5)).interruption).toMatchObject({
      lastResumeTime: later(5),
    });
    expect(withDelivered(interrupted, aMessage(1, 'x', false), { now: later(5) })).toEqual({
      ...interrupted,
      messages: { lastDelivered: 1 },
    });
  });

  it('remembers a run that has yet to begin, also when another message comes that starts none', () => {
    const waiting = withDelivered({}, aMessage(1, 'x'), { now: noon });
    expect(waiting.messages).toEqual({
      lastDelivered: 1,
      runPending: true,
      lastDeliveredTime: noon,
    });
    expect(
      withDelivered(waiting, aMessage(2, 'y', false), { now: later(1) }).messages,
    ).toMatchObject({ lastDelivered: 2, runPending: true });
  });

  it.each<[ExecutionStatus, number, 'run' | 'later' | 'none']>([
    ['idle', 0, 'run'],
    ['idle', 60_000, 'run'],
    ['finished', 1_000, 'later'],
    ['finished', 2_000, 'none'],
    ['paused', 2_000, 'none'],
    // A request to run would be a confirmation, and without it the message would stay unread after
    // a rejection.
    ['waiting_for_confirmation', 2_000, 'later'],
  ])('with an agent that is %s %i ms later: %s', (says, ms, expected) => {
    const status = withDelivered({}, aMessage(1, 'x'), { now: noon });
    expect(runRequestOf(status, agentSays(says), noonMs + ms)).toBe(expected);
    expect(runRequestOf({}, agentSays(says), noonMs + ms)).toBe('none');
  });

  it.each<[string, ExecutionStatus, ExecutionStatus, 'run' | 'none']>([
    ['was paused and is', 'paused', 'paused', 'run'],
    ['had failed and still shows that', 'error', 'error', 'run'],
    ['was idle and is paused: a person wants that', 'idle', 'paused', 'none'],
    ['was finished, which a message ends', 'finished', 'finished', 'none'],
    ['was paused and has failed since', 'paused', 'error', 'none'],
    ['was stuck and still shows that', 'stuck', 'stuck', 'run'],
  ])('the run of a message begins: one that %s', (_, was, says, expected) => {
    const status = withDelivered({}, aMessage(1, 'x'), { now: noon, was });
    expect(runRequestOf(status, agentSays(says), noonMs + 60_000)).toBe(expected);
    expect(withoutRunPending(status).messages).toEqual({
      lastDelivered: 1,
      lastDeliveredTime: noon,
    });
    // The next message says anew what it was.
    const next = withDelivered(status, aMessage(2, 'y'), { now: noon, was: 'idle' });
    expect(next.messages).toEqual({ lastDelivered: 2, lastDeliveredTime: noon, runPending: true });
  });

  it.each<[ExecutionStatus, ExecutionStatus, number, boolean, number | undefined]>([
    ['idle', 'idle', 1, true, undefined],
    // The agent has asked since the poll: a request to run would approve what no user has seen.
    ['running', 'waiting_for_confirmation', 1, false, 1_000],
    ['idle', 'waiting_for_confirmation', 1, false, 1_000],
    ['running', 'running', 1, false, 1_000],
    ['running', 'idle', 1, true, undefined],
    ['waiting_for_confirmation', 'waiting_for_confirmation', 0, false, 1_000],
  ])(
    'is run after a fresh report: polled as %s, then %s',
    async (polled, fresh, reads, isRun, againAfterMs) => {
      const calls: string[] = [];
      const requested = await requestPendingRun(
        {
          clock: new VirtualClock(noonMs),
          agent: {
            conversation: () => {
              calls.push('read');
              return Promise.resolve(agentSays(fresh));
            },
            run: () => {
              calls.push('run');
              return Promise.resolve();
            },
          },
        },
        {
          endpoint: { baseUrl: 'http://agent', sessionKey: 'k' },
          id: 'c1',
          state: agentSays(polled),
        },
        {
          status: withDelivered({}, aMessage(1, 'x'), { now: noon }),
          signal: AbortSignal.timeout(5_000),
        },
      );
      expect(calls).toEqual([...Array<string>(reads).fill('read'), ...(isRun ? ['run'] : [])]);
      expect(requested.againAfterMs).toBe(againAfterMs);
      expect(requested.status.messages?.runPending === true).toBe(!isRun);
    },
  );

  it('keeps the mark of one message until it is known what became of it', () => {
    const marked = withInFlight({ messages: { lastDelivered: 4 } }, inFlight({ number: 5 }));
    expect(marked.messages).toEqual({ lastDelivered: 4, inFlight: inFlight({ number: 5 }) });
    expect(withNothingInFlight(marked).messages).toEqual({ lastDelivered: 4 });
    expect(withRejected(marked, aMessage(5, 'x')).messages).toEqual({ lastDelivered: 5 });
    expect(withDelivered(marked, aMessage(5, 'x', false), { now: noon }).messages).toEqual({
      lastDelivered: 5,
    });
  });
});
