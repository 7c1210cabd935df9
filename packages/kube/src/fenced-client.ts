import type { KubeObject, NewObject, ResourceDefinition } from './object.ts';
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
} from './client.ts';
import { TransportError } from './errors.ts';
import type { LeaderElection } from './leader-election.ts';

type Resource<T extends KubeObject> = ResourceDefinition<T>;
export type Fence = Pick<LeaderElection, 'assertLeading' | 'writeDeadlineMs' | 'writes'>;

/**
 * Returns the client of a leader. Reads pass through. A write throws a NotLeadingError unless this process surely holds the lease, both
 * when the write is called and in the turn in which the write is handed to a connection. The client abandons a write before another process
 * can lead.
 */
export const fenced = (client: KubeClient, fence: Fence): KubeClient => new FencedClient(client, fence);

class FencedClient implements KubeClient {
  readonly #client: KubeClient;
  readonly #fence: Fence;

  constructor(client: KubeClient, fence: Fence) {
    this.#client = client;
    this.#fence = fence;
  }

  get<T extends KubeObject>(resource: Resource<T>, namespace: string, name: string, options?: CallOptions): Promise<T> {
    return this.#client.get(resource, namespace, name, options);
  }

  list<T extends KubeObject>(resource: Resource<T>, options?: ListOptions & CallOptions): Promise<ListResult<T>> {
    return this.#client.list(resource, options);
  }

  listMapped<T extends KubeObject, R>(
    resource: Resource<T>,
    map: Mapping<T, R>,
    options?: ListOptions & CallOptions & ShorteningOptions,
  ): Promise<ListResult<R>> {
    return this.#client.listMapped(resource, map, options);
  }

  watch<T extends KubeObject>(resource: Resource<T>, options: WatchOptions): AsyncIterable<WatchEvent<T>> {
    return this.#client.watch(resource, options);
  }

  create<T extends KubeObject>(resource: Resource<T>, object: NewObject<T>, options: CreateOptions = {}): Promise<T> {
    return this.#write(options, (gated) => this.#client.create(resource, object, gated));
  }

  update<T extends KubeObject>(resource: Resource<T>, object: NoInfer<T>, options: CallOptions = {}): Promise<T> {
    return this.#write(options, (gated) => this.#client.update(resource, object, gated));
  }

  updateStatus<T extends KubeObject>(resource: Resource<T>, object: StatusUpdate<T>, options: StatusOptions = {}): Promise<T> {
    return this.#write(options, (gated) => this.#client.updateStatus(resource, object, gated));
  }

  mergePatch<T extends KubeObject>(
    resource: Resource<T>,
    namespace: string,
    name: string,
    patch: object,
    options: CallOptions & { readonly subresource?: Subresource } = {},
  ): Promise<T> {
    return this.#write(options, (gated) => this.#client.mergePatch(resource, namespace, name, patch, gated));
  }

  delete<T extends KubeObject>(resource: Resource<T>, namespace: string, name: string, options: DeleteOptions = {}): Promise<void> {
    return this.#write(options, (gated) => this.#client.delete(resource, namespace, name, gated));
  }

  createSubresource<T extends KubeObject>(
    resource: Resource<T>,
    namespace: string,
    name: string,
    subresource: Subresource,
    body: object,
    options: CallOptions = {},
  ): Promise<void> {
    return this.#write(options, (gated) => this.#client.createSubresource(resource, namespace, name, subresource, body, gated));
  }

  async #write<O extends CallOptions, R>(options: O, call: (gated: O) => Promise<R>): Promise<R> {
    const fence = this.#fence;
    const { writeDeadlineMs, writes } = fence;
    fence.assertLeading();
    const { sent, ended } = writes.begin();
    const beforeSend = () => {
      fence.assertLeading();
      options.beforeSend?.();
      sent();
    };
    try {
      const result = await call({ ...options, deadlineMs: Math.min(options.deadlineMs ?? writeDeadlineMs, writeDeadlineMs), beforeSend });
      ended(true);
      return result;
    } catch (error) {
      ended(!(error instanceof TransportError && error.sent));
      throw error;
    }
  }
}
