import { isoTime } from '@conversation-operator/kube/clock';
import { isConflict } from '@conversation-operator/kube/errors';
import { conversations, startStatusOf } from '../../resources/conversation.ts';
import {
  hasRun,
  resumeRequestedAnnotation,
  runRequestedAnnotation,
  sandboxes,
  viewOfSandbox,
  type Sandbox,
} from '../../resources/sandbox.ts';
import type { Services } from '../services.ts';

/**
 * Whether a sandbox that is in ERROR comes back when a person asks for it: one that has run, unless the start of the conversation
 * that it was made for has failed. Of sandboxes in another phase this says nothing.
 */
export function comesBackFromError({ lookup }: Pick<Services, 'lookup'>, sandbox: Sandbox): boolean {
  if (viewOfSandbox(sandbox).phase !== 'ERROR' || !hasRun(sandbox)) return false;
  const maker = sandbox.metadata.ownerReferences?.find(({ kind, controller }) => kind === conversations.kind && controller === true);
  const made = lookup.cachedConversation(maker?.name);
  return made === undefined || made.metadata.uid !== maker?.uid || startStatusOf(made) !== 'ERROR';
}

/**
 * Says that a person wants the sandbox to run. The annotation is for the one that the quota or its idleness had paused: its
 * `spec.replicas` is 1 already, so that alone would be no change.
 */
export async function requestResume({ client, clock, feeds }: Services, namespace: string, name: string): Promise<void> {
  const updated = await client.mergePatch(sandboxes, namespace, name, {
    metadata: { annotations: { [resumeRequestedAnnotation]: isoTime(clock) } },
    spec: { replicas: 1 },
  });
  await feeds.sandboxes.shows(updated);
}

const maxAttempts = 5;

/** Requests a resume, and that a run which the pause has interrupted continues. The request names a generation, so it is written on the version that was read. */
export async function requestRun({ client, clock, feeds }: Services, namespace: string, name: string): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const { metadata, spec } = await client.get(sandboxes, namespace, name);
    const generation = spec.replicas === 1 ? metadata.generation : metadata.generation + 1;
    const annotations = { [resumeRequestedAnnotation]: isoTime(clock), [runRequestedAnnotation]: String(generation) };
    const patch = { metadata: { resourceVersion: metadata.resourceVersion, annotations }, spec: { replicas: 1 } };
    try {
      await feeds.sandboxes.shows(await client.mergePatch(sandboxes, namespace, name, patch));
      return;
    } catch (error) {
      if (!isConflict(error) || attempt === maxAttempts) throw error;
    }
  }
}
