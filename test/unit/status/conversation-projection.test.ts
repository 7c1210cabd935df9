import type { Approval } from '../../../src/resources/approval.ts';
import { findCondition, type Condition } from '../../../src/resources/conditions.ts';
import {
  lacksFinishedCondition,
  readyCondition,
  withProjection,
} from '../../../src/status/conversation-projection.ts';
import {
  FinishedReason,
  finishedReasonOf,
  type ConversationSpec,
  type LaterMessage,
} from '../../../src/resources/conversation.ts';
import {
  executionStatuses,
  sandboxStatuses,
  startStatuses,
  type ConversationStatus,
} from '../../../src/resources/conversation-status.ts';
import { aConversation, later, noon } from '../../support/builders.ts';

const ready = (more: Partial<ConversationStatus> = {}): ConversationStatus => ({
  start: { status: 'READY', transitions: [] },
  ...more,
});
const message: LaterMessage = {
  number: 1,
  id: 'a',
  role: 'user',
  content: [{ type: 'text', text: 'More.' }],
  run: true,
};
const reasonOf = (status: ConversationStatus | undefined, spec: Partial<ConversationSpec> = {}) =>
  finishedReasonOf(aConversation({ spec, ...(status === undefined ? {} : { status }) }));

describe('a conversation', () => {
  it.each<[string, ConversationStatus | undefined, FinishedReason | undefined]>([
    ['that no controller has seen yet is not over', undefined, undefined],
    [
      'that starts is not over',
      { start: { status: 'WAITING_FOR_SANDBOX', transitions: [] } },
      undefined,
    ],
    [
      'whose start has failed is over',
      { start: { status: 'ERROR', transitions: [] } },
      FinishedReason.startFailed,
    ],
    ['that waits for its first message is not over', ready({ executionStatus: 'idle' }), undefined],
    ['that runs is not over', ready({ executionStatus: 'running' }), undefined],
    ['whose run was paused is not over', ready({ executionStatus: 'paused' }), undefined],
    [
      'that waits for a confirmation is not over',
      ready({ executionStatus: 'waiting_for_confirmation' }),
      undefined,
    ],
    ['that is finished is over', ready({ executionStatus: 'finished' }), FinishedReason.finished],
    ['in error is over', ready({ executionStatus: 'error' }), FinishedReason.error],
    ['that is stuck is over', ready({ executionStatus: 'stuck' }), FinishedReason.stuck],
    [
      'whose agent has yet to begin with a message is not over',
      ready({ executionStatus: 'error', messages: { lastDelivered: 1, runPending: true } }),
      undefined,
    ],
    [
      'whose sandbox is gone is over, whatever it did',
      ready({ executionStatus: 'idle', sandboxStatus: 'MISSING' }),
      FinishedReason.sandboxGone,
    ],
  ])('%s', (_name, status, reason) => {
    expect(reasonOf(status)).toBe(reason);
  });

  it('that is finished is not over when a message waits for its agent, unless its sandbox is gone', () => {
    const spec = { messages: [message] };
    expect(reasonOf(ready({ executionStatus: 'finished' }), spec)).toBeUndefined();
    expect(
      reasonOf(ready({ executionStatus: 'finished', messages: { lastDelivered: 1 } }), spec),
    ).toBe(FinishedReason.finished);
    expect(reasonOf(ready({ executionStatus: 'finished', sandboxStatus: 'MISSING' }), spec)).toBe(
      FinishedReason.sandboxGone,
    );
  });
});

const conversation = aConversation();
const at = (ms: number, status: ConversationStatus, generation = 1) =>
  withProjection(conversation, status, generation, later(ms));
const shown = (type: string, status: ConversationStatus): Condition | undefined =>
  findCondition(at(0, status).conditions, type);

