import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { KubeClient } from '@conversation-operator/kube/client';
import { isConflict, isNotFound } from '@conversation-operator/kube/errors';
import type { ConversationStatus } from '../../../resources/conversation-status.ts';
import { hasAnswerToGive } from '../../../resources/approval.ts';
import { resumeRequestedAnnotation, sandboxes } from '../../../resources/sandbox.ts';
import { viewOfSandbox } from '../../../status/sandbox-phase.ts';
import { storedObject } from '../../stored-object.ts';
import type { Scope } from '../scope.ts';

/**
 * Requests a resume of the paused sandbox of a conversation whose answer the agent does not have
 * yet, once for each answer: a person may pause the sandbox again. A process that ends before the
 * returned status is stored requests the resume again.
 */
export async function resumeForAnswer(
  { client, clock }: { readonly client: KubeClient; readonly clock: Clock },
  { status, sandbox }: Pick<Scope, 'status' | 'sandbox'>,
  signal: AbortSignal,
): Promise<ConversationStatus> {
  const { approval } = status;
  if (
    sandbox === undefined ||
    approval?.answer === undefined ||
    approval.answer.resumeTime !== undefined ||
    !hasAnswerToGive({ spec: {}, status }) ||
    viewOfSandbox(sandbox).phase !== 'PAUSED'
  )
    return status;
  const stored = await storedObject(client, sandboxes, sandbox, signal);
  if (stored === undefined) return status;
  const resumeTime = isoTime(clock);
  const { namespace, name } = stored.metadata;
  try {
    const { resourceVersion } = stored.metadata;
    const annotations = { [resumeRequestedAnnotation]: resumeTime };
    const patch = { metadata: { resourceVersion, annotations }, spec: { replicas: 1 as const } };
    await client.mergePatch(sandboxes, namespace, name, patch, { signal });
  } catch (error) {
    // A sandbox that changes is seen again, and one that is gone needs no resume.
    if (isConflict(error) || isNotFound(error)) return status;
    throw error;
  }
  return { ...status, approval: { ...approval, answer: { ...approval.answer, resumeTime } } };
}
