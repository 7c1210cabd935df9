import type { CallOptions, KubeClient } from './client.ts';
import { TransportError } from './errors.ts';
import type { LeaderElection } from './leader-election.ts';

export interface ClientCall {
  readonly verb: 'get' | 'list' | 'create' | 'update' | 'patch' | 'delete' | 'createSubresource';
  readonly plural: string;
  /** Name of the object; undefined for a list and a creation. */
  readonly name: string | undefined;
  readonly object?: object;
}

/** Handles a call: calls `run`, possibly later or with changed options, or rejects the call. */
export type Interceptor = <R>(
  call: ClientCall,
  options: CallOptions,
  run: (changed?: CallOptions) => Promise<R>,
) => Promise<R>;

/** A client whose calls, except watches, go through an interceptor. */
export class InterceptedClient implements KubeClient {
  readonly #client: KubeClient;
  readonly #intercept: Interceptor;

  constructor(client: KubeClient, intercept: Interceptor) {
    this.#client = client;
    this.#intercept = intercept;
  }

  readonly get: KubeClient['get'] = (resource, namespace, name, options) =>
    this.#call('get', resource, { name }, options, (changed) =>
      this.#client.get(resource, namespace, name, changed),
    );

  readonly list: KubeClient['list'] = (resource, options) =>
    this.#call('list', resource, {}, options, (changed) => this.#client.list(resource, changed));

  readonly listMapped: KubeClient['listMapped'] = (resource, map, options) =>
    this.#call('list', resource, {}, options, (changed) =>
      this.#client.listMapped(resource, map, changed),
    );

  readonly watch: KubeClient['watch'] = (resource, options) =>
    this.#client.watch(resource, options);

  readonly create: KubeClient['create'] = (resource, object, options) =>
    this.#call('create', resource, { object }, options, (changed) =>
      this.#client.create(resource, object, changed),
    );

  readonly update: KubeClient['update'] = (resource, object, options) =>
    this.#call('update', resource, { name: object.metadata.name, object }, options, (changed) =>
      this.#client.update(resource, object, changed),
    );

  readonly updateStatus: KubeClient['updateStatus'] = (resource, object, options) =>
    this.#call('update', resource, { name: object.metadata.name, object }, options, (changed) =>
      this.#client.updateStatus(resource, object, changed),
    );

  readonly mergePatch: KubeClient['mergePatch'] = (resource, namespace, name, patch, options) =>
    this.#call('patch', resource, { name }, options, (changed) =>
      this.#client.mergePatch(resource, namespace, name, patch, changed),
    );

  readonly delete: KubeClient['delete'] = (resource, namespace, name, options) =>
    this.#call('delete', resource, { name }, options, (changed) =>
      this.#client.delete(resource, namespace, name, changed),
    );

  readonly createSubresource: KubeClient['createSubresource'] = (resource, ...parts) => {
    const [namespace, name, subresource, body, options] = parts;
    return this.#call('createSubresource', resource, { name }, options, (changed) =>
      this.#client.createSubresource(resource, namespace, name, subresource, body, changed),
    );
  };

  #call<O extends CallOptions, R>(
    verb: ClientCall['verb'],
    { plural }: { readonly plural: string },
    { name, object }: { readonly name?: string; readonly object?: object },
    options: O | undefined,
    run: (options: O | undefined) => Promise<R>,
  ): Promise<R> {
    const call = { verb, plural, name, ...(object === undefined ? {} : { object }) };
    return this.#intercept(call, options ?? {}, (changed) =>
      run(changed === undefined ? options : ({ ...options, ...changed } as O)),
    );
  }
}

type Fence = Pick<LeaderElection, 'assertLeading' | 'writeDeadlineMs' | 'writes'>;

/**
 * Returns a client for the leader. Reads pass through. A write throws a NotLeadingError unless this
 * process is certain to hold the Lease, both at the call and in the turn of the event loop in which
 * the request is handed to a connection. A write times out before another process can lead.
 */
export const fenced = (client: KubeClient, fence: Fence): KubeClient =>
  new InterceptedClient(client, ({ verb }, options, run) =>
    verb === 'get' || verb === 'list' ? run() : fencedWrite(fence, options, run),
  );

async function fencedWrite<R>(
  fence: Fence,
  options: CallOptions,
  run: (changed: CallOptions) => Promise<R>,
): Promise<R> {
  const { writeDeadlineMs, writes } = fence;
  fence.assertLeading();
  const { sent, ended } = writes.begin();
  const beforeSend = () => {
    fence.assertLeading();
    options.beforeSend?.();
    sent();
  };
  try {
    const result = await run({
      deadlineMs: Math.min(options.deadlineMs ?? writeDeadlineMs, writeDeadlineMs),
      beforeSend,
    });
    ended(true);
    return result;
  } catch (error) {
    ended(!(error instanceof TransportError && error.sent));
    throw error;
  }
}
