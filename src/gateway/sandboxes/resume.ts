import { isoTime, type Clock } from '@conversation-operator/base/clock';
import type { KubeClient } from '@conversation-operator/kube/client';
import { startStatusOf } from '../../resources/conversation.ts';
import type { SandboxStatus } from '../../resources/conversation-status.ts';
import {
  hasRun,
  resumeRequestedAnnotation,
  runRequestedAnnotation,
  sandboxes,
  type Sandbox,
} from '../../resources/sandbox.ts';
import { viewOfSandbox } from '../../status/sandbox-phase.ts';
import { isNamedBy, madeForReferenceOf } from '../../resources/sandbox-owner-references.ts';
import { ProblemError } from '../errors/problem-error.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { refuseMoved, whileOwned, writeOnStored } from '../lookup/stored.ts';

export interface ResumeNeeds {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly feeds: { readonly sandboxes: Pick<ObjectFeed<Sandbox>, 'shows'> };
}

/**
 * Whether a resume can restart a sandbox in ERROR: the sandbox must have run, and the start of the
 * conversation for which it was created must not have failed. False in any other phase.
 */
export function comesBackFromError(lookup: ResourceLookup, sandbox: Sandbox): boolean {
  if (viewOfSandbox(sandbox).phase !== 'ERROR' || !hasRun(sandbox)) return false;
  const made = lookup.cachedConversation(madeForReferenceOf(sandbox)?.name);
  return made === undefined || !isNamedBy(made, sandbox) || startStatusOf(made) !== 'ERROR';
}

/**
 * Throws 409 for a sandbox that is deleted, or that has failed and can not be restarted. `use`
 * completes the message with the use that is refused.
 */
export function refuseUnusable(phase: SandboxStatus, { comesBack = false, use = '' } = {}): void {
  if (phase === 'MISSING' || (phase === 'ERROR' && !comesBack))
    throw new ProblemError('wrong-state', `The sandbox is in ${phase}${use}.`);
}

/**
 * Requests a resume on behalf of a person. If a quota or idleness has paused the sandbox,
 * `spec.replicas` is 1 already, so only the annotation requests the resume.
 */
export async function requestResume(
  { client, clock, feeds }: ResumeNeeds,
  { metadata: { namespace, name, uid }, spec: { owner } }: Pick<Sandbox, 'metadata' | 'spec'>,
): Promise<void> {
  // UID and owner keep the patch from resuming another sandbox of the name, or one that has moved.
  const updated = await whileOwned(
    'sandbox',
    client.mergePatch(sandboxes, namespace, name, {
      metadata: { uid, annotations: { [resumeRequestedAnnotation]: isoTime(clock) } },
      spec: { owner, replicas: 1 },
    }),
  );
  await feeds.sandboxes.shows(updated);
}

/**
 * Requests a resume, and the continuation of an interrupted run. `runRequestedAnnotation` contains
 * the generation after the write, so the write names the resourceVersion that was read.
 */
export async function requestRun(
  { client, clock, feeds }: ResumeNeeds,
  sandbox: Pick<Sandbox, 'metadata' | 'spec'>,
): Promise<void> {
  const { namespace, name, uid } = sandbox.metadata;
  const updated = await writeOnStored(
    () => client.get(sandboxes, namespace, name),
    (stored) => {
      refuseMoved('sandbox', stored, sandbox);
      const { metadata, spec } = stored;
      const generation = spec.replicas === 1 ? metadata.generation : metadata.generation + 1;
      const annotations = {
        [resumeRequestedAnnotation]: isoTime(clock),
        [runRequestedAnnotation]: String(generation),
      };
      return client.mergePatch(sandboxes, namespace, name, {
        metadata: { uid, resourceVersion: metadata.resourceVersion, annotations },
        spec: { replicas: 1 },
      });
    },
  );
  await feeds.sandboxes.shows(updated);
}
