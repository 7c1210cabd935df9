import type { KubeClient } from '@conversation-operator/kube/client';
import type { Store } from '@conversation-operator/kube/store';
import type { ConversationStatus } from '../../resources/conversation-status.ts';
import { sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import { viewOfSandbox } from '../../status/sandbox-phase.ts';
import { storedObject } from '../stored-object.ts';

export interface SandboxAccess {
  readonly client: KubeClient;
  readonly store: Pick<Store<Sandbox>, 'get'>;
}

/** A sandbox that was deleted never returns. A cache that still shows such a sandbox is behind. */
const isSandboxGone = ({ sandboxStatus, sandboxUID }: ConversationStatus): boolean =>
  sandboxStatus === 'MISSING' && sandboxUID !== undefined;

/**
 * Returns the sandbox that the status names; undefined when that sandbox is gone or another sandbox
 * has its name. The cache may be behind, so the API server confirms that a sandbox is gone.
 */
export async function findSandbox(
  { client, store }: SandboxAccess,
  namespace: string,
  status: ConversationStatus,
  signal: AbortSignal,
): Promise<Sandbox | undefined> {
  const { sandboxName: name, sandboxUID: uid } = status;
  if (name === undefined || isSandboxGone(status)) return undefined;
  const cached = store.get(namespace, name);
  if (cached !== undefined && (uid === undefined || cached.metadata.uid === uid)) return cached;
  return storedObject(
    client,
    sandboxes,
    { metadata: { namespace, name, ...(uid === undefined ? {} : { uid }) } },
    signal,
  );
}

/**
 * Copies phase and reason of the sandbox to the status. The cache is read again, because a call to
 * the agent may have taken minutes.
 */
export function withSandboxStatus(
  status: ConversationStatus,
  namespace: string,
  sandbox: Sandbox | undefined,
  store: Store<Sandbox>,
): ConversationStatus {
  const { start, sandboxName, sandboxUID } = status;
  // The sandbox of a failed start is deleted, or belongs to another conversation.
  if (start?.status === 'ERROR')
    return {
      ...status,
      sandboxStatus: 'ERROR',
      sandboxStatusReason: start.errorCode ?? 'StartFailed',
    };
  if (sandboxName === undefined) return { ...status, sandboxStatus: 'STARTING' };
  if (isSandboxGone(status)) return status;
  const cached = store.get(namespace, sandboxName);
  const isSame =
    cached !== undefined && cached.metadata.uid === (sandboxUID ?? cached.metadata.uid);
  const { phase, reason } = viewOfSandbox(isSame ? cached : sandbox);
  return { ...status, sandboxStatus: phase, sandboxStatusReason: reason };
}
