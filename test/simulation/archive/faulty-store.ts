import {
  type ObjectStore,
  StoreError,
  type StoreErrorCode,
} from '@conversation-operator/object-store/object-store';
import type { Machine } from '../machine.ts';
import type { Random } from '../random.ts';
import type { Trace } from '../trace.ts';
import type { IoScheduler } from './io-scheduler.ts';

/**
 * States of the store:
 *
 * - fine: every call succeeds within milliseconds.
 * - shaky: some calls fail before or after their effect, some take seconds.
 * - down: every call fails at once.
 * - denied, full: writes fail.
 * - hanging: no call gets an answer; writes may take effect minutes later.
 * - slow: every call takes seconds; slowDeletes, slowLists: such a call does.
 */
export const storeModes = [
  'fine',
  'shaky',
  'down',
  'denied',
  'full',
  'hanging',
  'slow',
  'slowDeletes',
  'slowLists',
] as const;
export type StoreMode = (typeof storeModes)[number];

type Verb = 'put' | 'get' | 'delete' | 'list';

interface Plan {
  readonly delayMs: number;
  readonly failure?: { readonly code: StoreErrorCode; readonly when: 'before' | 'after' };
  readonly answers?: boolean;
  /** Whether the effect comes although the caller has given up, or has ended. */
  readonly isLate?: boolean;
  /** Time until the same write has its effect once more. */
  readonly againMs?: number;
}

export interface FaultyStoreOptions {
  readonly scheduler: IoScheduler;
  readonly store: ObjectStore;
  readonly random: Random;
  readonly trace: Trace;
  /** Called after the effect of a write. */
  readonly onWrite: (verb: 'put' | 'delete', keys: readonly string[]) => void;
}

/** Deadline of a call, as that of the real stores. */
const deadlineMs = 10_000;

/** A store whose calls fail, hang and arrive late, before a real one. */
export class FaultyStore {
  mode: StoreMode = 'fine';
  /** Number of the next calls that fail once, whatever the mode. */
  failing = 0;
  readonly #options: FaultyStoreOptions;

  constructor(options: FaultyStoreOptions) {
    this.#options = options;
  }

  /** The store as a process sees it. */
  of(machine: Machine): ObjectStore {
    const { store } = this.#options;
    return {
      put: (key, body, { signal } = {}) => {
        const copy = Buffer.from(body);
        return this.#call(machine, 'put', [key], signal, () => store.put(key, copy));
      },
      get: (key, { signal, range } = {}) =>
        this.#call(machine, 'get', [key], signal, () => store.get(key, { range })),
      delete: (keys, { signal } = {}) =>
        this.#call(machine, 'delete', keys, signal, () => store.delete(keys)),
      list: ({ signal, ...options }) =>
        this.#call(machine, 'list', [options.prefix], signal, () => store.list(options)),
      close: () => Promise.resolve(),
    };
  }

  #call<T>(
    machine: Machine,
    verb: Verb,
    keys: readonly string[],
    signal: AbortSignal | undefined,
    effect: () => Promise<T>,
  ): Promise<T> {
    const { scheduler, trace } = this.#options;
    if (signal?.aborted === true) return Promise.reject(signal.reason as Error);
    const plan = this.#plan(verb);
    const what = `${machine.name} ${verb} ${keys.map(shortKey).join(' ')}`;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    let isOpen = true;
    const end = (deliver: () => void) => {
      if (!isOpen) return;
      isOpen = false;
      timer.cancel();
      signal?.removeEventListener('abort', onAbort);
      deliver();
    };
    const fail = (code: StoreErrorCode) => {
      trace.note(`${what}: ${code}`);
      end(() => machine.deliver(() => reject(new StoreError(code, `The store: ${code}`))));
    };
    const timer = scheduler.after(deadlineMs, () => fail('timeout'));
    const onAbort = () => end(() => reject(signal?.reason as Error));
    signal?.addEventListener('abort', onAbort, { once: true });
    const run = async () => {
      if (plan.failure?.when === 'before') {
        fail(plan.failure.code);
        return;
      }
      const isWanted = isOpen && machine.alive;
      if (!isWanted && plan.isLate !== true) return;
      const result = await this.#effect(verb, keys, isWanted ? what : `${what} (late)`, effect);
      if (plan.failure !== undefined) fail(plan.failure.code);
      else if (plan.answers !== false) end(() => machine.deliver(() => resolve(result)));
    };
    scheduler.after(plan.delayMs, () => void run().catch(reject));
    if (plan.againMs !== undefined)
      scheduler.after(
        plan.delayMs + plan.againMs,
        () => void this.#effect(verb, keys, `${what} (again)`, effect).catch(reject),
      );
    return promise;
  }

  async #effect<T>(
    verb: Verb,
    keys: readonly string[],
    what: string,
    effect: () => Promise<T>,
  ): Promise<T> {
    const { scheduler, trace, onWrite } = this.#options;
    const result = await scheduler.io(effect);
    trace.note(what);
    if (verb === 'put' || verb === 'delete') onWrite(verb, keys);
    return result;
  }

  #plan(verb: Verb): Plan {
    const { random } = this.#options;
    const isWrite = verb === 'put' || verb === 'delete';
    const quick = random.between(1, 20);
    const isLate = random.chance(0.6);
    if (this.failing > 0) {
      this.failing--;
      return { delayMs: quick, failure: { code: 'unavailable', when: 'before' } };
    }
    switch (this.mode) {
      case 'fine':
        return { delayMs: quick };
      case 'down':
        return { delayMs: quick, failure: { code: 'unavailable', when: 'before' } };
      case 'denied':
        return isWrite
          ? { delayMs: quick, failure: { code: 'denied', when: 'before' } }
          : { delayMs: quick };
      case 'full':
        return verb === 'put'
          ? { delayMs: quick, failure: { code: 'unavailable', when: 'before' } }
          : { delayMs: quick };
      case 'hanging':
        return { delayMs: random.between(5_000, 300_000), answers: false, isLate };
      case 'slow':
        return { delayMs: random.between(500, 9_000), isLate };
      case 'slowDeletes':
        return { delayMs: verb === 'delete' ? random.between(5_000, 90_000) : quick, isLate };
      case 'slowLists':
        return { delayMs: verb === 'list' ? random.between(500, 9_000) : quick };
      case 'shaky': {
        const dice = random.next();
        const againMs = isWrite && random.chance(0.1) ? random.between(10, 240_000) : undefined;
        const plan: Plan = {
          delayMs: quick,
          isLate,
          ...(againMs === undefined ? {} : { againMs }),
        };
        if (dice < 0.08) return { ...plan, failure: { code: 'unavailable', when: 'before' } };
        if (dice < 0.16) return { ...plan, failure: { code: 'unavailable', when: 'after' } };
        if (dice < 0.22) return { ...plan, delayMs: random.between(1_000, 200_000) };
        if (dice < 0.26) return { ...plan, answers: false };
        return plan;
      }
    }
  }
}

const shortKey = (key: string): string => key.replace(/([0-9]{10}-[0-9a-f]{4})[0-9a-f]{20}/, '$1');
