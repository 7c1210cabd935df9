import type {
  CallOptions,
  DeleteOptions,
  KubeClient,
  ListOptions,
  ListResult,
  StatusUpdate,
  Subresource,
  WatchEvent,
  WatchOptions,
} from '../../kube/client.ts';
import type { Clock } from '../../kube/clock.ts';
import type { KubeObject, NewObject, ResourceDefinition } from '../../resources/object.ts';
import { shareProblem } from './share-problem.ts';
import { Shares } from '../../kube/shares.ts';

type Resource<T extends KubeObject> = ResourceDefinition<T>;

export interface FairClientOptions {
  readonly client: KubeClient;
  /** Whose request a call is made for; undefined for what the gateway does by itself, which does not wait. */
  readonly owner: () => string | undefined;
  /** Called before each call that an owner causes. */
  readonly onCall: (owner: string, call: { readonly isWrite: boolean; readonly plural: string; readonly name: string | undefined }) => void;
  readonly clock: Clock;
  /** What differs from the defaults. */
  readonly limits?: Partial<FairClientLimits>;
}

export interface FairClientLimits {
  /** Calls at once: of all owners, and of one. */
  readonly total: number;
  readonly perOwner: number;
  /** How long a call may wait, in milliseconds; and how many may, of all owners and of one. */
  readonly maxWaitMs: number;
  readonly maxWaiting: number;
  readonly maxWaitingPerOwner: number;
}

/** The total is less than the transport's connections, so that what the gateway does by itself finds one. */
const defaultLimits: FairClientLimits = { total: 12, perOwner: 6, maxWaitMs: 10_000, maxWaiting: 4096, maxWaitingPerOwner: 1024 };

/**
 * The API server as the requests of owners use it. Its connections are few, and a call that waits for one stands behind those before it:
 * here owners take turns, so that one whose requests need many calls waits for itself.
 */
export class FairClient implements KubeClient {
  readonly #client: KubeClient;
  readonly #owner: FairClientOptions['owner'];
  readonly #onCall: FairClientOptions['onCall'];
  readonly #shares: Shares;

  constructor({ client, owner, onCall, clock, limits }: FairClientOptions) {
    const { total, perOwner, maxWaitMs, maxWaiting, maxWaitingPerOwner } = { ...defaultLimits, ...limits };
    this.#client = client;
    this.#owner = owner;
    this.#onCall = onCall;
    this.#shares = new Shares({
      ...{ total, perOwner },
      refuse: (bound) => shareProblem(bound, 'calls to the API server'),
      waiting: { clock, maxMs: maxWaitMs, total: maxWaiting, perOwner: maxWaitingPerOwner },
    });
  }

  get<T extends KubeObject>(resource: Resource<T>, namespace: string, name: string, options?: CallOptions): Promise<T> {
    return this.#call(false, resource, name, options, () => this.#client.get(resource, namespace, name, options));
  }

  list<T extends KubeObject>(resource: Resource<T>, options?: ListOptions & CallOptions): Promise<ListResult<T>> {
    return this.#call(false, resource, undefined, options, () => this.#client.list(resource, options));
  }

  listMapped<T extends KubeObject, R>(
    resource: Resource<T>,
    map: (object: T) => R | undefined,
    options?: ListOptions & CallOptions,
  ): Promise<ListResult<R>> {
    return this.#call(false, resource, undefined, options, () => this.#client.listMapped(resource, map, options));
  }

  watch<T extends KubeObject>(resource: Resource<T>, options: WatchOptions): AsyncIterable<WatchEvent<T>> {
    return this.#client.watch(resource, options);
  }

  create<T extends KubeObject>(resource: Resource<T>, object: NewObject<T>, options?: CallOptions): Promise<T> {
    return this.#call(true, resource, undefined, options, () => this.#client.create(resource, object, options));
  }

  update<T extends KubeObject>(resource: Resource<T>, object: NoInfer<T>, options?: CallOptions): Promise<T> {
    return this.#call(true, resource, object.metadata.name, options, () => this.#client.update(resource, object, options));
  }

  updateStatus<T extends KubeObject>(resource: Resource<T>, object: StatusUpdate<T>, options?: CallOptions): Promise<T> {
    return this.#call(true, resource, object.metadata.name, options, () => this.#client.updateStatus(resource, object, options));
  }

  mergePatch<T extends KubeObject>(
    resource: Resource<T>,
    namespace: string,
    name: string,
    patch: object,
    options?: CallOptions & { readonly subresource?: Subresource },
  ): Promise<T> {
    return this.#call(true, resource, name, options, () => this.#client.mergePatch(resource, namespace, name, patch, options));
  }

  delete<T extends KubeObject>(resource: Resource<T>, namespace: string, name: string, options?: DeleteOptions): Promise<void> {
    return this.#call(true, resource, undefined, options, () => this.#client.delete(resource, namespace, name, options));
  }

  createSubresource<T extends KubeObject>(
    resource: Resource<T>,
    namespace: string,
    name: string,
    subresource: Subresource,
    body: object,
    options?: CallOptions,
  ): Promise<void> {
    return this.#call(true, resource, name, options, () =>
      this.#client.createSubresource(resource, namespace, name, subresource, body, options),
    );
  }

  async #call<T extends KubeObject, R>(
    isWrite: boolean,
    { plural }: Resource<T>,
    name: string | undefined,
    options: CallOptions | undefined,
    call: () => Promise<R>,
  ): Promise<R> {
    const owner = this.#owner();
    if (owner === undefined) return call();
    this.#onCall(owner, { isWrite, plural, name });
    const release = await this.#shares.wait({ owner }, { signal: options?.signal });
    try {
      return await call();
    } finally {
      release();
    }
  }
}
