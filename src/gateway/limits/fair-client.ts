import type {
  CallOptions,
  CreateOptions,
  DeleteOptions,
  KubeClient,
  ListOptions,
  ListResult,
  Mapping,
  ShorteningOptions,
  StatusOptions,
  StatusUpdate,
  Subresource,
  WatchEvent,
  WatchOptions,
} from '@conversation-operator/kube/client';
import type { Clock } from '@conversation-operator/kube/clock';
import type { KubeObject, NewObject, ResourceDefinition } from '@conversation-operator/kube/object';
import { shareProblem } from './share-problem.ts';
import { Shares } from '@conversation-operator/kube/shares';
import type { FairScheduler } from './fair-scheduler.ts';

type Resource<T extends KubeObject> = ResourceDefinition<T>;

export interface FairClientOptions {
  readonly client: KubeClient;
  /** Whose request a call is made for; undefined for what the gateway does by itself, which does not wait. */
  readonly owner: () => string | undefined;
  /** Called before each call that an owner causes. Returns the size of the object that it is about, in bytes; 0 where that is not known. */
  readonly onCall: (owner: string, call: OwnersCall) => number;
  readonly scheduler: Pick<FairScheduler, 'run' | 'chargeBytes' | 'store'>;
  readonly clock: Clock;
  /** What differs from the defaults. */
  readonly limits?: Partial<FairClientLimits>;
}

export interface OwnersCall {
  readonly isWrite: boolean;
  readonly plural: string;
  readonly name: string | undefined;
  /** Length of all texts in what is to be created. */
  readonly textLength?: number;
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

/** A call about an object takes one place, and another one for each so many bytes of it: that takes as much longer. */
const bytesPerPlace = 256 * 1024;
/** What an answer costs in any case, as so many bytes would. */
const smallAnswerBytes = 32 * 1024;

/** The total is less than the transport's connections, so that what the gateway does by itself finds one. */
const defaultLimits: FairClientLimits = { total: 12, perOwner: 6, maxWaitMs: 10_000, maxWaiting: 4096, maxWaitingPerOwner: 1024 };

/**
 * The API server as the requests of owners use it. Its connections are few, and a call that waits for one stands behind those before it:
 * here owners take scheduler, so that one whose requests need many calls waits for itself.
 */
export class FairClient implements KubeClient {
  readonly #client: KubeClient;
  readonly #owner: FairClientOptions['owner'];
  readonly #onCall: FairClientOptions['onCall'];
  readonly #scheduler: FairClientOptions['scheduler'];
  readonly #perOwner: number;
  readonly #shares: Shares;

  constructor({ client, owner, onCall, scheduler, clock, limits }: FairClientOptions) {
    const { total, perOwner, maxWaitMs, maxWaiting, maxWaitingPerOwner } = { ...defaultLimits, ...limits };
    this.#client = client;
    this.#owner = owner;
    this.#onCall = onCall;
    this.#scheduler = scheduler;
    this.#perOwner = perOwner;
    this.#shares = new Shares({
      ...{ total, perOwner },
      refuse: (bound) => shareProblem(bound, 'calls to the API server'),
      waiting: { clock, maxMs: maxWaitMs, total: maxWaiting, perOwner: maxWaitingPerOwner },
    });
  }

  get<T extends KubeObject>(resource: Resource<T>, namespace: string, name: string, options?: CallOptions): Promise<T> {
    return this.#call({ isWrite: false, plural: resource.plural, name }, options, () =>
      this.#client.get(resource, namespace, name, options),
    );
  }

  list<T extends KubeObject>(resource: Resource<T>, options?: ListOptions & CallOptions): Promise<ListResult<T>> {
    return this.#call({ isWrite: false, plural: resource.plural, name: undefined }, options, () => this.#client.list(resource, options));
  }

  listMapped<T extends KubeObject, R>(
    resource: Resource<T>,
    map: Mapping<T, R>,
    options?: ListOptions & CallOptions & ShorteningOptions,
  ): Promise<ListResult<R>> {
    return this.#call({ isWrite: false, plural: resource.plural, name: undefined }, options, () =>
      this.#client.listMapped(resource, map, options),
    );
  }

  watch<T extends KubeObject>(resource: Resource<T>, options: WatchOptions): AsyncIterable<WatchEvent<T>> {
    return this.#client.watch(resource, options);
  }

  create<T extends KubeObject>(resource: Resource<T>, object: NewObject<T>, options?: CreateOptions): Promise<T> {
    return this.#call({ isWrite: true, plural: resource.plural, name: undefined, textLength: textLengthOf(object) }, options, () =>
      this.#client.create(resource, object, options),
    );
  }

  update<T extends KubeObject>(resource: Resource<T>, object: NoInfer<T>, options?: CallOptions): Promise<T> {
    return this.#call({ isWrite: true, plural: resource.plural, name: object.metadata.name }, options, () =>
      this.#client.update(resource, object, options),
    );
  }

  updateStatus<T extends KubeObject>(resource: Resource<T>, object: StatusUpdate<T>, options?: StatusOptions): Promise<T> {
    return this.#call({ isWrite: true, plural: resource.plural, name: object.metadata.name }, options, () =>
      this.#client.updateStatus(resource, object, options),
    );
  }

  mergePatch<T extends KubeObject>(
    resource: Resource<T>,
    namespace: string,
    name: string,
    patch: object,
    options?: CallOptions & { readonly subresource?: Subresource },
  ): Promise<T> {
    return this.#call({ isWrite: true, plural: resource.plural, name }, options, () =>
      this.#client.mergePatch(resource, namespace, name, patch, options),
    );
  }

  delete<T extends KubeObject>(resource: Resource<T>, namespace: string, name: string, options?: DeleteOptions): Promise<void> {
    return this.#call({ isWrite: true, plural: resource.plural, name: undefined }, options, () =>
      this.#client.delete(resource, namespace, name, options),
    );
  }

  createSubresource<T extends KubeObject>(
    resource: Resource<T>,
    namespace: string,
    name: string,
    subresource: Subresource,
    body: object,
    options?: CallOptions,
  ): Promise<void> {
    return this.#call({ isWrite: true, plural: resource.plural, name }, options, () =>
      this.#client.createSubresource(resource, namespace, name, subresource, body, options),
    );
  }

  async #call<R>(about: OwnersCall, options: CallOptions | undefined, call: () => Promise<R>): Promise<R> {
    const owner = this.#owner();
    if (owner === undefined) return call();
    const bytes = this.#onCall(owner, about);
    const units = Math.min(this.#perOwner, 1 + Math.floor(bytes / bytesPerPlace));
    // What is created has come in a body, which counts already.
    if (about.isWrite && about.name !== undefined) await this.#scheduler.store(owner, bytes, options?.signal);
    const release = await this.#shares.wait({ owner }, { units, signal: options?.signal });
    try {
      return await this.#scheduler.run(owner, call);
    } finally {
      release();
      this.#scheduler.chargeBytes(owner, smallAnswerBytes);
      // The answer has the object again.
      if (!about.isWrite) this.#scheduler.chargeBytes(owner, 2 * bytes);
    }
  }
}

/** Length of all texts in a value, in characters. */
function textLengthOf(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 0;
  let length = 0;
  for (const part of Object.values(value)) length += textLengthOf(part);
  return length;
}
