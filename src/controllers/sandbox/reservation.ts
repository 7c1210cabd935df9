import { agentKindOf, agentNameOf } from '../../agent/kinds.ts';
import type { Sandbox, SandboxState } from '../../resources/sandbox.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';

/**
 * Whether the status reserves the slot of a pod, and names the master key of its agent, so that a
 * pod may be created.
 */
export const isReserved = ({ status }: Pick<Sandbox, 'status'>): boolean =>
  status?.replicas === 1 && status.masterKeyId !== undefined;

export interface ReservationOptions {
  /** Absent: unknown, so that kind and name of the agent stay open. */
  readonly template: SandboxTemplate | undefined;
  readonly currentKeyId: string;
  readonly now: string;
}

/**
 * The status from which on a pod may exist: the slot is taken until the sandbox controller takes
 * the reservation back. The same write chooses the master key, before anything is derived from it,
 * because a rotation must not change a sandbox's keys half-way.
 */
export function reservedStatus(
  sandbox: Sandbox,
  { template, currentKeyId, now }: ReservationOptions,
): SandboxState {
  // The sandbox is not paused any more, and nothing of the next pause has been stored yet.
  const { pauseTime: _pausedAt, ...status } = sandbox.status ?? {};
  // The start deadline counts from here, also where nothing can be created and so nothing more be
  // said.
  const { masterKeyId = currentKeyId, startingSinceTime = now } = status;
  // The status keeps kind and name, because the pod speaks this protocol from now on, and the
  // volume has the sessions of this agent, whatever the template states later.
  const agentKind = template === undefined ? status.agentKind : agentKindOf(sandbox, template);
  const agentName = template === undefined ? status.agentName : agentNameOf(sandbox, template);
  return {
    ...status,
    masterKeyId,
    startingSinceTime,
    replicas: 1,
    ...(agentKind === undefined ? {} : { agentKind }),
    ...(agentName === undefined ? {} : { agentName }),
  };
}
