import { isoTime } from '../../kube/clock.ts';
import { resumeRequestedAnnotation, sandboxes } from '../../resources/sandbox.ts';
import type { Services } from '../app/services.ts';

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
