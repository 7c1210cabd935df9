import type { CallOptions, KubeClient } from '@conversation-operator/kube/client';
import type { Clock } from '@conversation-operator/kube/clock';
import { InterceptedClient, type ClientCall } from '@conversation-operator/kube/intercepted-client';
import { Shares } from '@conversation-operator/kube/shares';
import type { FairScheduler } from '@conversation-operator/http/limits/fair-scheduler';
import { shareProblem } from './share-problem.ts';

export interface FairClientOptions {
  readonly client: KubeClient;
  /**
   * The owner whose request a call is made for; undefined for calls of the gateway itself, which do
   * not wait.
   */
  readonly owner: () => string | undefined;
  /**
   * Called before each call that an owner causes. Returns the size of its object in bytes; 0 where
   * that is not known.
   */
  readonly onCall: (owner: string, call: OwnersCall) => number;
  readonly scheduler: Pick<FairScheduler, 'run' | 'chargeBytes'>;
  readonly clock: Clock;
}

export interface OwnersCall {
  readonly isWrite: boolean;
  readonly plural: string;
  /** Name of the object; undefined for a list, a creation and a deletion. */
  readonly name: string | undefined;
  /** Length of all texts in an object that is to be created. */
  readonly textLength: number;
}

/**
 * Number of bytes of an object for which its call takes one more place, because calls about large
 * objects last longer.
 */
const bytesPerPlace = 256 * 1024;
/** Cost of any response, in bytes. */
const smallResponseBytes = 32 * 1024;

/**
 * Maximum calls at once. The total is less than the connections of the transport, so that the
 * gateway's own calls find one.
 */
const places = { total: 12, perOwner: 6 } as const;
/** Maximum delay of a call before it has its place, and maximum calls that wait. */
const waiting = { maxMs: 10_000, total: 4096, perOwner: 1024 } as const;

/**
 * The API server as the requests of owners use it. Its connections are few, and a call that waits
 * for one waits for all calls before it. Owners take turns here, so that the requests of an owner
 * with many calls wait for each other.
 */
export function fairClient({
  client,
  owner: ownerOf,
  onCall,
  scheduler,
  clock,
}: FairClientOptions): KubeClient {
  const shares = new Shares({
    ...places,
    refuse: (bound) => shareProblem(bound, 'calls to the API server'),
    waiting: { ...waiting, clock },
  });
  return new InterceptedClient(
    client,
    async <R>(call: ClientCall, { signal }: CallOptions, run: () => Promise<R>): Promise<R> => {
      const owner = ownerOf();
      if (owner === undefined) return run();
      const isWrite = call.verb !== 'get' && call.verb !== 'list';
      const name = call.verb === 'delete' ? undefined : call.name;
      const bytes = onCall(owner, {
        isWrite,
        plural: call.plural,
        name,
        textLength: call.verb === 'create' ? textLengthOf(call.object) : 0,
      });
      // A created object has come in a body, which counts already.
      if (isWrite && name !== undefined) scheduler.chargeBytes(owner, bytes);
      const units = Math.min(places.perOwner, 1 + Math.floor(bytes / bytesPerPlace));
      const release = await shares.wait({ owner }, { units, signal });
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
