import { presentWholeApproval } from '../../../src/gateway/presenters/approval.ts';
import { questionLines } from '../../../src/plugin/question.ts';
import type { Approval } from '../../../src/resources/approval.ts';
import { aConversation, noon } from '../../support/builders.ts';

const approval = (fields: Partial<Approval>): Approval => ({
  id: 'q1',
  title: 'make',
  kind: 'execute',
  tool: 'terminal',
  summary: 'head … tail',
  text: '',
  complete: true,
  options: [{ id: 'yes', name: 'Allow', kind: 'allow_once' }],
  requestedTime: noon,
  callHash: 'hash',
  agentEpoch: 1,
  ...fields,
});
const linesOf = (fields: Partial<Approval>) => {
  const asking = approval(fields);
  const conversation = aConversation({
    status: { approval: asking, executionStatus: 'waiting_for_confirmation' },
  });
  return questionLines(presentWholeApproval(conversation, asking, 'RUNNING'));
};

it('a question has the whole text of its calls, and its options', () => {
  const text = Array.from({ length: 500 }, (_, index) => `line ${index}`).join('\n');
  const lines = linesOf({ text });
  expect(lines[0]).toBe('The agent asks to run terminal:');
  expect(
    lines
      .filter((line) => line.startsWith('  | '))
      .map((line) => line.slice(4))
      .join('\n'),
  ).toBe(text);
  expect(lines.slice(-2)).toEqual(['Options:', '  yes  Allow (allow_once)']);
});

it('a question that can not be read whole says what that means', () => {
  expect(linesOf({ complete: false })).toContain(
    'The tool calls can not be read whole, so they can only be rejected.',
  );
});

it.each(['Owner', 'Admin'] as const)(
  'a question about a budget says what its approval needs where the decision is of %s',
  (decidedBy) => {
    const needs = 'To approve this, you need the verb "charge" on usagerecords.';
    const lines = linesOf({ kind: 'budget', raise: { amount: '1', unit: 'USD', decidedBy } });
    expect(lines.includes(needs)).toBe(decidedBy === 'Admin');
  },
);
