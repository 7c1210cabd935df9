import type { WholeApprovalRecord } from '../gateway/presenters/approval.ts';

const indented = (text: string): readonly string[] => text.split('\n').map((line) => `  | ${line}`);

/** The whole question of an agent: every character that an approval is about, and the options. */
export const questionLines = (question: WholeApprovalRecord): readonly string[] => [
  question.kind === 'budget'
    ? 'The run has stopped, because the budget is used up:'
    : `The agent asks to ${question.kind === 'execute' ? 'run' : 'use'} ${question.tool}:`,
  ...indented(question.text),
  ...(question.call_hash === null
    ? ['The tool calls can not be read whole, so they can only be rejected.']
    : []),
  ...(question.decided_by === 'Admin'
    ? ['To approve this, you need the verb "charge" on usagerecords.']
    : []),
  ...(question.notice === null ? [] : [question.notice]),
  ...(question.options.length === 0
    ? []
    : ['Options:', ...question.options.map(({ id, name, kind }) => `  ${id}  ${name} (${kind})`)]),
];