describe('the condition Finished', () => {
  const finished = ready({ executionStatus: 'finished' });

  it('has the time of the transition, and keeps it as long as the conversation is over', () => {
    const over = at(0, finished);
    expect(shown('Finished', finished)).toMatchObject({
      status: 'True',
      reason: 'Finished',
      lastTransitionTime: noon,
    });
    expect(at(60_000, over)).toEqual(over);
    expect(at(60_000, { ...over, executionStatus: 'error' }).conditions).toContainEqual(
      expect.objectContaining({ type: 'Finished', reason: 'Error', lastTransitionTime: noon }),
    );
  });

  it('is False while the agent works, and has another time when that ends', () => {
    const again = at(60_000, { ...at(0, finished), executionStatus: 'running' });
    expect(findCondition(again.conditions, 'Finished')).toMatchObject({
      status: 'False',
      reason: 'Active',
      lastTransitionTime: later(60_000),
    });
    expect(
      findCondition(at(90_000, { ...again, executionStatus: 'finished' }).conditions, 'Finished'),
    ).toMatchObject({ status: 'True', lastTransitionTime: later(90_000) });
  });

  it('says that the last command of the run failed', () => {
    const lastResult = { reason: 'ToolFailed', exitCode: 3 } as const;
    expect(shown('Finished', { ...finished, lastResult })).toMatchObject({
      status: 'True',
      reason: 'Finished',
      message: 'The run is over. The last command failed: exit code 3.',
    });
  });

  it('is missing on a conversation of an earlier version that is over', () => {
    expect(lacksFinishedCondition(aConversation({ status: finished }))).toBe(true);
    expect(lacksFinishedCondition(aConversation({ status: at(0, finished) }))).toBe(false);
    expect(
      lacksFinishedCondition(aConversation({ status: ready({ executionStatus: 'running' }) })),
    ).toBe(false);
  });
});

describe('the condition Ready', () => {
  it.each<[string, ConversationStatus, string, string]>([
    [
      'a conversation that no controller has seen',
      {},
      'Starting',
      'The status of the start is WORKING.',
    ],
    [
      'a start that waits for its sandbox',
      {
        start: { status: 'WAITING_FOR_SANDBOX', transitions: [] },
        sandboxStatus: 'STARTING',
        sandboxStatusReason: 'WaitingForQuota',
      },
      'Starting',
      'The status of the start is WAITING_FOR_SANDBOX.',
    ],
    [
      'a start whose sandbox is paused',
      {
        start: { status: 'PREPARING_REPOSITORY', transitions: [] },
        sandboxStatus: 'PAUSED',
        sandboxStatusReason: 'User',
      },
      'SandboxPaused',
      'The sandbox is PAUSED: User.',
    ],
    [
      'a start that has failed',
      {
        start: { status: 'ERROR', transitions: [], errorCode: 'BranchNotFound' },
        sandboxStatus: 'ERROR',
      },
      'StartFailed',
      'The start has failed: BranchNotFound.',
    ],
    [
      'a paused sandbox',
      ready({ sandboxStatus: 'PAUSED', sandboxStatusReason: 'Quota' }),
      'SandboxPaused',
      'The sandbox is PAUSED: Quota.',
    ],
    [
      'a sandbox that starts',
      ready({ sandboxStatus: 'STARTING', sandboxStatusReason: 'WaitingForPod' }),
      'SandboxStarting',
      'The sandbox is STARTING: WaitingForPod.',
    ],
    [
      'a sandbox in ERROR',
      ready({ sandboxStatus: 'ERROR', sandboxStatusReason: 'CrashLoop' }),
      'SandboxError',
      'The sandbox is ERROR: CrashLoop.',
    ],
    [
      'a sandbox that is gone',
      ready({ sandboxStatus: 'MISSING', sandboxStatusReason: 'Deleted' }),
      'SandboxMissing',
      'The sandbox is MISSING: Deleted.',
    ],
  ])('is False for %s', (_name, status, reason, message) => {
    expect(shown('Ready', status)).toMatchObject({ status: 'False', reason, message });
  });

  it('is True for a start that is READY and a sandbox that is RUNNING', () => {
    expect(
      shown('Ready', ready({ sandboxStatus: 'RUNNING', sandboxStatusReason: 'Running' })),
    ).toMatchObject({
      status: 'True',
      reason: 'SandboxRunning',
      message: 'The start is READY and the sandbox is RUNNING.',
    });
  });
});

