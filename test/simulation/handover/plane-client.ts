import type { ControlPlane } from '@conversation-operator/local-cluster/control-plane';
import type { KubeClient } from '@conversation-operator/kube/client';
import { ApiError, TransportError, type StatusBody } from '@conversation-operator/kube/errors';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import type { Random } from '../random.ts';

/** A request that waits until the model lets it happen. */
interface Waiting {
  readonly what: string;
  readonly go: () => Promise<void>;
}

/** Chances of faults of each request; 0 once the model is calm. */
export interface Chances {
  lost: number;
  answerLost: number;
  late: number;
}

type Client = Pick<KubeClient, 'create' | 'delete' | 'get' | 'mergePatch' | 'updateStatus'>;

/**
 * Lets the requests of all processes happen one at a time, in an order that the seed determines:
 * requests and answers are lost, and writes happen after their caller has given up.
 */
export class Network {
  readonly chances: Chances = { lost: 0, answerLost: 0, late: 0 };
  readonly #plane: ControlPlane;
  readonly #random: Random;
  readonly #waiting: Waiting[] = [];
  /** Called after each request that the server has executed, with its caller. */
  onExecuted: (actor: string) => Promise<void> = () => Promise.resolve();
  readonly lines: string[] = [];

  constructor(plane: ControlPlane, random: Random) {
    this.#plane = plane;
    this.#random = random;
  }

  get pending(): number {
    return this.#waiting.length;
  }

  /** Lets one of the waiting requests happen. */
  async step(): Promise<void> {
    const index = this.#random.whole(0, this.#waiting.length - 1);
    const [one] = this.#waiting.splice(index, 1);
    if (one !== undefined) await one.go();
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }

  /** The client of one process. Once `isDead`, the process gets no answer any more. */
  client(actor: string, isDead: () => boolean): Client {
    const call = async <T>(
      method: string,
      resource: ResourceDefinition<KubeObject>,
      path: readonly string[],
      body?: unknown,
    ): Promise<T> =>
      new Promise<T>((resolve, reject) => {
        const answer = (act: () => void) => {
          if (!isDead()) act();
        };
        const execute = async (): Promise<T> => {
          const result = await this.#execute(method, pathOf(resource, path), body);
          this.lines.push(
            `${actor} ${method} ${path.join('/')} ${JSON.stringify(body ?? null)} -> ${result.status}`,
          );
          if (method !== 'GET') await this.onExecuted(actor);
          if (result.status >= 400) throw new ApiError(result.status, result.body as StatusBody);
          return result.body as T;
        };
        const go = async (): Promise<void> => {
          const { lost, answerLost, late } = this.chances;
          const dice = this.#random.next();
          if (dice < lost) {
            answer(() => reject(new TransportError('lost', { sent: true })));
          } else if (dice < lost + late && method !== 'GET') {
            answer(() => reject(new TransportError('late', { sent: true })));
            this.#waiting.push({ what: 'late', go: () => execute().then(nothing, nothing) });
          } else if (dice < lost + late + answerLost) {
            await execute().then(nothing, nothing);
            answer(() => reject(new TransportError('no answer', { sent: true })));
          } else {
            await execute().then(
              (value) => answer(() => resolve(value)),
              (error: unknown) =>
                answer(() => reject(error instanceof Error ? error : new Error(String(error)))),
            );
          }
        };
        this.#waiting.push({ what: `${actor} ${method}`, go });
      });
    return {
      get: (resource, namespace, name) => call('GET', resource, [namespace, name]),
      create: (resource, object) =>
        call('POST', resource, [object.metadata.namespace ?? ''], object),
      mergePatch: (resource, namespace, name, patch, options) =>
        call('PATCH', resource, [namespace, name, ...part(options?.subresource)], patch),
      updateStatus: (resource, object) =>
        call(
          'PUT',
          resource,
          [object.metadata.namespace ?? '', object.metadata.name, 'status'],
          object,
        ),
      delete: async (resource, namespace, name, { uid, resourceVersion } = {}) => {
        await call('DELETE', resource, [namespace, name], {
          kind: 'DeleteOptions',
          apiVersion: 'v1',
          preconditions: { uid, resourceVersion },
        });
      },
    };
  }

  /** Executes a request at once and without faults. */
  async direct<T>(
    method: string,
    resource: ResourceDefinition<KubeObject>,
    path: readonly string[],
    body?: unknown,
  ): Promise<T> {
    const result = await this.#execute(method, pathOf(resource, path), body);
    if (result.status >= 400) throw new ApiError(result.status, result.body as StatusBody);
    return result.body as T;
  }

  async list<T extends KubeObject>(resource: ResourceDefinition<T>): Promise<readonly T[]> {
    const list = await this.direct<{ readonly items: readonly T[] }>('GET', resource, ['default']);
    return list.items;
  }

  async #execute(
    method: string,
    path: string,
    body: unknown,
  ): Promise<{ readonly status: number; readonly body: unknown }> {
    const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    const response = await this.#plane.handle({
      method,
      path,
      headers: { 'content-type': type },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = response.body;
    return {
      status: response.status,
      body: typeof text === 'string' ? (JSON.parse(text) as unknown) : text,
    };
  }
}

const nothing = (): void => undefined;
const part = (subresource: string | undefined): readonly string[] =>
  subresource === undefined ? [] : [subresource];

const pathOf = (
  { group, version, plural }: ResourceDefinition<KubeObject>,
  [namespace = '', ...rest]: readonly string[],
): string =>
  [
    group === '' ? '/api' : `/apis/${group}`,
    version,
    'namespaces',
    namespace,
    plural,
    ...rest,
  ].join('/');
