import type { ConversationStatus } from '../../resources/conversation.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { durationMs } from '../../resources/sandbox-template.ts';

/**
 * Whether nothing has been heard of a run for as long as its template allows. An agent writes nothing while a tool runs or the model
 * thinks, and does not tell the one from the other, nor from a hang: so this is for those who know how long their tools take.
 */
export function stalledFor(
  { executionStatus, lastActivityTime, interruption, messages, start }: ConversationStatus,
  sandbox: Pick<Sandbox, 'status'>,
  allowed: string,
  nowMs: number,
): boolean {
  if (executionStatus !== 'running' || lastActivityTime === undefined) return false;
  const signs = [
    lastActivityTime,
    interruption?.continuedAt,
    messages?.toldAt,
    sandbox.status?.activeSince,
    start?.transitions.at(-1)?.time,
  ];
  const last = Math.max(...signs.flatMap((time) => (time === undefined ? [] : [Date.parse(time)])).filter((ms) => !Number.isNaN(ms)));
  return nowMs - last >= durationMs(allowed);
}