describe('every combination of a start, a sandbox and a run', () => {
  const pausingReasons = ['User', 'Quota', 'QuotaExceeded', 'Idle', 'MaxActiveTime', undefined];
  const combinations = startStatuses.flatMap((start) =>
    [...sandboxStatuses, undefined].flatMap((sandboxStatus) =>
      pausingReasons.flatMap((sandboxStatusReason) =>
        [...executionStatuses, undefined].map((executionStatus): ConversationStatus => ({
          start: { status: start, transitions: [] },
          ...(sandboxStatus === undefined ? {} : { sandboxStatus }),
          ...(sandboxStatusReason === undefined ? {} : { sandboxStatusReason }),
          ...(executionStatus === undefined ? {} : { executionStatus }),
        })),
      ),
    ),
  );

  it.each(startStatuses)('has the conditions that are true of it after the start %s', (start) => {
    for (const status of combinations.filter((each) => each.start?.status === start)) {
      const { conditions } = at(0, status, 7);
      const statuses = Object.fromEntries(
        (conditions ?? []).map((each) => [each.type, each.status]),
      );
      const isOver =
        start === 'READY' && ['finished', 'error', 'stuck'].includes(status.executionStatus ?? '');
      expect({ status, statuses }).toEqual({
        status,
        statuses: {
          Ready: start === 'READY' && status.sandboxStatus === 'RUNNING' ? 'True' : 'False',
          Finished:
            start === 'ERROR' || isOver || (start === 'READY' && status.sandboxStatus === 'MISSING')
              ? 'True'
              : 'False',
          Paused: status.sandboxStatus === 'PAUSED' ? 'True' : 'False',
        },
      });
      for (const { observedGeneration, lastTransitionTime, reason, message } of conditions ?? []) {
        expect({ observedGeneration, lastTransitionTime }).toEqual({
          observedGeneration: 7,
          lastTransitionTime: noon,
        });
        expect(message).toMatch(/^[A-Z].{10,80}\.$/);
        // A pause without a reason is written by no controller.
        if (status.sandboxStatusReason !== undefined) expect(reason).toMatch(/^[A-Z][A-Za-z]+$/);
      }
    }
  });

  it('changes the time of a condition with its status only, and the generation with the spec', () => {
    for (const before of combinations)
      for (const sandboxStatus of sandboxStatuses) {
        const old = at(0, before);
        for (const next of at(60_000, { ...old, sandboxStatus }, 2).conditions ?? []) {
          const same = findCondition(old.conditions, next.type)?.status === next.status;
          expect(next).toMatchObject({
            lastTransitionTime: same ? noon : later(60_000),
            observedGeneration: 2,
          });
        }
      }
  });
});

describe('the condition Paused', () => {
  it.each(['User', 'Quota', 'QuotaExceeded', 'Idle', 'MaxActiveTime'])(
    'has the reason %s of the sandbox',
    (reason) => {
      expect(
        shown('Paused', ready({ sandboxStatus: 'PAUSED', sandboxStatusReason: reason })),
      ).toMatchObject({ status: 'True', reason });
    },
  );

  it('is False before there is a sandbox', () => {
    expect(shown('Paused', {})).toMatchObject({ status: 'False', reason: 'NotPaused' });
  });
});

