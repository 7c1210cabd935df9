import type { Clock } from '@conversation-operator/kube/clock';

export interface AgentSilenceOptions {
  readonly clock: Clock;
  /** Nothing has been answered for so long, in milliseconds. Default 60,000: a busy one stalls for seconds. */
  readonly boundMs?: number;
}

interface Silence {
  /** By the monotonic clock. */
  readonly since: number;
  told: boolean;
}

/**
 * Who has been asked again and again and has not answered: agents, by the uid of their sandbox, or conversations of whom agents say
 * nothing that can be understood. Kept by whoever asks, for whoever says what they are. Of this process alone: another one asks anew.
 */
export class AgentSilence {
  readonly #clock: Clock;
  readonly #boundMs: number;
  readonly #silent = new Map<string, Silence>();

  constructor({ clock, boundMs = 60_000 }: AgentSilenceOptions) {
    this.#clock = clock;
    this.#boundMs = boundMs;
  }

  /** Returns whether it is to be told now, once. */
  failed(key: string): boolean {
    const silence = this.#silent.get(key) ?? { since: this.#clock.monotonic(), told: false };
    this.#silent.set(key, silence);
    if (silence.told || !this.isSilent(key)) return false;
    silence.told = true;
    return true;
  }

  /** It has answered, or there is nobody to ask any more. */
  over(key: string): void {
    this.#silent.delete(key);
  }

  isSilent(key: string): boolean {
    const silence = this.#silent.get(key);
    return silence !== undefined && this.#clock.monotonic() - silence.since >= this.#boundMs;
  }
}
