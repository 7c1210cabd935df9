import type { ConversationStatus, StartStep } from '../../../resources/conversation-status.ts';
import { readable, tailOf } from '../../sandbox/readable-output.ts';
import type { StepReport } from './step-command.ts';

/** Maximum length of a step's output in the status, in characters. */
const maxOutputLength = 4096;
/** Minimum time between two writes of progress: each is a write, and an event for all watches. */
const progressMs = 5_000;

const stepOf = ({ start }: ConversationStatus, name: StartStep['name']): StartStep | undefined =>
  start?.steps?.find((step) => step.name === name);

export const isRunning = (status: ConversationStatus, name: StartStep['name']): boolean =>
  stepOf(status, name)?.state === 'running';

/**
 * Returns the status with the report of a step. A report of mere progress is withheld for a while.
 */
export function withStep(
  status: ConversationStatus,
  name: StartStep['name'],
  { state: reported, exitCode, output: printed }: Pick<StepReport, 'state' | 'exitCode' | 'output'>,
  nowMs: number,
): ConversationStatus {
  if (status.start === undefined) return status;
  const before = stepOf(status, name);
  const isOver = reported === 'done' || reported === 'exhausted';
  const state = !isOver ? 'running' : reported === 'done' && exitCode === 0 ? 'done' : 'failed';
  if (
    before?.state === state &&
    (state !== 'running' || nowMs - Date.parse(before.updatedAt) < progressMs)
  )
    return status;
  const now = new Date(nowMs).toISOString();
  const output = tailOf(readable(printed), maxOutputLength);
  const step: StartStep = {
    name,
    state,
    startedAt: before?.startedAt ?? now,
    updatedAt: now,
    ...(isOver ? { endedAt: now } : {}),
    ...(reported === 'done' ? { exitCode: Math.min(exitCode, 255) } : {}),
    ...(output === '' ? {} : { output }),
  };
  const others = (status.start.steps ?? []).filter((each) => each.name !== name);
  return { ...status, start: { ...status.start, steps: [...others, step] } };
}

/** Delay before the next report of a step. The delay grows, since most steps are short. */
export function pollAfterMs(
  status: ConversationStatus,
  name: StartStep['name'],
  nowMs: number,
): number {
  const ageMs = nowMs - Date.parse(stepOf(status, name)?.startedAt ?? '');
  if (ageMs > 60_000) return 5_000;
  return ageMs > 10_000 ? 2_000 : 500;
}
