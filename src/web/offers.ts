import type { Scope } from './rights.ts';
import { isFailedStart, sandboxIdOf, sandboxStatusOf, type Facts } from '../sentences/facts.ts';

export type ActionName = 'answer' | 'pause' | 'interrupt' | 'resume' | 'start-again';

export interface Offer {
  readonly name: ActionName;
  readonly label: string;
  readonly progress: string;
  /** Scope without which the gateway refuses the action. */
  readonly scope: Scope;
}

const scope = 'manage';
const answer = { name: 'answer', label: 'Answer', progress: '', scope } as const;

/** Actions for a conversation: usually one, at most two. The answer to a question comes first. */
export function offersOf(facts: Facts): readonly Offer[] {
  const asks = facts.conversation?.pending_approval != null;
  return asks ? [answer, ...stateOffersOf(facts).slice(0, 1)] : stateOffersOf(facts);
}

/** A start can be repeated only while its task exists. */
const again = ({ task }: Facts): readonly Offer[] =>
  task === undefined
    ? []
    : [{ name: 'start-again', label: 'Start again', progress: 'Starting', scope: 'start' }];

function stateOffersOf(facts: Facts): readonly Offer[] {
  const hasSandbox = sandboxIdOf(facts) !== undefined;
  switch (sandboxStatusOf(facts)) {
    case 'STARTING':
      return hasSandbox ? [{ name: 'pause', label: 'Stop', progress: 'Stopping', scope }] : [];
    case 'RUNNING':
      return [
        { name: 'pause', label: 'Pause', progress: 'Pausing', scope },
        ...(facts.conversation?.execution_status === 'running'
          ? [{ name: 'interrupt', label: 'Stop', progress: 'Stopping', scope } as const]
          : []),
      ];
    case 'PAUSED':
      return [{ name: 'resume', label: 'Resume', progress: 'Resuming', scope }];
    case 'ERROR':
      if (!isFailedStart(facts))
        return [{ name: 'resume', label: 'Try again', progress: 'Resuming', scope }];
      return again(facts);
    case 'MISSING':
      return again(facts);
  }
}
