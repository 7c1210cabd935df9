import type { AgentUserMessage } from '../../../agent/agent.ts';
import { matchesPattern } from '../../../resources/agent-settings.ts';
import type { LaterMessage } from '../../../resources/conversation.ts';

/** Text with which an agent replaces secrets that the agent knows. */
const mask = '<secret-hidden>';

const textOf = ({ content }: LaterMessage): string =>
  content.map(({ text }) => text ?? '').join('\n');

/** Whether the agent has stored this message. */
export function isStored(message: LaterMessage, stored: readonly AgentUserMessage[]): boolean {
  const text = textOf(message);
  return stored.some((candidate) => matchesPattern(text, candidate.text, mask));
}
