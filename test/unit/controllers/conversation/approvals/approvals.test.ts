import { silentLogger } from '@conversation-operator/base/logger';
import type { AgentAnswer, AgentQuestion } from '../../../../../src/agent/agent.ts';
import { AgentError } from '../../../../../src/agent/errors.ts';
import { questionTextOf } from '../../../../../src/agent/question-text.ts';
import { Approvals } from '../../../../../src/controllers/conversation/approvals/approvals.ts';
import {
  eventsOfApproval,
  hasInvalidAnswer,
  withNothingAsked,
  withoutEarlierAnswer,
  withQuestion,
  withRecordedAnswer,
  withRunBegun,
} from '../../../../../src/controllers/conversation/approvals/decide.ts';
import {
  meaningOf,
  type Approval,
  type ApprovalAnswer,
  type RecordedAnswer,
} from '../../../../../src/resources/approval.ts';
import type {
  ConversationStatus,
  ExecutionStatus,
} from '../../../../../src/resources/conversation-status.ts';
import { aConversation, aSandbox, noonMs } from '../../../../support/builders.ts';
import { FakeKubeClient } from '../../../../support/fake-kube-client.ts';
import { Scope } from '../../../../../src/controllers/conversation/scope.ts';
import { cachedConversation } from '../../../../../src/resources/cached-conversation.ts';
import { VirtualClock } from '../../../../support/virtual-clock.ts';

const earlier = new Date(noonMs - 60_000).toISOString();
const now = new Date(noonMs).toISOString();

const question = (fields: Partial<AgentQuestion> = {}): AgentQuestion => ({
  id: 'q1',
  kind: 'execute',
  callHash: 'h1',
  isWhole: true,
  calls: [{ tool: 'terminal', kind: 'execute', input: { command: 'rm -rf build' } }],
  options: [
    { id: 'always', name: 'Always', kind: 'allow_always' },
    { id: 'yes', name: 'Yes', kind: 'allow_once' },
    { id: 'no', name: 'No', kind: 'reject_once' },
  ],
  ...fields,
});
const asked = (fields: Partial<Approval> = {}): Approval => {
  const { calls, isWhole, options, ...rest } = question();
  const texts = questionTextOf({ calls, isWhole, options }, []);
  return { ...rest, ...texts, requestedTime: earlier, agentEpoch: 1, ...fields };
};
const yes: RecordedAnswer = { accept: true, option: 'yes' };

describe('an answer', () => {
  it.each<[Omit<ApprovalAnswer, 'id'>, object | undefined]>([
    [{ option: 'yes' }, { accept: true, option: 'yes' }],
    [{ option: 'always' }, { accept: true, option: 'always' }],
    [
      { option: 'no', reason: 'Why?' },
      { accept: false, option: 'no', reason: 'Why?' },
    ],
    [
      { decision: 'approve', by: 'alice' },
      { accept: true, option: 'yes', by: 'alice' },
    ],
    [{ decision: 'reject' }, { accept: false, option: 'no' }],
    [{ option: 'certainly' }, undefined],
  ])('%j means %j', (given, meaning) => {
    expect(meaningOf(asked(), given)).toEqual(meaning);
  });

  it('rejects by a cancelled turn where no option does', () => {
    const options = question().options.slice(0, 1);
    expect(meaningOf(asked({ options }), { decision: 'reject' })).toEqual({ accept: false });
    expect(meaningOf(asked({ options }), { decision: 'approve' })).toBeUndefined();
  });

  it.each([false, undefined])(
    'approves no calls that no user can read: complete %s',
    (complete) => {
      for (const given of [
        { decision: 'approve' },
        { option: 'yes' },
        { option: 'always' },
      ] as const)
        expect(meaningOf(asked({ complete }), given)).toBeUndefined();
      expect(meaningOf(asked({ complete }), { decision: 'reject' })).toMatchObject({
        accept: false,
      });
    },
  );

  it('is recorded once, and none after it counts', () => {
    const first = withRecordedAnswer(
      { approval: asked() },
      { approvals: [{ id: 'q1', option: 'yes' }] },
    );
    expect(first.approval?.answer).toEqual(yes);
    expect(withRecordedAnswer(first, { approvals: [{ id: 'q1', option: 'no' }] })).toBe(first);
  });

  it.each<[string, readonly ApprovalAnswer[], boolean]>([
    ['of another question', [{ id: 'q0', option: 'certainly' }], false],
    ['that names no option', [{ id: 'q1', option: 'certainly' }], true],
    ['that counts', [{ id: 'q1', option: 'yes' }], false],
  ])('%s is invalid: %j %s', (_case, approvals, isInvalid) => {
    const conversation = { spec: { approvals }, status: { approval: asked() } };
    expect(hasInvalidAnswer(conversation)).toBe(isInvalid);
    expect(withRecordedAnswer(conversation.status, { approvals }).approval?.answer).toEqual(
      approvals[0]?.option === 'yes' ? yes : undefined,
    );
  });
});

