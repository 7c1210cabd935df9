import { TransportError, isConflict } from '@conversation-operator/kube/errors';
import {
  maxSessionKeyGeneration,
  sandboxes,
  sessionKeyGenerationAnnotation,
  sessionKeyGenerationOf,
  type Sandbox,
} from '../../resources/sandbox.ts';
import type { Services } from '../services.ts';
import { ProblemError, notFound } from '../errors/problem-error.ts';
import { findStored } from '../lookup/find-stored.ts';
import { writeOnStored } from './write-on-stored.ts';

/**
 * The next generation. After an unreadable one it is the time in seconds, a number that no count of
 * rotations reaches.
 */
function generationAfter(sandbox: Sandbox, nowMs: number): number {
  const generation = sessionKeyGenerationOf(sandbox) ?? Math.floor(nowMs / 1000);
  if (generation >= maxSessionKeyGeneration)
    throw new ProblemError(
      'conflict',
      'The session keys of the sandbox can not be rotated any more.',
    );
  return generation + 1;
}

/**
 * Moves the session keys of a sandbox to another generation than the one that was seen, and waits
 * until the cache shows it. The write names the version that was read, so that concurrent requests,
 * a retry and a lost answer make one rotation and never go back.
 */
export async function rotateSessionKey(
  { client, clock, feeds }: Pick<Services, 'client' | 'clock' | 'feeds'>,
  { metadata: { namespace, name, uid } }: Sandbox,
): Promise<void> {
  let first: number | undefined;
  const read = async () => {
    const stored = await findStored(client, sandboxes, namespace, name);
    if (stored?.metadata.uid !== uid || stored.metadata.deletionTimestamp !== undefined)
      throw notFound('sandbox');
    return stored;
  };
  const write = async (stored: Sandbox) => {
    const present = sessionKeyGenerationOf(stored) ?? -1;
    first ??= present;
    if (present !== first) return stored;
    const generation = String(generationAfter(stored, clock.now()));
    const { resourceVersion } = stored.metadata;
    return client.mergePatch(sandboxes, namespace, name, {
      metadata: { resourceVersion, annotations: { [sessionKeyGenerationAnnotation]: generation } },
    });
  };
  const isPassing = (error: unknown) => error instanceof TransportError || isConflict(error);
  await feeds.sandboxes.shows(await writeOnStored(read, write, isPassing));
}