describe('the condition WaitingForApproval', () => {
  const question: Approval = {
    id: 'q1',
    title: 'make',
    kind: 'execute',
    tool: 'terminal',
    summary: 'make',
    options: [],
    requestedTime: noon,
    callHash: 'h',
    agentEpoch: 1,
  };
  const asks = { executionStatus: 'waiting_for_confirmation' } as const;
  const closed = { id: 'q1', outcome: 'Withdrawn', time: noon, message: 'No effect.' } as const;
  const answer = { accept: true, option: 'yes' };
  it.each<[string, ConversationStatus, string, RegExp]>([
    [
      'names the call that an agent asks about',
      { ...asks, sandboxStatus: 'RUNNING', approval: question },
      'ToolCall',
      /^The agent asks: make$/,
    ],
    [
      'says that a stopped agent has forgotten its question',
      { ...asks, sandboxStatus: 'PAUSED', approval: question },
      'ToolCall',
      /has to ask again/,
    ],
    [
      'says the same of an agent that is back and has not asked again',
      { executionStatus: 'running', sandboxStatus: 'RUNNING', approval: question },
      'ToolCall',
      /has to ask again/,
    ],
    [
      'says nothing more of an agent that keeps its question',
      { ...asks, sandboxStatus: 'PAUSED', approval: { ...question, kept: true } },
      'ToolCall',
      /^The agent asks: make$/,
    ],
    [
      'says when an answer counts that an agent forgets',
      { ...asks, sandboxStatus: 'PAUSED', approval: { ...question, answer } },
      'Answered',
      /has to ask again/,
    ],
    [
      'says that an answer was lost',
      { sandboxStatus: 'RUNNING', closedApprovals: [closed], lostAnswer: 'q1' },
      'AnswerLost',
      /^No effect\.$/,
    ],
  ])('%s', (_case, status, reason, message) => {
    const { conditions } = withProjection(aConversation({}), status, 1, noon);
    const found = findCondition(conditions, 'WaitingForApproval');
    expect(found?.reason).toBe(reason);
    expect(found?.message).toMatch(message);
  });
});

describe('the conditions', () => {
  it('leave the conditions of other writers alone', () => {
    const other = {
      type: 'Expiring',
      status: 'True',
      reason: 'Finished',
      message: 'x',
      lastTransitionTime: noon,
    } as const;
    expect(at(0, ready({ conditions: [other] })).conditions).toMatchObject([
      ...[other, { type: 'Ready' }, { type: 'Finished' }, { type: 'Paused' }],
    ]);
  });

  it('have messages that many conversations share', () => {
    const messages = new Set(
      startStatuses.map((status) => readyCondition({ start: { status, transitions: [] } }).message),
    );
    expect(messages.size).toBe(startStatuses.length);
  });
});

describe('the short title', () => {
  const text = 'Find out why the parser fails on nested comments, and mend it.';
  const titled = (spec: Partial<ConversationSpec>, status: ConversationStatus = {}) =>
    withProjection(aConversation({ spec }), status, 1, noon).shortTitle;

  it.each<[string, Partial<ConversationSpec>, ConversationStatus, string]>([
    ["the owner's title", { title: 'Parser' }, { title: 'Of the agent' }, 'Parser'],
    ["the agent's title", {}, { title: 'Of the agent' }, 'Of the agent'],
    [
      'the beginning of the first message where both titles are empty',
      { title: '' },
      { title: '' },
      'Say hello.',
    ],
    [
      'the beginning of a long title',
      { title: text },
      {},
      'Find out why the parser fails on nested…',
    ],
    [
      'the beginning of the first message',
      { initialMessage: { role: 'user', content: [{ type: 'text', text }], run: true } },
      {},
      'Find out why the parser fails on nested…',
    ],
    ['empty without a text', { initialMessage: undefined }, {}, ''],
  ])('is %s', (_name, spec, status, expected) => {
    expect(titled(spec, status)).toBe(expected);
  });

  it('has at most 40 characters', () => {
    for (const title of ['x'.repeat(200), '😀'.repeat(100), 'x '.repeat(100)])
      expect(titled({ title })?.length).toBeLessThanOrEqual(40);
  });
});