describe('a question', () => {
  const answered = (
    answer: RecordedAnswer,
    fields: Partial<Approval> = {},
  ): ConversationStatus => ({ approval: asked({ answer, ...fields }) });
  const next = asked({ id: 'q2', agentEpoch: 2 });

  it.each<[string, ConversationStatus, Approval, object]>([
    ['is the first one', {}, next, { approval: next }],
    ['is known', { approval: asked() }, asked({ title: 'x' }), { approval: asked() }],
    [
      'takes the place of one without an answer',
      { approval: asked() },
      next,
      { approval: next, closedApprovals: [{ id: 'q1', outcome: 'Withdrawn', time: now }] },
    ],
    [
      'follows an answer that the agent may have',
      answered({ ...yes, sentTime: earlier }),
      next,
      {
        approval: next,
        closedApprovals: [{ id: 'q1', outcome: 'Approved', option: 'yes', time: now }],
      },
    ],
    [
      'repeats the call of one that was lost with its agent, and has its answer',
      answered({ ...yes, by: 'alice' }),
      next,
      {
        approval: { ...next, answer: { ...yes, by: 'alice' } },
        closedApprovals: [{ id: 'q1', outcome: 'Withdrawn', time: now }],
      },
    ],
    [
      'is about another call than one that was lost',
      answered(yes),
      { ...next, callHash: 'h2' },
      { approval: { ...next, callHash: 'h2' } },
    ],
    [
      'repeats the call of one that the same agent has withdrawn',
      answered(yes),
      { ...next, agentEpoch: 1 },
      { approval: { ...next, agentEpoch: 1 } },
    ],
    [
      'does not offer what was answered before',
      answered(yes),
      { ...next, options: next.options.slice(2) },
      { approval: { ...next, options: next.options.slice(2) } },
    ],
  ])('%s', (_case, before, approval, expected) => {
    const after = withQuestion(before, approval, now);
    expect(after).toMatchObject(expected);
    expect(after.approval).toEqual((expected as ConversationStatus).approval);
  });

  const interruption = { reason: 'Quota', time: now };
  it.each<[string, ConversationStatus, number, string | undefined]>([
    ['is withdrawn by its agent', { approval: asked() }, 1, 'Withdrawn'],
    ['has its answer', answered({ ...yes, sentTime: earlier }), 1, 'Approved'],
    ['has its rejection', answered({ accept: false, sentTime: earlier }), 1, 'Rejected'],
    ['was answered but for another way', answered(yes), 1, 'Withdrawn'],
    [
      'may come back in a new container',
      { approval: asked(), executionStatus: 'running' },
      2,
      undefined,
    ],
    [
      'may come back after a pause',
      { approval: asked(), executionStatus: 'paused', interruption },
      1,
      undefined,
    ],
    [
      'came after the interruption',
      {
        approval: asked({ requestedTime: now }),
        executionStatus: 'running',
        interruption: { ...interruption, time: earlier },
      },
      1,
      'Withdrawn',
    ],
    ...(['finished', 'idle', 'error', 'stuck'] as const).map(
      (executionStatus): [string, ConversationStatus, number, string] => [
        `is not asked again by a run that is ${executionStatus}`,
        { approval: asked(), executionStatus },
        2,
        'Withdrawn',
      ],
    ),
  ])('that %s', (_case, before, agentEpoch, outcome) => {
    const after = withNothingAsked(before, agentEpoch, now);
    expect(after.closedApprovals?.at(-1)?.outcome).toBe(outcome);
    expect(after.approval).toEqual(outcome === undefined ? before.approval : undefined);
  });

  it.each<[string, ConversationStatus, boolean]>([
    ['has no answer', { approval: asked() }, false],
    ['has an answer that its agent lacks', answered(yes), true],
    ['has an answer that its agent may have', answered({ ...yes, sentTime: earlier }), false],
    ['is none', {}, false],
  ])('that %s ends with a message: %j', (_case, before, isClosed) => {
    const after = withoutEarlierAnswer(before, now);
    expect(after.approval).toEqual(isClosed ? undefined : before.approval);
    const message = expect.stringContaining('a message of the user came before') as string;
    expect(after.closedApprovals).toEqual(
      isClosed ? [{ id: 'q1', outcome: 'Withdrawn', time: now, message }] : undefined,
    );
    expect(after.lostAnswer).toBe(isClosed ? 'q1' : undefined);
  });

  const lost = (why: string) => `The answer “approve” to “rm -rf build” had no effect: ${why}.`;
  it.each<[string, ConversationStatus, string | undefined, string | undefined]>([
    [
      'whose agent was stopped, and has not asked for the same call again',
      withNothingAsked({ ...answered(yes), executionStatus: 'finished' }, 2, now),
      lost('the agent was stopped before it had the answer, and has not asked for this call again'),
      'q1',
    ],
    [
      'that the agent itself no longer asks',
      withNothingAsked({ ...answered(yes), executionStatus: 'running' }, 1, now),
      lost('the agent no longer asked when the answer was to be given'),
      'q1',
    ],
    [
      'whose agent asks for another call',
      withQuestion(answered(yes), { ...next, callHash: 'h2' }, now),
      lost('the agent asks for another call instead'),
      'q1',
    ],
    [
      'that has passed to the same call',
      withQuestion(answered(yes), next, now),
      'The agent has asked for the same call again, and gets this answer.',
      undefined,
    ],
    ['without an answer', withQuestion({ approval: asked() }, next, now), undefined, undefined],
  ])('%s says what became of its answer', (_case, after, text, lostAnswer) => {
    expect(after.closedApprovals?.at(-1)).toMatchObject({ id: 'q1', outcome: 'Withdrawn' });
    expect(after.closedApprovals?.at(-1)?.message).toBe(text);
    expect(after.lostAnswer).toBe(lostAnswer);
  });

  it.each<[string, ConversationStatus, ExecutionStatus, boolean]>([
    ['the next run begins', { executionStatus: 'finished', lostAnswer: 'q1' }, 'running', false],
    ['no run begins', { executionStatus: 'finished', lostAnswer: 'q1' }, 'idle', true],
    ['the same run proceeds', { executionStatus: 'running', lostAnswer: 'q1' }, 'running', true],
    ['it was lost in this moment', { executionStatus: 'paused' }, 'running', true],
  ])('that was lost with its answer needs a person: when %s', (_case, before, to, isKept) => {
    const after = withRunBegun(before, { executionStatus: to, lostAnswer: 'q1' });
    expect(after.lostAnswer).toBe(isKept ? 'q1' : undefined);
  });

  it('is a warning where its answer is lost', () => {
    const after = withNothingAsked({ ...answered(yes), executionStatus: 'finished' }, 2, now);
    expect(eventsOfApproval(answered(yes), after)).toEqual([
      {
        type: 'Warning',
        reason: 'ApprovalWithdrawn',
        message: after.closedApprovals?.at(-1)?.message,
      },
    ]);
  });

  it('leaves the last eight closed ones', () => {
    let status: ConversationStatus = {};
    for (let number = 1; number <= 10; number++)
      status = withQuestion(status, asked({ id: `q${number}` }), now);
    expect(status.closedApprovals?.map(({ id }) => id)).toEqual(
      Array.from({ length: 8 }, (_, index) => `q${index + 2}`),
    );
  });

  it('is an Event, and so is its end', () => {
    const after: ConversationStatus = {
      approval: asked({ id: 'q2' }),
      closedApprovals: [{ id: 'q1', outcome: 'Approved', option: 'yes', time: now }],
    };
    expect(eventsOfApproval({ approval: asked() }, after).map(({ reason }) => reason)).toEqual([
      'ApprovalAnswered',
      'ApprovalRequested',
    ]);
    expect(eventsOfApproval(after, after)).toEqual([]);
  });
});

