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
 * Maximum concurrent reconciles of each controller. The numbers of `conversation`, `status` and
 * `sandbox` are high, because their reconciles wait for agents, which may answer slowly. The
 * Kubernetes client limits its own requests, and bulkheads limit concurrent calls to agents. A
 * worker of `admission` handles one namespace at a time, for a bounded time.
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
  handover: 4,
} as const;

/** Maximum workers that one owner can occupy with slow agents: a quarter of the workers. */
export const maxPerOwner = (
  name: 'conversation' | 'status' | 'sandbox' | 'archive' | 'disruption',
): number => workers[name] / 4;

/** Key of an object's owner for `shareOf`; empty while the object is deleted or not cached yet. */
export const ownerShare = (
  object:
    | {
        readonly metadata: { readonly namespace: string };
        readonly spec: { readonly owner: string };
      }
    | undefined,
): string => (object === undefined ? '' : `${object.metadata.namespace}/${object.spec.owner}`);

/** Key for `shareOf` of any object; the objects without an owner in a namespace share one key. */
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

export interface RecordingNeeds extends CommonNeeds {
  readonly events: Pick<EventRecorder, 'record'>;
}

export type RequestQueue = Pick<Controller, 'enqueueAfter'>;

/** Connects a source of requests to a controller's queue. Returns the function to disconnect. */
export type EventSource = (queue: RequestQueue) => () => void;

/** A controller: the name of its queue, the sources of its requests, and its reconcile function. */
export interface ControllerSpec extends Pick<
  ControllerOptions,
  'reconcile' | 'refresh' | 'shareOf' | 'maxPerShare' | 'backoff'
> {
  readonly name: string;
  readonly workers: number;
  /** Sources of requests, in the order in which the operator connects them. */
  readonly sources: readonly EventSource[];
}

interface Watched<T> {
  addHandler(handler: Handler<T>): () => void;
}

export interface WatchOptions<T> {
  /** Whether an update enqueues requests. Default: every update does. */
  readonly isRelevant?: (object: T, old: T) => boolean;
  /** Delay of each request in milliseconds; events meanwhile add no further request. Default 0. */
  readonly delayMs?: number;
}

export const requestOf = ({ metadata: { namespace = '', name } }: KubeObject): Request => ({
  namespace,
  name,
});

export const requestKey = ({ namespace, name }: Request): string => `${namespace}/${name}`;

/** A source that enqueues the requests of `requestsOf` for each event of an object. */
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

/** A source that passes each event to a handler, which enqueues requests through a `Channel`. */
export const handle =
  <T>(watched: Watched<T>, handler: Handler<T>): EventSource =>
  () =>
    watched.addHandler(handler);

/** Like `handle`, with one function for added and updated objects, and one for deleted objects. */
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

/** A source of requests that no watch causes. Requests are kept until a queue is connected. */
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
