import type { Clock, Timer } from '@conversation-operator/base/clock';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { connect } from 'node:net';
import type { Container } from '@conversation-operator/kube/core';

type Probe = NonNullable<Container['readinessProbe']>;

interface ProbeOutcome {
  readonly ok: boolean;
  readonly detail: string;
}

interface ProbeTarget {
  readonly container: Container;
  readonly podIP: string;
}

/** Returns the number of a port, which may be given by its name in the spec of the container. */
export function portOf(port: unknown, container: Container): number | undefined {
  const text = String(port);
  if (/^\d+$/.test(text)) return Number(text);
  return container.ports?.find(({ name }) => name === text)?.containerPort;
}

/** Returns why a probe is not supported; undefined for a supported probe. */
export function probeError(probe: Probe | undefined, container: Container): string | undefined {
  if (probe === undefined) return undefined;
  const target = probe.httpGet ?? probe.tcpSocket;
  if (target === undefined) return 'only httpGet and tcpSocket probes are supported';
  return portOf(target.port, container) === undefined
    ? `a probe names the port ${String(target.port)}, which the container does not have`
    : undefined;
}

/** Runs a check. HTTP status 200 to 399, or a TCP connection, is a success. Never rejects. */
function runProbe(probe: Probe, target: ProbeTarget): Promise<ProbeOutcome> {
  const timeoutMs = (probe.timeoutSeconds ?? 1) * 1000;
  return probe.httpGet === undefined
    ? checkTcp(probe.tcpSocket, target, timeoutMs)
    : checkHttp(probe.httpGet, target, timeoutMs);
}

function checkTcp(
  tcpSocket: Probe['tcpSocket'],
  { container, podIP }: ProbeTarget,
  timeoutMs: number,
): Promise<ProbeOutcome> {
  const host = tcpSocket?.host ?? podIP;
  const port = portOf(tcpSocket?.port, container) ?? 0;
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: timeoutMs });
    const end = (outcome: ProbeOutcome) => {
      socket.destroy();
      resolve(outcome);
    };
    socket.once('connect', () => end({ ok: true, detail: '' }));
    socket.once('timeout', () =>
      end({ ok: false, detail: `dial tcp ${host}:${port}: i/o timeout` }),
    );
    socket.once('error', (error) => end({ ok: false, detail: error.message }));
  });
}

function checkHttp(
  httpGet: NonNullable<Probe['httpGet']>,
  { container, podIP }: ProbeTarget,
  timeoutMs: number,
): Promise<ProbeOutcome> {
  const { host, path = '/', port, scheme, httpHeaders = [] } = httpGet;
  const options = {
    host: host ?? podIP,
    port: portOf(port, container) ?? 0,
    path,
    // Each check opens a connection, because a persistent one could belong to the previous process.
    agent: false,
    rejectUnauthorized: false,
    signal: AbortSignal.timeout(timeoutMs),
    headers: {
      'User-Agent': 'kube-probe/1.34',
      Accept: '*/*',
      ...Object.fromEntries(httpHeaders.map(({ name, value }) => [name, value])),
    },
  };
  return new Promise((resolve) => {
    try {
      const call = scheme === 'HTTPS' ? httpsRequest(options) : httpRequest(options);
      call.once('error', (error) => resolve({ ok: false, detail: error.message }));
      call.once('response', (response) => {
        const { statusCode = 0 } = response;
        response.destroy();
        resolve({
          ok: statusCode >= 200 && statusCode < 400,
          detail: `HTTP probe failed with statuscode: ${statusCode}`,
        });
      });
      call.end();
    } catch (error) {
      // Node.js throws for a path or a header that HTTP does not permit.
      resolve({ ok: false, detail: error instanceof Error ? error.message : String(error) });
    }
  });
}

/** Count of check results. The verdict is undefined until a threshold has been reached. */
interface ProbeCount {
  readonly verdict: boolean | undefined;
  readonly successes: number;
  readonly failures: number;
}

export const noCount: ProbeCount = { verdict: undefined, successes: 0, failures: 0 };

/** Counts a result: consecutive successes make the verdict true, consecutive failures false. */
export function counted(
  count: ProbeCount,
  { ok }: Pick<ProbeOutcome, 'ok'>,
  probe: Pick<Probe, 'successThreshold' | 'failureThreshold'>,
): ProbeCount {
  const successes = ok ? count.successes + 1 : 0;
  const failures = ok ? 0 : count.failures + 1;
  const verdict =
    successes >= (probe.successThreshold ?? 1)
      ? true
      : failures >= (probe.failureThreshold ?? 3)
        ? false
        : count.verdict;
  return { verdict, successes, failures };
}

export type ProbeKind = 'Startup' | 'Liveness' | 'Readiness';

export interface ProberOptions {
  readonly target: ProbeTarget;
  readonly clock: Clock;
  readonly onChange: () => void;
  /** Called when a check fails, with the message that a kubelet reports. */
  readonly onFailure: (kind: ProbeKind, detail: string) => void;
  /** Called to end the container when a liveness or startup probe reaches its failure threshold. */
  readonly onDead: (probe: Probe) => void;
}

/** Delay before the second check of a startup or readiness probe; it doubles until a success. */
const firstCheckDelayMs = 100;

/** Maximum time by which a timer fires too early, as measured by the monotonic clock. */
const timerSlackMs = 5;

/**
 * Probes of one run of a container. The prober works like a kubelet's, but checks more often until
 * the container is first ready; an additional check counts only when it succeeds.
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
    else
      this.#schedule('Startup', startupProbe, (verdict) => this.#onStartup(startupProbe, verdict));
  }

  get started(): boolean {
    return this.#started;
  }

  get ready(): boolean {
    return this.#ready;
  }

  /** Ends the checks. `started` and `ready` keep their values. */
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
    const checksEarly = kind !== 'Liveness';
    let count = noCount;
    let earlyMs = firstCheckDelayMs;
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
      const extra =
        checksEarly &&
        count.verdict !== true &&
        countedAt !== undefined &&
        at - countedAt < periodMs - timerSlackMs;
      if (ok || !extra) {
        countedAt = at;
        const { verdict } = count;
        count = counted(count, { ok }, probe);
        if (!ok) onFailure(kind, detail);
        if (count.verdict !== undefined && count.verdict !== verdict) onVerdict(count.verdict);
        if (this.#isOver(kind, count.verdict)) return;
      }
      const waitMs = checksEarly && count.verdict !== true ? Math.min(periodMs, earlyMs) : periodMs;
      earlyMs *= 2;
      next(Math.max(0, waitMs - (clock.monotonic() - at)));
    };
    next(
      Math.max(0, (probe.initialDelaySeconds ?? 0) * 1000 - (clock.monotonic() - this.#beganAt)),
    );
  }

  #isOver(kind: ProbeKind, verdict: boolean | undefined): boolean {
    return this.#stopped || (kind === 'Startup' && verdict !== undefined);
  }
}
