import { timestampOf } from '@conversation-operator/kube/object';
import { randomUUID } from 'node:crypto';
import type { Logger } from '@conversation-operator/base/logger';
import type { Container, Pod } from '@conversation-operator/kube/core';
import {
  afterRun,
  goDuration,
  noBackOff,
  raised,
  type BackOff,
  Waiting,
  containersOf,
  killedExitCode,
  recordsFromStatus,
  type ContainerRecord,
  type ContainerState,
  type Records,
  type Terminated,
} from './container-record.ts';
import { ContainerConfigError } from './container-environment.ts';
import { ContainerLog } from './container-log.ts';
import { ContainerRun, UnknownImageError, launchOf, type Launch } from './container-run.ts';
import { type NodeFolder, hostIP } from './node.ts';
import type { NodeSettings, ProcessRunner } from './options.ts';

export interface PodContainersOptions {
  readonly settings: NodeSettings;
  readonly runner: ProcessRunner;
  readonly folder: NodeFolder;
  readonly onChange: () => void;
}

const startErrorExitCode = 128;
const defaultGraceSeconds = 30;

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

const lastOf = ({ state, last }: ContainerRecord): Pick<ContainerRecord, 'last'> => {
  const run = state.kind === 'terminated' ? state.run : last;
  return run === undefined ? {} : { last: run };
};

export class PodContainers {
  pod: Pod;
  readonly #options: PodContainersOptions;
  readonly #logger: Logger;
  readonly #records: Map<string, ContainerRecord>;
  readonly #runs = new Map<string, ContainerRun>();
  readonly #ends = new Set<Promise<void>>();
  readonly #logs = new Map<string, ContainerLog>();
  readonly #claimUids = new Set<string>();
  /** Back-off of containers for which `launchOf` has failed. */
  readonly #preparationBackOffs = new Map<string, BackOff>();
  #stopping = false;

  constructor(pod: Pod, logger: Logger, options: PodContainersOptions) {
    const { settings, folder } = options;
    this.pod = pod;
    this.#options = options;
    this.#logger = logger;
    this.#records = recordsFromStatus(pod, { iso: this.#now(), ms: settings.clock.monotonic() });
    for (const { name } of containersOf(pod)) {
      const path = folder.log(pod.metadata.uid, name);
      this.#logs.set(name, new ContainerLog({ path, maxBytes: settings.maxLogBytes, logger }));
    }
  }

  get records(): Records {
    return this.#records;
  }

  /** Uids of the claims whose volumes the containers have mounted. */
  get claimUids(): ReadonlySet<string> {
    return this.#claimUids;
  }

  get isRunning(): boolean {
    return this.#runs.size > 0;
  }

  log(name: string): ContainerLog | undefined {
    return this.#logs.get(name);
  }

  /** Starts a container, or records why the container can't be started. */
  async start(name: string, podIP: string): Promise<void> {
    const container = containersOf(this.pod).find((candidate) => candidate.name === name);
    if (container === undefined) return;
    const { settings, folder } = this.#options;
    try {
      const launch = await launchOf(this.pod, container, { settings, folder, podIP, hostIP });
      this.#preparationBackOffs.delete(name);
      await this.#run(container, launch, podIP);
    } catch (error) {
      this.#onPreparationFailure(name, error);
    }
  }

