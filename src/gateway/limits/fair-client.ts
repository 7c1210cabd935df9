import type { CallOptions, KubeClient } from '@conversation-operator/kube/client';
import { InterceptedClient, type ClientCall } from '@conversation-operator/kube/intercepted-client';
import type { Shares } from '@conversation-operator/base/shares';
import type { RateLimits } from '@conversation-operator/http/limits/rate-limits';
import { conversations } from '../../resources/conversation.ts';
import type { FairScheduler } from '@conversation-operator/http/limits/fair-scheduler';

export interface FairClientOptions {
  readonly client: KubeClient;
  /**
   * The owner whose request a call is made for; undefined for calls of the gateway itself, which do
   * not wait.
   */
  readonly owner: () => string | undefined;
  /** Size of a stored conversation in bytes; 0 where that is not known. */
  readonly bytesOf: (conversationName: string) => number;
  readonly rateLimits: Pick<RateLimits, 'read' | 'written'>;
  readonly scheduler: Pick<FairScheduler, 'run' | 'chargeBytes'>;
  /** Places of the calls at once. */
  readonly places: Shares;
}

/**
 * Number of bytes of an object for which its call takes one more place, because calls about large
 * objects last longer.
 */
const bytesPerPlace = 256 * 1024;
/** Maximum places of one call. */
const maxPlaces = 6;
/** Cost of any response, in bytes. */
const smallResponseBytes = 32 * 1024;

/**
 * The API server as the requests of owners use it. Its connections are few, and a call that waits
 * for one waits for all calls before it. Owners take turns here, so that the requests of an owner
 * with many calls wait for each other.
 */
export function fairClient({
  client,
  owner: ownerOf,
  bytesOf,
  rateLimits,
  scheduler,
  places,
}: FairClientOptions): KubeClient {
  return new InterceptedClient(
    client,
    async <R>(call: ClientCall, { signal }: CallOptions, run: () => Promise<R>): Promise<R> => {
      const owner = ownerOf();
      if (owner === undefined) return run();
      const isWrite = call.verb !== 'get' && call.verb !== 'list';
      const name = call.verb === 'delete' ? undefined : call.name;
      const bytes =
        call.plural === conversations.plural && name !== undefined
          ? bytesOf(name)
          : call.verb === 'create'
            ? textLengthOf(call.object)
            : 0;
      if (!isWrite) rateLimits.read(owner, bytes);
      // A created object has come in a body, which counts already.
      else if (name !== undefined) {
        rateLimits.written(owner, bytes);
        scheduler.chargeBytes(owner, bytes);
      }
      const units = Math.min(maxPlaces, 1 + Math.floor(bytes / bytesPerPlace));
      const release = await places.wait({ owner }, { units, signal });
      try {
        return await scheduler.run(owner, run);
      } finally {
        release();
        scheduler.chargeBytes(owner, smallResponseBytes);
        // The response has the object again.
        if (!isWrite) scheduler.chargeBytes(owner, 2 * bytes);
      }
    },
  );
}

/** Length of all texts in a value, in characters. */
function textLengthOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 0;
  let length = 0;
  for (const part of Object.values(value)) length += textLengthOf(part);
  return length;
}
