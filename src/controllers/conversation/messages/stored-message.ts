import type { AgentUserMessage } from '../../../agent/agent.ts';
import type { LaterMessage } from '../../../resources/conversation.ts';

/** Text with which an agent replaces secrets that the agent knows. */
const mask = '<secret-hidden>';

const textOf = ({ content }: LaterMessage): string =>
  content.map(({ text }) => text ?? '').join('\n');

/** Whether the agent has stored this message. */
export function isStored(message: LaterMessage, stored: readonly AgentUserMessage[]): boolean {
  const text = textOf(message);
  return stored.some(
    (candidate) =>
      candidate.text === text || (candidate.text.includes(mask) && isMasked(text, candidate.text)),
  );
}

function isMasked(text: string, masked: string): boolean {
  const parts = masked.split(mask);
  const [first = '', last = ''] = [parts[0], parts.at(-1)];
  if (!text.startsWith(first) || !text.endsWith(last) || text.length < first.length + last.length)
    return false;
  let position = first.length;
  for (const part of parts.slice(1, -1)) {
    const found = text.indexOf(part, position);
    if (found < 0) return false;
    position = found + part.length;
  }
  return position <= text.length - last.length;
}
