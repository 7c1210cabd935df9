import type { CallOptions, KubeClient } from '../src/client.ts';
import type { Clock, Timer } from '@conversation-operator/base/clock';
import { ApiError, TransportError } from '../src/errors.ts';
import type { Lease } from '../src/core.ts';
import type { VirtualClock } from '../../../test/support/virtual-clock.ts';

/** A process that may be stopped, as by SIGSTOP or a busy machine: time passes, nothing runs. */
export class ProcessClock implements Clock {
  readonly #clock: VirtualClock;
  #pausedUntil = 0;

  constructor(clock: VirtualClock) {
    this.#clock = clock;
  }

  now(): number {
    return this.#clock.now();
  }

  monotonic(): number {
    return this.#clock.monotonic();
  }

  after(delayMs: number, callback: () => void): Timer {
    const arm = (ms: number): Timer =>
      this.#clock.after(ms, () => {
        const left = this.#pausedUntil - this.monotonic();
        if (left > 0) timer = arm(left);
        else callback();
      });
    let timer = arm(delayMs);
    return { cancel: () => timer.cancel() };
  }

  pause(forMs: number): void {
    this.#pausedUntil = this.monotonic() + forMs;
  }
}

const apiError = (status: number, reason: string) =>
  new ApiError(status, { code: status, reason, message: reason });

export interface NetworkFaults {
  /** How long a message is under way; drawn twice for each call. */
  readonly delayMs: () => number;
  /** Whether a message about the object of this name is lost; drawn twice for each call. */
  readonly lost: (name?: string) => boolean;
}

export const noFaults: NetworkFaults = { delayMs: () => 1, lost: () => false };

/** Leases, and objects that leaders write, behind a network with faults. */
export class LeaseServer {
  readonly leases = new Map<string, Lease>();
  /** Called as a write other than to the lease is executed. */
  onWrite: (writer: string) => void = () => undefined;
  #version = 0;

  get lease(): Lease | undefined {
    return this.leases.get('operator');
  }

  /** A process's client. A call ends at its deadline; a request not executed by then never is. */
  clientOf(writer: string, clock: Clock, network: { faults: NetworkFaults }): KubeClient {
    const call = <R>(options: CallOptions, execute: () => R, name?: string): Promise<R> =>
      new Promise((resolve, reject) => {
        const { deadlineMs = 10_000 } = options;
        const deadline = clock.monotonic() + deadlineMs;
        options.beforeSend?.();
        const timer = clock.after(deadlineMs, () => {
          reject(new TransportError('no answer'));
        });
        options.signal?.addEventListener('abort', () => {
          reject(new TransportError('aborted'));
        });
        const deliver = (settle: () => void): void => {
          if (network.faults.lost(name)) return;
          clock.after(network.faults.delayMs(), () => {
            timer.cancel();
            settle();
          });
        };
        if (network.faults.lost(name)) return;
        // The request is on the wire: that the process sleeps doesn't hold it back, so this runs by
        // the server's time.
        this.#clock.after(network.faults.delayMs(), () => {
          if (this.#clock.monotonic() >= deadline) return;
          let settle: () => void;
          try {
            const result = execute();
            settle = () => resolve(result);
          } catch (error) {
            settle = () => reject(error instanceof Error ? error : new Error(String(error)));
          }
          deliver(settle);
        });
      });
    const partial = {
      get: (_resource: unknown, _namespace: string, name: string, options: CallOptions = {}) =>
        call(options, () => this.#stored(name), name),
      list: (_resource: unknown, options: CallOptions = {}) =>
        call(options, () => ({ items: [...this.leases.values()] })),
      create: (_resource: unknown, object: Lease, options: CallOptions = {}) => {
        const { name } = object.metadata;
        const execute = () => {
          if (this.leases.has(name)) throw apiError(409, 'AlreadyExists');
          return this.#store(object);
        };
        return call(options, execute, name);
      },
      update: (_resource: unknown, object: Lease, options: CallOptions = {}) => {
        const { name, resourceVersion } = object.metadata;
        const execute = () => {
          if (this.#stored(name).metadata.resourceVersion !== resourceVersion)
            throw apiError(409, 'Conflict');
          return this.#store(object);
        };
        return call(options, execute, name);
      },
      mergePatch: (
        _resource: unknown,
        _namespace: string,
        _name: string,
        _patch: unknown,
        options: CallOptions = {},
      ) => call(options, () => this.onWrite(writer)),
    };
    return partial as unknown as KubeClient;
  }

  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  #stored(name: string): Lease {
    const lease = this.leases.get(name);
    if (lease === undefined) throw apiError(404, 'NotFound');
    return lease;
  }

  #store(object: Lease): Lease {
    this.#version++;
    const stored = {
      ...object,
      metadata: { ...object.metadata, uid: 'lease', resourceVersion: String(this.#version) },
    };
    this.leases.set(object.metadata.name, stored);
    return stored;
  }
}
