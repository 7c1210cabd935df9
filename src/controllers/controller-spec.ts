import type { Clock } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { EventRecorder } from '@conversation-operator/kube/events';
import type {
  Controller,
  ControllerOptions,
  Request,
} from '@conversation-operator/kube/controller';
import type { KubeObject } from '@conversation-operator/kube/object';
import type { Handler } from '@conversation-operator/kube/reflector';

/**
 * Maximum concurrent reconciles of each controller. Reconciles of conversations and sandboxes call
 * agents, which may answer slowly, so their numbers are high: the client of the API server bounds
 * calls to it, and bulkheads bound calls to agents. A worker of admission holds one namespace at a
 * time, for a bounded time.
 */
export const workers = {
  conversation: 128,
  status: 512,
  sandbox: 512,
  admission: 16,
  lookup: 8,
  quota: 1,
  template: 2,
  pool: 4,
  retention: 4,
  archive: 8,
  'archive-sweep': 1,
  disruption: 8,
} as const;

/** Maximum workers of one owner: a quarter, so that slow agents of one owner do not stop others. */
export const maxPerOwner = (
  name: 'conversation' | 'status' | 'sandbox' | 'archive' | 'disruption',
): number => workers[name] / 4;

/** The share of an object's owner; none while the object is deleted or not cached yet. */
export const ownerShare = (
  object:
    | {
        readonly metadata: { readonly namespace: string };
        readonly spec: { readonly owner: string };
      }
    | undefined,
): string => (object === undefined ? '' : `${object.metadata.namespace}/${object.spec.owner}`);

/** The share for an object of any kind: objects without an owner share one per namespace. */
export const objectShare = ({
  metadata: { namespace = '' },
  spec,
}: KubeObject & { readonly spec?: { readonly owner?: string } }): string =>
  `${namespace}/${spec?.owner ?? ''}`;

export interface CommonNeeds {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Dependencies of a part that records Events. */
export interface RecordingNeeds extends CommonNeeds {
  readonly events: Pick<EventRecorder, 'record'>;
}

export type RequestQueue = Pick<Controller, 'enqueueAfter'>;

/** Connects a source of requests with a controller's queue; returns the disconnect function. */
export type EventSource = (queue: RequestQueue) => () => void;

/** A controller: the name of its queue, the sources of its requests, and its reconcile function. */
export interface ControllerSpec extends Pick<
  ControllerOptions,
  'reconcile' | 'refresh' | 'shareOf' | 'maxPerShare' | 'backoff'
> {
  readonly name: string;
  readonly workers: number;
  /** The sources in the order in which they are connected. */
  readonly sources: readonly EventSource[];
}

interface Watched<T> {
  addHandler(handler: Handler<T>): () => void;
}

export interface WatchOptions<T> {
  /** Whether an update is an event; by default each one is. */
  readonly isRelevant?: (object: T, old: T) => boolean;
  /** Delay of each request, in which further events are coalesced. Default 0. */
  readonly delayMs?: number;
}

export const requestOf = ({ metadata: { namespace = '', name } }: KubeObject): Request => ({
  namespace,
  name,
});

export const requestKey = ({ namespace, name }: Request): string => `${namespace}/${name}`;

/** A source that enqueues requests for each event of an object. */
export const watch =
  <T>(
    watched: Watched<T>,
    requestsOf: (object: T) => readonly Request[],
    options: WatchOptions<T> = {},
  ): EventSource =>
  (queue) => {
    const { isRelevant = () => true, delayMs = 0 } = options;
    const enqueue = (object: T): void => {
      for (const request of requestsOf(object)) queue.enqueueAfter(request, delayMs);
    };
    const update = (object: T, old: T): void =>
      isRelevant(object, old) ? enqueue(object) : undefined;
    return watched.addHandler({ added: enqueue, updated: update, deleted: enqueue });
  };

/** A source that passes each event to a handler, which adds requests to a channel. */
export const handle =
  <T>(watched: Watched<T>, handler: Handler<T>): EventSource =>
  () =>
    watched.addHandler(handler);

/** Like `handle`, with one function for existing and one for deleted objects; default the same. */
export const observe = <T>(
  watched: Watched<T>,
  onPresent: (object: T, old?: T) => void,
  onDeleted: (object: T) => void = onPresent,
): EventSource =>
  handle<T>(watched, {
    added: onPresent,
    updated: onPresent,
    deleted: (object) => onDeleted(object),
  });

/** Requests that no watch reports. Requests from before the connection with a queue wait for it. */
export class Channel {
  #queue: RequestQueue | undefined;
  readonly #early: (readonly [Request, number])[] = [];

  enqueue(request: Request, delayMs = 0): void {
    if (this.#queue === undefined) this.#early.push([request, delayMs]);
    else this.#queue.enqueueAfter(request, delayMs);
  }

  readonly source: EventSource = (queue) => {
    this.#queue = queue;
    for (const [request, delayMs] of this.#early.splice(0)) this.enqueue(request, delayMs);
    return () => undefined;
  };
}