type Outcome = 'takes' | 'refused' | 'timeout';

/** One agent that asks, and an operator. */
class Bench {
  readonly clock = new VirtualClock(noonMs);
  readonly answers: AgentAnswer[] = [];
  readonly outcomes: Outcome[] = [];
  reads = 0;
  asks: AgentQuestion | undefined = question();
  executionStatus: ExecutionStatus = 'waiting_for_confirmation';
  updatedAt = earlier;
  approvals: readonly ApprovalAnswer[] = [];
  keepsQuestions = false;
  agentEpoch = 1;
  /** Whether its calls were rejected before an answer in doubt. */
  hasRejected = false;
  /** The status that the API server has stored. */
  stored: ConversationStatus = { executionStatus: 'waiting_for_confirmation' };
  operator = this.another();

  another(): Approvals {
    return new Approvals({
      clock: this.clock,
      client: new FakeKubeClient(),
      events: { record: () => undefined },
      logger: silentLogger,
      agent: {
        question: () => {
          this.reads += 1;
          return Promise.resolve(this.asks);
        },
        hadApproval: () => Promise.resolve(!this.hasRejected),
        answer: (_endpoint, _id, answer) => {
          const outcome = this.outcomes.shift() ?? 'takes';
          if (outcome !== 'refused') this.answers.push(answer);
          if (outcome === 'takes') return Promise.resolve();
          return Promise.reject(new AgentError(outcome, outcome));
        },
      },
    });
  }