  /** Terminates all containers, by default within the grace period of the pod. */
  terminateAll(graceMs = this.#graceMs()): void {
    this.#stopping = true;
    for (const run of this.#runs.values()) run.terminate(graceMs);
  }

  /** Terminates all containers. With `again`, the next start of the node runs them again. */
  async suspend(graceMs: number, { again }: { readonly again: boolean }): Promise<void> {
    const stopped = [...this.#runs.keys()];
    this.terminateAll(graceMs);
    await this.#allEnded();
    for (const name of stopped) {
      const record = this.#records.get(name);
      if (record?.state.kind !== 'terminated' || !again) continue;
      const message = 'The node has been stopped.';
      const state = { kind: 'waiting', reason: Waiting.nodeStopped, message } as const;
      this.#records.set(name, { ...record, state, last: record.state.run });
    }
  }

  /** Kills all processes. Resolves when none remains. */
  async kill(): Promise<void> {
    this.#stopping = true;
    for (const run of this.#runs.values()) run.kill();
    await this.#allEnded();
  }

  async #allEnded(): Promise<void> {
    while (this.#ends.size > 0) await Promise.all(this.#ends);
  }

  #graceMs(): number {
    const { metadata, spec } = this.pod;
    const seconds = metadata.deletionGracePeriodSeconds ?? spec?.terminationGracePeriodSeconds;
    return (seconds ?? defaultGraceSeconds) * 1000;
  }

  /** Records why a container could not be prepared, and the time of the next attempt. */
  #onPreparationFailure(name: string, error: unknown): void {
    const record = this.#records.get(name);
    if (record === undefined) return;
    const { backOff, clock } = this.#options.settings;
    const before = this.#preparationBackOffs.get(name);
    const wait = raised(before ?? noBackOff, backOff);
    this.#preparationBackOffs.set(name, wait);
    const message = messageOf(error);
    const isImage = error instanceof UnknownImageError;
    const isConfig = error instanceof ContainerConfigError;
    const reason = isImage
      ? before === undefined
        ? Waiting.errImagePull
        : Waiting.imagePullBackOff
      : isConfig
        ? Waiting.configError
        : Waiting.containerCreating;
    if (!isImage && !isConfig)
      this.#logger.warn('A container could not be prepared', { error, container: name });
    const retryAtMs = clock.monotonic() + (isImage ? wait : backOff.initialMs / 5);
    this.#records.set(name, {
      ...record,
      ...lastOf(record),
      state: { kind: 'waiting', reason, message, retryAtMs },
    });
    if (before === undefined) this.#event('Warning', 'Failed', `Error: ${reason}: ${message}`);
  }

  async #run(container: Container, launch: Launch, podIP: string): Promise<void> {
    const { settings, runner, onChange } = this.#options;
    const { clock, backOff } = settings;
    const { name } = container;
    const log = this.#logs.get(name);
    const record = this.#records.get(name);
    if (log === undefined || record === undefined) return;
    launch.claimUids.forEach((uid) => this.#claimUids.add(uid));

    const runId = randomUUID();
    const began = { containerID: `process://${runId}`, startedAt: this.#now() };
    const startedAtMs = clock.monotonic();
    const next = {
      ...record,
      ...lastOf(record),
      ran: true,
      restarts: record.ran ? record.restarts + 1 : record.restarts,
      backOff: record.ran ? raised(record.backOff, backOff) : record.backOff,
    };
    const setRunning = ({ started, ready }: Pick<ContainerRun, 'started' | 'ready'>): void => {
      const state: ContainerState = { kind: 'running', ...began, started, ready };
      this.#records.set(name, { ...next, state });
    };
    const setEnded = (run: Pick<Terminated, 'exitCode' | 'reason' | 'message'>): void => {
      const finishedAtMs = clock.monotonic();
      this.#records.set(name, {
        ...next,
        state: {
          kind: 'terminated',
          run: { ...run, ...began, finishedAt: this.#now() },
          finishedAtMs,
        },
        backOff: afterRun(next.backOff, finishedAtMs - startedAtMs, backOff),
      });
    };
    let run: ContainerRun | undefined;
    try {
      run = await ContainerRun.start({
        runId,
        container,
        launch,
        podIP,
        runner,
        log,
        clock,
        graceMs: this.#graceMs(),
        onChange: () => {
          if (run === undefined || this.#runs.get(name) !== run) return;
          setRunning(run);
          onChange();
        },
        onUnhealthy: (message) => this.#event('Warning', 'Unhealthy', message),
      });
    } catch (error) {
      const message = messageOf(error);
      setEnded({ exitCode: startErrorExitCode, reason: 'StartError', message });
      this.#event('Warning', 'Failed', `Error: ${message}`);
      onChange();
      return;
    }
    this.#runs.set(name, run);
    setRunning(run);
    this.#event('Normal', 'Started', `Started container ${name}`);
    const fields = { container: name, containerID: began.containerID };
    this.#logger.info('A container has started', { ...fields, restarts: next.restarts });
    const end = run.exited
      .finally(() => this.#runs.delete(name))
      .then(
        ({ exitCode }) => {
          setEnded({ exitCode, reason: exitCode === 0 ? 'Completed' : 'Error' });
          this.#logger.info('A container has ended', { ...fields, exitCode });
          if (!this.#stopping) this.#reportBackOff(name);
        },
        (error: unknown) => {
          setEnded({ exitCode: killedExitCode, reason: 'Error', message: String(error) });
          this.#logger.error('The end of a container could not be followed', { ...fields, error });
        },
      );
    const tracked: Promise<void> = end.finally(() => {
      this.#ends.delete(tracked);
      onChange();
    });
    this.#ends.add(tracked);
  }

  #reportBackOff(name: string): void {
    const delayMs = this.#records.get(name)?.backOff ?? noBackOff;
    if (delayMs === noBackOff) return;
    const message = `Back-off ${goDuration(delayMs)} restarting failed container ${name}`;
    this.#event('Warning', 'BackOff', message);
  }

  #event(type: 'Normal' | 'Warning', reason: string, message: string): void {
    this.#options.settings.events.record(this.pod, { type, reason, message });
  }

  #now(): string {
    return timestampOf(this.#options.settings.clock.now());
  }
}
