import { Periods } from '../../../../../src/budget/period.ts';
import {
  hasRoom,
  isStoppedRun,
  questionOf,
  raiseOf,
  withBudgetQuestion,
  withBudgetQuestionWithdrawn,
  withBudgetRaised,
  withBudgetRejected,
  withRaise,
  type BudgetFacts,
} from '../../../../../src/controllers/conversation/budget/decide.ts';
import type { Approval } from '../../../../../src/resources/approval.ts';
import type { ConversationQuotaSpec } from '../../../../../src/resources/conversation-quota.ts';
import type {
  BudgetExhaustion,
  ConversationStatus,
} from '../../../../../src/resources/conversation-status.ts';
import {
  maxRaises,
  usageRecordNameOf,
  type UsageAccount,
} from '../../../../../src/resources/usage-record.ts';
import { aConversation, aQuota, later, noon, noonMs } from '../../../../support/builders.ts';

type Budget = NonNullable<ConversationQuotaSpec['budget']>;

const aBudget = (more: Partial<Budget> = {}): Budget => ({
  amount: 1,
  currency: 'USD',
  period: 'Month',
  timeZone: 'UTC',
  onExceeded: 'Reject',
  maxRaise: 0,
  ...more,
});

const account = 'default/Month/2026-03-01';
const record = usageRecordNameOf({ owner: 'alice', month: '2026-03' });
const exhaustion: BudgetExhaustion = {
  quota: 'default',
  record,
  account,
  unit: 'USD',
  limit: '1',
  raised: '0',
  spent: '0.99',
  time: noon,
  resetTime: '2026-04-01T00:00:00.000Z',
};
const { quota: _quota, resetTime: _reset, ...ofConversation } = exhaustion;
const own: BudgetExhaustion = { ...ofConversation, record: 'usage-1', account: 'conversation' };

const anAccount = (more: Partial<UsageAccount> = {}): UsageAccount => ({
  key: account,
  unit: 'USD',
  spent: '0.99',
  ...more,
});

interface Known extends Partial<BudgetFacts> {
  readonly budget?: Partial<Budget> | undefined;
  readonly maxCost?: number;
}

const facts = ({ budget = {}, maxCost, ...more }: Known = {}): BudgetFacts => ({
  conversation: aConversation(
    maxCost === undefined ? {} : { spec: { budget: { amount: maxCost, currency: 'USD' } } },
  ),
  quotas: [aQuota('default', { budget: aBudget(budget) })],
  account: anAccount(),
  periods: new Periods(),
  nowMs: noonMs,
  ...more,
});

describe('hasRoom', () => {
  it.each<[string, boolean, BudgetExhaustion, Known]>([
    ['no room while nothing has changed', false, exhaustion, {}],
    ['no room while the caches lack the account', false, exhaustion, { account: undefined }],
    [
      'room once the account is raised',
      true,
      exhaustion,
      { account: anAccount({ raised: '0.5' }) },
    ],
    [
      'no room while the account has only the raise of before',
      false,
      { ...exhaustion, raised: '0.5' },
      { account: anAccount({ raised: '0.5' }) },
    ],
    [
      'room once a person has edited the account to more than any budget',
      true,
      exhaustion,
      { account: anAccount({ raised: '99999999' }) },
    ],
    ['room once the quota allows more', true, exhaustion, { budget: { amount: 2 } }],
    ['no room where the quota allows less', false, exhaustion, { budget: { amount: 0.5 } }],
    ['room in the next period', true, exhaustion, { nowMs: Date.parse('2026-04-01T00:00:00Z') }],
    [
      'no room in the last moment',
      false,
      exhaustion,
      { nowMs: Date.parse('2026-03-31T23:59:59Z') },
    ],
    ['room where the period is another', true, exhaustion, { budget: { period: 'Day' } }],
    ['room where the unit is another', true, exhaustion, { budget: { currency: 'Tokens' } }],
    ['room without the quota', true, exhaustion, { quotas: [] }],
    ['room without its budget', true, exhaustion, { quotas: [aQuota('default', {})] }],
    [
      'room where the owner has another quota',
      true,
      exhaustion,
      {
        quotas: [
          aQuota('default', { budget: aBudget() }),
          aQuota('hers', { owner: 'alice', budget: aBudget() }),
        ],
      },
    ],
    [
      'room for a new owner',
      true,
      exhaustion,
      { conversation: aConversation({ spec: { owner: 'bob' } }) },
    ],
    ['no room in a budget of the conversation', false, own, { maxCost: 1 }],
    ['room once that is raised', true, own, { maxCost: 1.5 }],
    ['room without that', true, own, {}],
  ])('%s', (_words, expected, exhausted, known) => {
    expect(hasRoom(exhausted, facts(known))).toBe(expected);
  });
});

