import { ownerRemedyOf } from '../resources/owner-remedies.ts';
import { sandboxStatusOf, type Facts } from './facts.ts';

export const groups = ['needs-you', 'working', 'waiting', 'paused', 'finished', 'failed'] as const;
export type Group = (typeof groups)[number];

export const groupNames: Readonly<Record<Group, string>> = {
  'needs-you': 'Needs you',
  working: 'Working',
  waiting: 'Waiting for room',
  paused: 'Paused',
  finished: 'Finished',
  failed: 'Failed and gone',
};

const waitingReasons: ReadonlySet<string | null | undefined> = new Set([
  'waiting-for-quota',
  'waiting-for-idle-sandbox',
  'waiting-for-budget',
]);

/** Whether the last answer of a user had no effect, and no run has begun since. */
const lacksAnswer = (conversation: Facts['conversation']): boolean =>
  conversation !== undefined && conversation.lost_answer !== null;

/** Labels for ended runs with a result that the user needs to know. */
const resultPills: Readonly<Record<string, PillText>> = {
  'tool-failed': { icon: 'alert', label: 'Tool failed' },
  'model-not-configured': { icon: 'alert', label: 'No model' },
  'tool-rejected': { icon: 'idle', label: 'Rejected' },
};

const resultPill = (conversation: Facts['conversation']): PillText | undefined =>
  resultPills[conversation?.last_result?.reason ?? ''];

function groupOfRun({ conversation }: Facts): Group {
  const status = conversation?.execution_status;
  switch (status) {
    case 'waiting_for_confirmation':
    case 'stuck':
    case 'error':
      return 'needs-you';
    // A `paused` run was stopped, or has not continued since a resume. The sandbox runs.
    case 'paused':
    case 'finished':
    case 'idle':
      return lacksAnswer(conversation) || resultPill(conversation)?.icon === 'alert'
        ? 'needs-you'
        : 'finished';
    case 'running':
    case null:
    case undefined:
      return 'working';
  }
}

/** Whether an agent waits for an answer, even if its sandbox is paused. */
const isAsking = ({ conversation }: Facts): boolean =>
  conversation !== undefined && conversation.pending_approval !== null;

export function groupOf(facts: Facts): Group {
  const reason = facts.conversation?.sandbox_status_reason;
  switch (sandboxStatusOf(facts)) {
    case 'STARTING':
      return waitingReasons.has(reason) ? 'waiting' : 'working';
    case 'RUNNING':
      return groupOfRun(facts);
    case 'PAUSED':
      return isAsking(facts) || lacksAnswer(facts.conversation) ? 'needs-you' : 'paused';
    case 'ERROR':
      return ownerRemedyOf(reason ?? '') === undefined ? 'failed' : 'needs-you';
    case 'MISSING':
      return 'failed';
  }
}

/** Icons of pills; `components/icon.tsx` draws them. */
export type PillIcon =
  'ask' | 'alert' | 'run' | 'start' | 'wait' | 'pause' | 'done' | 'idle' | 'gone';

export interface PillText {
  readonly icon: PillIcon;
  readonly label: string;
}

const runPills: Readonly<Record<string, PillText>> = {
  waiting_for_confirmation: { icon: 'ask', label: 'Asks' },
  stuck: { icon: 'alert', label: 'Stuck' },
  error: { icon: 'alert', label: 'Run failed' },
  paused: { icon: 'idle', label: 'Stopped' },
  finished: { icon: 'done', label: 'Finished' },
  idle: { icon: 'idle', label: 'Idle' },
};

/** Statuses of an agent that waits for its owner after an answer was lost. */
const atRest: ReadonlySet<unknown> = new Set(['finished', 'idle', 'paused']);

export function pillOf(facts: Facts): PillText {
  switch (sandboxStatusOf(facts)) {
    case 'STARTING':
      return groupOf(facts) === 'waiting'
        ? { icon: 'wait', label: 'Waiting' }
        : { icon: 'start', label: 'Starting' };
    case 'RUNNING':
      if (atRest.has(facts.conversation?.execution_status) && lacksAnswer(facts.conversation))
        return { icon: 'alert', label: 'Answer lost' };
      return (
        resultPill(facts.conversation) ??
        runPills[facts.conversation?.execution_status ?? ''] ?? { icon: 'run', label: 'Running' }
      );
    case 'PAUSED':
      return { icon: 'pause', label: 'Paused' };
    case 'ERROR':
      return { icon: 'alert', label: 'Failed' };
    case 'MISSING':
      return { icon: 'gone', label: 'Gone' };
  }
}
