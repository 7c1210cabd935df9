import type { Clock, Timer } from '@conversation-operator/kube/clock';
import { counted, noCount } from './probe-counter.ts';
import { runProbe, type Probe, type ProbeTarget } from './probe.ts';

export type ProbeKind = 'Startup' | 'Liveness' | 'Readiness';

export interface ProberOptions {
  readonly target: ProbeTarget;
  readonly clock: Clock;
  /** `started` or `ready` may have changed. */
  readonly onChange: () => void;
  /** A check failed, with the kubelet's words for it. */
  readonly onFailure: (kind: ProbeKind, detail: string) => void;
  /** Liveness or startup has failed too often: the container is to be ended. */
  readonly onDead: (probe: Probe) => void;
}

/** Before the first success of a startup or readiness probe, looks are taken this often, doubling, so that a quick start shows. */
const firstLookMs = 100;

/** Timers may fire a little before the monotonic clock says so. */
const timerSlackMs = 5;

/**
 * The probes of one run of a container. Like a kubelet's, except that it looks more often until a container is ready for the first
 * time; these extra looks count only when they succeed.
 */
export class Prober {
  readonly #options: ProberOptions;
  readonly #beganAt: number;
  readonly #timers = new Map<ProbeKind, Timer>();
  #started = false;
  #ready = false;
  #stopped = false;

  constructor(options: ProberOptions) {
    this.#options = options;
    this.#beganAt = options.clock.monotonic();
    const { startupProbe } = options.target.container;
    if (startupProbe === undefined) this.#begin();
    else this.#schedule('Startup', startupProbe, (verdict) => this.#onStartup(startupProbe, verdict));
  }

  get started(): boolean {
    return this.#started;
  }

  get ready(): boolean {
    return this.#ready;
  }

  /** No more checks. What has been found stays. */
  stop(): void {
    this.#stopped = true;
    this.#timers.forEach((timer) => timer.cancel());
  }

  #begin(): void {
    const { livenessProbe, readinessProbe } = this.#options.target.container;
    this.#started = true;
    this.#ready = readinessProbe === undefined;
    if (livenessProbe !== undefined) {
      this.#schedule('Liveness', livenessProbe, (verdict) => {
        if (!verdict) this.#dead(livenessProbe);
      });
    }
    if (readinessProbe !== undefined) {
      this.#schedule('Readiness', readinessProbe, (verdict) => {
        this.#ready = verdict;
        this.#options.onChange();
      });
    }
  }

  #onStartup(probe: Probe, verdict: boolean): void {
    if (!verdict) {
      this.#dead(probe);
      return;
    }
    this.#timers.delete('Startup');
    this.#begin();
    this.#options.onChange();
  }

  #dead(probe: Probe): void {
    this.stop();
    this.#options.onDead(probe);
  }

  #schedule(kind: ProbeKind, probe: Probe, onVerdict: (verdict: boolean) => void): void {
    const { clock, target, onFailure } = this.#options;
    const periodMs = (probe.periodSeconds ?? 10) * 1000;
    const looksEarly = kind !== 'Liveness';
    let count = noCount;
    let earlyMs = firstLookMs;
    let countedAt: number | undefined;
    const next = (delayMs: number) => {
      this.#timers.set(
        kind,
        clock.after(delayMs, () => void check()),
      );
    };
    const check = async () => {
      const at = clock.monotonic();
      const { ok, detail } = await runProbe(probe, target);
      if (this.#stopped) return;
      const extra = looksEarly && count.verdict !== true && countedAt !== undefined && at - countedAt < periodMs - timerSlackMs;
      if (ok || !extra) {
        countedAt = at;
        const { verdict } = count;
        count = counted(count, ok, probe);
        if (!ok) onFailure(kind, detail);
        if (count.verdict !== undefined && count.verdict !== verdict) onVerdict(count.verdict);
        if (this.#isOver(kind, count.verdict)) return;
      }
      const waitMs = looksEarly && count.verdict !== true ? Math.min(periodMs, earlyMs) : periodMs;
      earlyMs *= 2;
      next(Math.max(0, waitMs - (clock.monotonic() - at)));
    };
    next(Math.max(0, (probe.initialDelaySeconds ?? 0) * 1000 - (clock.monotonic() - this.#beganAt)));
  }

  #isOver(kind: ProbeKind, verdict: boolean | undefined): boolean {
    return this.#stopped || (kind === 'Startup' && verdict !== undefined);
  }
}