describe('raiseOf', () => {
  const first = { id: 'a', amount: '0.3', time: noon };
  const raises = [first];
  it.each<[string, BudgetExhaustion, Known, number, 'Owner' | 'Admin']>([
    ['the amount of the budget by an admin', exhaustion, {}, 1e9, 'Admin'],
    ['what the owner may add', exhaustion, { budget: { maxRaise: 0.5 } }, 5e8, 'Owner'],
    ['at most the amount', exhaustion, { budget: { maxRaise: 5 } }, 1e9, 'Owner'],
    ['at most the amount of any bound', exhaustion, { budget: { maxRaise: 1e12 } }, 1e9, 'Owner'],
    [
      'what earlier raises of the owner leave',
      exhaustion,
      { budget: { maxRaise: 0.5 }, account: anAccount({ raises, raised: '0.3' }) },
      2e8,
      'Owner',
    ],
    [
      'raises of admins do not count',
      exhaustion,
      {
        budget: { maxRaise: 0.5 },
        account: anAccount({ raises: [{ ...first, admin: true }], raised: '0.3' }),
      },
      5e8,
      'Owner',
    ],
    [
      'an admin decides once nothing is left to the owner',
      exhaustion,
      { budget: { maxRaise: 0.3 }, account: anAccount({ raises, raised: '0.3' }) },
      1e9,
      'Admin',
    ],
    ['the amount of the own budget by its owner', own, { maxCost: 1 }, 1e9, 'Owner'],
  ])('%s', (_words, exhausted, known, amount, decidedBy) => {
    expect(raiseOf(exhausted, facts(known))).toEqual({ amount, decidedBy });
  });
});

type Offered = Parameters<typeof questionOf>[2]['offered'];
const asked = (offered: Offered, exhausted = exhaustion, known = facts()): Approval =>
  questionOf(exhausted, known, { agentEpoch: 3, now: noon, offered });
const question = asked({ amount: 5e8, decidedBy: 'Owner' });

describe('questionOf', () => {
  it('says the whole budget, what is spent, what is added, and when it starts again', () => {
    expect(question).toMatchObject({
      kind: 'budget',
      title: 'The budget is used up. Continue with $0.50 more?',
      summary:
        'Continue with $0.50 more? The owner alice has spent $0.99 of the budget of $1 for this month (quota default), and the rest is too little for the next call. With the raise, the budget is $1.50, and the run continues where it was. Without it, the run continues by itself when the budget starts again at 2026-04-01 00:00 UTC.',
      complete: true,
      text: '',
      kept: true,
      options: [
        { id: 'continue', name: 'Continue with $0.50 more', kind: 'allow_once' },
        { id: 'stop', name: 'Stop here', kind: 'reject_once' },
      ],
      raise: { amount: '0.5', unit: 'USD', decidedBy: 'Owner' },
    });
  });

  it('says of a budget of the namespace that all owners have spent it', () => {
    const budget = aBudget();
    const quotas = [aQuota('default', { scope: 'Namespace', budget })];
    const month = '2026-03';
    const { summary } = asked(
      { amount: 5e8, decidedBy: 'Admin' },
      { ...exhaustion, record: usageRecordNameOf({ month }) },
      facts({ quotas }),
    );
    expect(summary).toContain(
      'All owners together have spent $0.99 of the budget of $1 for this month (quota default), and',
    );
  });

  it('says that an administrator has to allow it', () => {
    const { summary } = asked({ amount: 1e9, decidedBy: 'Admin' }, { ...own, raised: '0.25' });
    expect(summary).toBe(
      'Continue with $1 more? This conversation has spent $0.99 of its budget of $1.25, and the rest is too little for the next call. With the raise, the budget is $2.25, and the run continues where it was. An administrator has to allow this.',
    );
  });

  it('says of a budget that is spent whole only that', () => {
    const { summary } = asked({ amount: 1e9, decidedBy: 'Owner' }, { ...own, spent: '1' });
    expect(summary).toContain(' has spent $1 of its budget of $1. With the raise,');
  });

  it('has another id each time', () => {
    const again = questionOf(exhaustion, facts(), {
      agentEpoch: 3,
      now: later(1),
      offered: { amount: 5e8, decidedBy: 'Owner' },
    });
    expect(again.id).not.toBe(question.id);
  });
});

describe('isStoppedRun', () => {
  const message = { number: 1, id: 'm', role: 'user', content: [], run: true } as const;
  it.each<[string, boolean, ConversationStatus, object]>([
    ...(['error', 'finished', 'idle', 'stuck', 'paused'] as const).map(
      (executionStatus) =>
        [executionStatus, true, { executionStatus }, {}] satisfies [
          string,
          boolean,
          object,
          object,
        ],
    ),
    ['running', false, { executionStatus: 'running' }, {}],
    ['waiting', false, { executionStatus: 'waiting_for_confirmation' }, {}],
    ['unknown', false, {}, {}],
    [
      'a run for a message is pending',
      false,
      { executionStatus: 'idle', messages: { lastDelivered: 1, runPending: true } },
      {},
    ],
    [
      'a message is undelivered',
      false,
      { executionStatus: 'error', messages: { lastDelivered: 0 } },
      { messages: [message] },
    ],
  ])('%s', (_words, expected, status, spec) => {
    expect(isStoppedRun(aConversation({ spec }).spec, status)).toBe(expected);
  });
});

