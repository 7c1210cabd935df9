import type { Clock } from '../kube/clock.ts';

export interface AgentSilenceOptions {
  readonly clock: Clock;
  /** An agent has not answered for so long, in milliseconds. Default 60,000: a busy one stalls for seconds. */
  readonly boundMs?: number;
}

interface Silence {
  /** By the monotonic clock. */
  readonly since: number;
  told: boolean;
}

/**
 * Which agents have been asked again and again and have not answered. Kept by whoever asks them, for whoever says what their
 * sandboxes are. Of this process alone: another one asks anew.
 */
export class AgentSilence {
  readonly #clock: Clock;
  readonly #boundMs: number;
  /** By the uid of the sandbox. */
  readonly #silent = new Map<string, Silence>();

  constructor({ clock, boundMs = 60_000 }: AgentSilenceOptions) {
    this.#clock = clock;
    this.#boundMs = boundMs;
  }

  /** Returns whether it is to be told now, once. */
  failed(sandboxUid: string): boolean {
    const silence = this.#silent.get(sandboxUid) ?? { since: this.#clock.monotonic(), told: false };
    this.#silent.set(sandboxUid, silence);
    if (silence.told || !this.isSilent(sandboxUid)) return false;
    silence.told = true;
    return true;
  }

  /** It has answered, or there is nobody to ask any more. */
  over(sandboxUid: string): void {
    this.#silent.delete(sandboxUid);
  }

  isSilent(sandboxUid: string): boolean {
    const silence = this.#silent.get(sandboxUid);
    return silence !== undefined && this.#clock.monotonic() - silence.since >= this.#boundMs;
  }
}
