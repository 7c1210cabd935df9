import { ApiError, TransportError } from '@conversation-operator/kube/errors';
import { InterceptedClient } from '@conversation-operator/kube/intercepted-client';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Machine } from '../machine.ts';
import type { Random } from '../random.ts';
import type { Trace } from '../trace.ts';
import type { IoScheduler } from './io-scheduler.ts';

/** fine: milliseconds; shaky: some calls fail, with or without an effect; down: all fail. */
export const apiModes = ['fine', 'shaky', 'down', 'slow'] as const;
export type ApiMode = (typeof apiModes)[number];

export interface FaultyApiOptions {
  readonly scheduler: IoScheduler;
  readonly client: KubeClient;
  readonly random: Random;
  readonly trace: Trace;
  /** Called after each write, before its answer. */
  readonly onWrite: () => Promise<void>;
  /** Called after each list, before its answer. */
  readonly onList: () => void;
}

/** Deadline of a call, as that of the real client. */
const deadlineMs = 10_000;

/** The way to the API server, on which requests and answers are lost and delayed. */
export class FaultyApi {
  mode: ApiMode = 'fine';
  /** Number of the next writes that fail once, whatever the mode. */
  failing = 0;
  /** Sum of the times of all calls of a process, in milliseconds. */
  readonly waitedMs = new Map<Machine, number>();
  readonly #options: FaultyApiOptions;

  constructor(options: FaultyApiOptions) {
    this.#options = options;
  }

  of(machine: Machine): KubeClient {
    const { scheduler, client, trace, onWrite, onList } = this.#options;
    return new InterceptedClient(client, ({ verb, name }, { signal }, run) => {
      signal?.throwIfAborted();
      const isWrite = verb !== 'get' && verb !== 'list';
      const { delayMs, answerMs, fails } = this.#plan(isWrite);
      const sentAt = scheduler.monotonic();
      const settled = Promise.withResolvers<Awaited<ReturnType<typeof run>>>();
      let isOpen = true;
      const end = (deliver: () => void) => {
        if (!isOpen) return;
        isOpen = false;
        const waited = (this.waitedMs.get(machine) ?? 0) + scheduler.monotonic() - sentAt;
        this.waitedMs.set(machine, waited);
        timer.cancel();
        signal?.removeEventListener('abort', onAbort);
        deliver();
      };
      const fail = (error: Error) => end(() => machine.deliver(() => settled.reject(error)));
      const timer = scheduler.after(deadlineMs, () =>
        fail(new TransportError('no answer in time')),
      );
      const onAbort = () => end(() => settled.reject(signal?.reason as Error));
      signal?.addEventListener('abort', onAbort, { once: true });
      const execute = async () => {
        if (fails === 'before') {
          fail(new ApiError(500, { message: 'failed' }));
          return;
        }
        let answer: () => void;
        try {
          const result = await run({});
          trace.note(`${machine.name} ${verb} ${name ?? ''}`);
          if (isWrite) await onWrite();
          if (verb === 'list') onList();
          answer = () => settled.resolve(result);
        } catch (error) {
          trace.note(`${machine.name} ${verb} ${name ?? ''}: ${String(error)}`);
          answer = () => settled.reject(error);
        }
        if (fails === 'after') {
          fail(new TransportError('the answer is lost'));
          return;
        }
        scheduler.after(answerMs, () => end(() => machine.deliver(answer)));
      };
      scheduler.after(delayMs, () => void execute().catch(settled.reject));
      return settled.promise;
    });
  }

  #plan(isWrite: boolean): {
    readonly delayMs: number;
    readonly answerMs: number;
    readonly fails?: 'before' | 'after';
  } {
    const { random } = this.#options;
    const quick = { delayMs: random.between(1, 15), answerMs: random.between(1, 10) };
    if (this.failing > 0 && isWrite) {
      this.failing--;
      return { ...quick, fails: 'before' };
    }
    if (this.mode === 'down') return { ...quick, fails: 'before' };
    if (this.mode === 'slow') return { ...quick, delayMs: random.between(500, 12_000) };
    if (this.mode === 'fine') return quick;
    const dice = random.next();
    if (dice < 0.1) return { ...quick, fails: 'before' };
    if (dice < 0.2) return { ...quick, fails: 'after' };
    if (dice < 0.3) return { ...quick, delayMs: random.between(500, 60_000) };
    if (dice < 0.35) return { ...quick, answerMs: random.between(500, 20_000) };
    return quick;
  }
}