  async follow(operator = this.operator): Promise<void> {
    const { signal } = new AbortController();
    const conversation = aConversation({ spec: { approvals: [...this.approvals] } });
    const write = (each: Scope) => {
      this.stored = each.status;
      return Promise.resolve();
    };
    const scope = new Scope(cachedConversation({ ...conversation, status: this.stored }), {
      signal,
      write,
    });
    scope.status = this.stored;
    const sandbox = aSandbox({ status: { agentEpoch: this.agentEpoch } });
    await operator.record(scope);
    const known = scope.status.approval?.id;
    const againAfterMs = await operator.follow(scope, {
      sandbox,
      endpoint: { baseUrl: 'http://agent', sessionKey: 'k' },
      id: 'c1',
      state: {
        id: 'c1',
        executionStatus: this.executionStatus,
        reportedStatus: '',
        title: undefined,
        updatedAt: this.updatedAt,
        lastUserMessageId: undefined,
        metrics: undefined,
        keepsQuestions: this.keepsQuestions,
      },
      shown: (text) => Promise.resolve(text),
      secrets: () => Promise.resolve([{ name: 'key of the model', value: 'key-of-the-model' }]),
    });
    this.stored = scope.status;
    const { approval } = scope.status;
    // An answer that came before its question is recorded by the next reconcile.
    const isEarly =
      approval !== undefined && approval.id !== known && approval.answer === undefined;
    if (isEarly && againAfterMs !== undefined) await this.follow(operator);
  }
}

