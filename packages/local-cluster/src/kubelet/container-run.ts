import { randomUUID } from 'node:crypto';
import type { Clock, Timer } from '@conversation-operator/base/clock';
import type { Container } from '@conversation-operator/kube/core';
import type { ContainerLog } from './container-log.ts';
import type { Launch } from './launch.ts';
import type { ProbeOutcome } from './probe.ts';
import { Prober, type ProbeKind } from './prober.ts';
import type { ProcessExit, ProcessRunner, RunningProcess } from './process-runner.ts';

export interface ContainerRunOptions {
  /** Unique id of the run and of every process that the run starts. */
  readonly runId: string;
  readonly container: Container;
  readonly launch: Launch;
  readonly podIP: string;
  readonly graceMs: number;
  readonly runner: ProcessRunner;
  readonly log: ContainerLog;
  readonly clock: Clock;
  /** Called when `started` or `ready` may have changed. */
  readonly onChange: () => void;
  readonly onUnhealthy: (message: string) => void;
}

const maxExecOutputChars = 1024;

/** One run of a container: its process, its probes, and its termination. */
export class ContainerRun {
  readonly exited: Promise<ProcessExit>;
  readonly #process: RunningProcess;
  readonly #clock: Clock;
  readonly #prober: Prober;
  #over = false;
  #deadline: { readonly atMs: number; readonly timer: Timer } | undefined;

  /** Rejects with the error of the system when the program cannot be started. */
  static async start(options: ContainerRunOptions): Promise<ContainerRun> {
    const { runner, runId, launch, log } = options;
    await log.begin();
    try {
      return new ContainerRun(
        options,
        await runner.start({ ...launch, runId, output: (chunk) => log.write(chunk) }),
      );
    } catch (error) {
      await log.end();
      throw error;
    }
  }

  private constructor(options: ContainerRunOptions, process: RunningProcess) {
    const { clock, container, podIP, graceMs, log, onChange, onUnhealthy } = options;
    this.#process = process;
    this.#clock = clock;
    this.#prober = new Prober({
      target: {
        container,
        podIP,
        exec: (command, timeoutMs) => this.#exec(options, command, timeoutMs),
      },
      clock,
      onChange,
      onFailure: (kind: ProbeKind, detail) => onUnhealthy(`${kind} probe failed: ${detail}`),
      onDead: ({ terminationGracePeriodSeconds }) =>
        this.terminate(
          terminationGracePeriodSeconds === undefined
            ? graceMs
            : terminationGracePeriodSeconds * 1000,
        ),
    });
    this.exited = process.exited.then(async (exit) => {
      this.#over = true;
      this.#prober.stop();
      this.#deadline?.timer.cancel();
      await log.end();
      return exit;
    });
  }

  get started(): boolean {
    return this.#prober.started;
  }

  get ready(): boolean {
    return this.#prober.ready;
  }

  /**
   * Sends SIGTERM, and SIGKILL after the grace period. A repeated call can only shorten the grace
   * period.
   */
  terminate(graceMs: number): void {
    if (this.#over) return;
    const atMs = this.#clock.monotonic() + graceMs;
    if (this.#deadline !== undefined && this.#deadline.atMs <= atMs) return;
    if (this.#deadline === undefined) this.#process.terminate();
    this.#deadline?.timer.cancel();
    this.#deadline = { atMs, timer: this.#clock.after(graceMs, () => this.#process.kill()) };
  }

  kill(): void {
    this.#process.kill();
  }

  async #exec(
    { runner, launch, runId, clock }: ContainerRunOptions,
    command: readonly string[],
    timeoutMs: number,
  ): Promise<ProbeOutcome> {
    let printed = '';
    try {
      const process = await runner.start({
        ...launch,
        command,
        // The command has an id of its own, because its end must not end the container.
        runId: `${runId}.${randomUUID()}`,
        output: (chunk) => {
          if (printed.length < maxExecOutputChars) printed += Buffer.from(chunk).toString();
          return Promise.resolve();
        },
      });
      const timer = clock.after(timeoutMs, () => process.kill());
      void this.exited.then(() => process.kill());
      const { exitCode } = await process.exited;
      timer.cancel();
      return { ok: exitCode === 0, detail: printed.slice(0, maxExecOutputChars).trim() };
    } catch (error) {
      return { ok: false, detail: error instanceof Error ? error.message : String(error) };
    }
  }
}