const failed: ConversationStatus = {
  executionStatus: 'error',
  executionDetail: 'LLMError: 402',
  budgetExhaustion: exhaustion,
};
const open = withBudgetQuestion(failed, question, noon);
const withAnswer = (accept: boolean): ConversationStatus => ({
  ...open,
  approval: { ...question, answer: { accept, option: accept ? 'continue' : 'stop', by: 'alice' } },
});

describe('the status of a conversation', () => {
  it('is paused by the budget while the question is open', () => {
    expect(open).toMatchObject({
      executionStatus: 'paused',
      executionDetail: expect.stringContaining('The budget for models is used up') as string,
      approval: question,
      budgetExhaustion: exhaustion,
      interruption: { reason: 'BudgetExhausted', time: noon },
    });
  });

  it('keeps a pause of the owner, so that the next period continues nothing', () => {
    const paused: ConversationStatus = {
      ...failed,
      executionStatus: 'paused',
      interruption: { reason: 'User', time: noon },
    };
    expect(withBudgetQuestion(paused, question, later(1))).toMatchObject({
      interruption: { reason: 'User', time: noon },
    });
  });

  it('keeps the interruption after a raise, and closes the question', () => {
    const status = withBudgetRaised(withAnswer(true), later(5));
    expect(status).toMatchObject({
      executionStatus: 'paused',
      interruption: { reason: 'BudgetExhausted' },
      closedApprovals: [{ id: question.id, outcome: 'Approved', option: 'continue' }],
    });
    expect(status).not.toHaveProperty('approval');
    expect(status).not.toHaveProperty('budgetExhaustion');
  });

  it('continues on request only after a rejection, and says why', () => {
    const status = withBudgetRejected(withAnswer(false), later(5));
    expect(status).toMatchObject({
      executionStatus: 'paused',
      executionDetail: expect.stringContaining('The answer was to stop here') as string,
      interruption: { reason: 'User' },
      closedApprovals: [{ id: question.id, outcome: 'Rejected', option: 'stop' }],
    });
    expect(status).not.toHaveProperty('budgetExhaustion');
  });

  it('closes the question as withdrawn once the budget has room', () => {
    const status = withBudgetQuestionWithdrawn(open, later(5));
    expect(status).toMatchObject({
      interruption: { reason: 'BudgetExhausted' },
      closedApprovals: [{ id: question.id, outcome: 'Withdrawn' }],
    });
    expect(status).not.toHaveProperty('approval');
    expect(status).not.toHaveProperty('budgetExhaustion');
  });

  it('keeps the question of an agent when the budget has room', () => {
    const status = { ...failed, approval: { ...question, kind: 'edit' as const } };
    expect(withBudgetQuestionWithdrawn(status, noon)).toMatchObject({ approval: { kind: 'edit' } });
  });
});

describe('withRaise', () => {
  const raise = { id: 'q', amount: '0.5', by: 'alice', time: noon };
  const admin = { ...raise, admin: true };

  it('adds the raise and its amount together', () => {
    const earlier = { ...admin, id: 'p', amount: '0.25' };
    const before = anAccount({ raised: '0.25', raises: [earlier] });
    expect(withRaise(before, raise, 5e8)).toEqual({
      kind: 'raised',
      account: { ...before, raised: '0.75', raises: [earlier, raise] },
    });
  });

  it('counts a repeated raise once', () => {
    const first = withRaise(anAccount(), raise, 5e8);
    if (first.kind !== 'raised') throw new Error(first.kind);
    expect(withRaise(first.account, { ...raise, time: later(9) }, 5e8)).toEqual({ kind: 'done' });
  });

  it.each<[string, 'raised' | 'refused', typeof raise, number, UsageAccount]>([
    ['all that the owner may add', 'raised', raise, 5e8, anAccount()],
    ['more than the owner may add', 'refused', raise, 4e8, anAccount()],
    [
      'what other raises of the owner do not leave',
      'refused',
      raise,
      5e8,
      anAccount({ raised: '0.1', raises: [{ id: 'p', amount: '0.1', time: noon }] }),
    ],
    ['any amount of an admin', 'raised', admin, 0, anAccount()],
    [
      'more raises than the record can tell apart',
      'refused',
      admin,
      0,
      anAccount({
        raises: Array.from({ length: maxRaises }, (_, index) => ({ ...admin, id: `${index}` })),
      }),
    ],
  ])('%s: %s', (_words, kind, wished, maxRaise, before) => {
    expect(withRaise(before, wished, maxRaise).kind).toBe(kind);
  });
});
