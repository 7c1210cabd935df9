import { classify } from '../../../src/quota/classify.ts';
import type { Approval } from '../../../src/resources/approval.ts';
import type { ConversationStatus } from '../../../src/resources/conversation-status.ts';
import {
  aConversation,
  admitted,
  aSandbox,
  condition,
  later,
  noon,
  noonMs,
} from '../../support/builders.ts';

const question: Approval = {
  id: 'budget-1',
  title: 'Continue?',
  kind: 'budget',
  tool: 'budget',
  summary: 'Continue?',
  text: '',
  complete: true,
  options: [{ id: 'stop', name: 'Stop here', kind: 'reject_once' }],
  requestedTime: noon,
  callHash: 'h',
  agentEpoch: 1,
};
const continuing: ConversationStatus = {
  start: { status: 'READY', transitions: [] },
  executionStatus: 'paused',
  agentEpoch: 1,
  interruption: { reason: 'BudgetExhausted', time: noon },
};
const held: ConversationStatus = {
  ...continuing,
  approval: question,
  budgetExhaustion: {
    record: 'usage-1',
    account: 'conversation',
    unit: 'USD',
    limit: '1',
    raised: '0',
    spent: '1',
    time: noon,
  },
};
const slotOf = (
  status: ConversationStatus,
  { since = later(-60_000), reason = '', others = [] as readonly ConversationStatus[] } = {},
) =>
  classify({
    sandbox: aSandbox({
      status:
        reason === ''
          ? {
              conditions: [admitted, condition('Ready', 'True', 'Running')],
              activeSinceTime: since,
              agentEpoch: 1,
            }
          : {
              conditions: [{ ...condition('Admitted', 'False', reason), observedGeneration: 1 }],
              agentEpoch: 1,
            },
    }),
    conversations: [status, ...others].map((each, index) =>
      aConversation({ name: `${index}`, status: each }),
    ),
    now: noonMs + 1_000,
  });

it.each<[string, object | undefined, ReturnType<typeof slotOf>]>([
  ['is paused at once', { at: noonMs, reason: 'BudgetExhausted', limit: '' }, slotOf(held)],
  ['stays if a person has resumed it since', undefined, slotOf(held, { since: later(1) })],
  [
    'stays while another agent in it works',
    undefined,
    slotOf(held, { others: [{ ...continuing, executionStatus: 'running' }] }),
  ],
  ['stays once the budget is raised', undefined, slotOf(continuing)],
])('a sandbox with a question about a budget %s', (_words, expiry, slot) => {
  expect(slot.expiry).toEqual(expiry);
});

it.each<[string, string, ConversationStatus]>([
  ['stays paused while the question is open', 'suspended', held],
  ['comes back once the budget has room', 'resumable', continuing],
  [
    'stays paused after a rejection',
    'suspended',
    { ...continuing, interruption: { reason: 'User', time: noon } },
  ],
])('a sandbox that a budget has paused %s', (_words, state, status) => {
  expect(slotOf(status, { reason: 'BudgetExhausted' }).state).toBe(state);
});