describe('an operator', () => {
  it('shows a question without secrets, and reads it once', async () => {
    const bench = new Bench();
    bench.asks = question({
      calls: [
        {
          tool: 'terminal',
          kind: 'execute',
          input: { command: 'curl\n-H "Authorization: Bearer abcdefghijkl" key-of-the-model' },
        },
      ],
    });
    await bench.follow();
    await bench.follow();
    expect(bench.stored.approval).toMatchObject({
      title: 'curl⏎-H "Authorization: Bearer abcdefghijkl" ⟨secret key of the model⟩',
      summary:
        'Call 1 of 1: terminal\ncommand: curl⏎\n  -H "Authorization: Bearer abcdefghijkl" ⟨secret key of the model⟩',
      complete: true,
      requestedTime: now,
    });
    expect(bench.reads).toBe(1);
    bench.updatedAt = now;
    await bench.follow();
    expect(bench.reads).toBe(2);
    expect(bench.answers).toEqual([]);
  });

  it.each([true, false])('knows whether the agent keeps its question: %s', async (keeps) => {
    const bench = new Bench();
    bench.keepsQuestions = keeps;
    await bench.follow();
    expect(bench.stored.approval?.kept).toBe(keeps ? true : undefined);
  });

  it('stores an answer, gives it, and closes the question', async () => {
    const bench = new Bench();
    await bench.follow();
    bench.approvals = [{ id: 'q1', decision: 'reject', reason: 'No.' }];
    await bench.follow();
    expect(bench.answers).toEqual([
      { questionId: 'q1', accept: false, option: 'no', reason: 'No.' },
    ]);
    expect(bench.stored).toMatchObject({ closedApprovals: [{ id: 'q1', outcome: 'Rejected' }] });
    expect(bench.stored.approval).toBeUndefined();
  });

  it.each<[string, readonly ApprovalAnswer[]]>([
    ['none', []],
    ['one to another question', [{ id: 'q0', decision: 'approve' }]],
    ['one that names no option', [{ id: 'q1', option: 'certainly' }]],
  ])('gives no answer with %s', async (_case, approvals) => {
    const bench = new Bench();
    bench.approvals = approvals;
    await bench.follow();
    await bench.follow();
    expect(bench.answers).toEqual([]);
    expect(bench.stored.approval?.answer).toBeUndefined();
  });

  it('repeats an answer in doubt only when the first call can not arrive any more', async () => {
    const bench = new Bench();
    bench.approvals = [{ id: 'q1', decision: 'approve' }];
    bench.outcomes.push('timeout');
    await bench.follow();
    expect(bench.stored.approval?.answer?.sentTime).toBe(now);
    const other = bench.another();
    await bench.follow();
    await bench.follow(other);
    expect(bench.answers).toHaveLength(1);
    await bench.clock.advance(20_000);
    await bench.follow(other);
    expect(bench.answers).toHaveLength(2);
    expect(bench.stored.approval).toBeUndefined();
  });

  it('takes an answer in doubt for given when the agent asks no longer', async () => {
    const bench = new Bench();
    bench.approvals = [{ id: 'q1', decision: 'approve' }];
    bench.outcomes.push('timeout');
    await bench.follow();
    bench.executionStatus = 'running';
    await bench.follow(bench.another());
    expect(bench.answers).toHaveLength(1);
    expect(bench.stored.closedApprovals).toMatchObject([{ id: 'q1', outcome: 'Approved' }]);
  });

  it.each<[string, ExecutionStatus, number, string]>([
    ['a pause', 'idle', 2, 'the agent was stopped before it had the answer'],
    ['another client', 'idle', 1, 'the agent no longer asked when the answer was to be given'],
  ])(
    'reports an approval in doubt as lost where %s has rejected its calls',
    async (_by, executionStatus, agentEpoch, why) => {
      const bench = new Bench();
      bench.approvals = [{ id: 'q1', decision: 'approve' }];
      bench.outcomes.push('timeout');
      await bench.follow();
      Object.assign(bench, { executionStatus, agentEpoch, hasRejected: true });
      bench.stored = { ...bench.stored, executionStatus };
      await bench.follow(bench.another());
      expect(bench.answers).toHaveLength(1);
      expect(bench.stored).toMatchObject({
        closedApprovals: [
          { id: 'q1', outcome: 'Withdrawn', message: expect.stringContaining(why) as string },
        ],
        lostAnswer: 'q1',
      });
    },
  );

  it('gives an approval in doubt to the same call that the agent requests after it was rejected', async () => {
    const bench = new Bench();
    bench.approvals = [{ id: 'q1', decision: 'approve' }];
    bench.outcomes.push('timeout');
    await bench.follow();
    Object.assign(bench, { agentEpoch: 2, hasRejected: true, asks: question({ id: 'q2' }) });
    await bench.follow(bench.another());
    expect(bench.answers.map(({ questionId }) => questionId)).toEqual(['q1', 'q2']);
    expect(bench.stored.closedApprovals).toMatchObject([
      { id: 'q1', outcome: 'Withdrawn' },
      { id: 'q2', outcome: 'Approved' },
    ]);
  });

  it('gives no approval of calls that were read in part', async () => {
    const bench = new Bench();
    bench.asks = question({ isWhole: false });
    bench.approvals = [{ id: 'q1', decision: 'approve' }];
    await bench.follow();
    await bench.follow();
    expect(bench.answers).toEqual([]);
    expect(bench.stored.approval).toMatchObject({ complete: false });
    bench.approvals = [{ id: 'q1', decision: 'reject' }];
    await bench.follow();
    expect(bench.answers).toMatchObject([{ accept: false }]);
  });

  it('gives no answer to calls that have changed under the same id', async () => {
    const bench = new Bench();
    await bench.follow();
    bench.asks = question({ callHash: 'h2' });
    bench.updatedAt = now;
    bench.approvals = [{ id: 'q1', decision: 'approve' }];
    await expect(bench.follow()).rejects.toMatchObject({ code: 'malformed' });
    expect(bench.answers).toEqual([]);
  });

  it('gives an answer again that the agent has certainly not got', async () => {
    const bench = new Bench();
    bench.approvals = [{ id: 'q1', decision: 'approve' }];
    bench.outcomes.push('refused');
    await bench.follow();
    expect(bench.stored.approval?.answer?.sentTime).toBeUndefined();
    await bench.follow();
    expect(bench.answers).toHaveLength(1);
    expect(bench.stored.approval).toBeUndefined();
  });

  it('decides nothing by a report that was behind', async () => {
    const bench = new Bench();
    bench.stored = { ...bench.stored, approval: asked() };
    bench.asks = undefined;
    await bench.follow();
    expect(bench.stored.approval).toEqual(asked());
  });
});
