import { withFinishedCondition } from '../../../../src/controllers/conversation/finished-condition.ts';
import {
  FinishedReason,
  finishedReasonOf,
  type ConversationSpec,
  type ConversationStatus,
  type LaterMessage,
} from '../../../../src/resources/conversation.ts';
import { aConversation, later, noon } from '../../../support/builders.ts';

const ready = (more: Partial<ConversationStatus> = {}): ConversationStatus => ({ start: { status: 'READY', transitions: [] }, ...more });
const message: LaterMessage = { number: 1, id: 'a', role: 'user', content: [{ type: 'text', text: 'More.' }], run: true };
const reasonOf = (status: ConversationStatus | undefined, spec: Partial<ConversationSpec> = {}) =>
  finishedReasonOf(aConversation({ spec, ...(status === undefined ? {} : { status }) }));

describe('a conversation', () => {
  it.each<[string, ConversationStatus | undefined, FinishedReason | undefined]>([
    ['that nobody has seen yet is not over', undefined, undefined],
    ['that starts is not over', { start: { status: 'WAITING_FOR_SANDBOX', transitions: [] } }, undefined],
    ['whose start has failed is over', { start: { status: 'ERROR', transitions: [] } }, FinishedReason.startFailed],
    ['that waits for its first message is not over', ready({ executionStatus: 'idle' }), undefined],
    ['that runs is not over', ready({ executionStatus: 'running' }), undefined],
    ['whose run was paused is not over', ready({ executionStatus: 'paused' }), undefined],
    ['that waits for a confirmation is not over', ready({ executionStatus: 'waiting_for_confirmation' }), undefined],
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
    expect(reasonOf(ready({ executionStatus: 'finished', messages: { lastDelivered: 1 } }), spec)).toBe(FinishedReason.finished);
    expect(reasonOf(ready({ executionStatus: 'finished', sandboxStatus: 'MISSING' }), spec)).toBe(FinishedReason.sandboxGone);
  });
});

describe('the condition Finished', () => {
  const { spec } = aConversation();
  const finished = ready({ executionStatus: 'finished' });
  const at = (ms: number, status: ConversationStatus) => withFinishedCondition(spec, status, 1, later(ms));

  it('is absent until the conversation is over for the first time', () => {
    const running = ready({ executionStatus: 'running' });
    expect(at(0, running)).toBe(running);
  });

  it('has the time of the transition, and keeps it as long as the conversation is over', () => {
    const over = at(0, finished);
    expect(over.conditions).toMatchObject([{ type: 'Finished', status: 'True', reason: 'Finished', lastTransitionTime: noon }]);
    expect(at(60_000, over)).toBe(over);
    expect(at(60_000, { ...over, executionStatus: 'error' }).conditions).toMatchObject([{ reason: 'Error', lastTransitionTime: noon }]);
  });

  it('is False while the agent works again, and has another time when that ends', () => {
    const again = at(60_000, { ...at(0, finished), executionStatus: 'running' });
    expect(again.conditions).toMatchObject([{ status: 'False', reason: 'Active', lastTransitionTime: later(60_000) }]);
    expect(at(90_000, { ...again, executionStatus: 'finished' }).conditions).toMatchObject([
      { status: 'True', lastTransitionTime: later(90_000) },
    ]);
  });

  it('leaves other conditions alone', () => {
    const other = { type: 'Expiring', status: 'True', reason: 'Finished', message: 'x', lastTransitionTime: noon } as const;
    expect(at(0, { ...finished, conditions: [other] }).conditions).toMatchObject([other, { type: 'Finished' }]);
  });
});
