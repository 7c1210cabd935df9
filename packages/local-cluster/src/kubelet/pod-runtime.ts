import { randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { isConflict, isNotFound } from '@conversation-operator/kube/errors';
import type { Logger } from '@conversation-operator/base/logger';
import { pods, type Container, type Pod } from '@conversation-operator/kube/core';
import type { AddressPool, Reservation } from './address-pool.ts';
import { afterRun, goDuration, noBackOff, raised, type BackOff } from './back-off.ts';
import { ContainerConfigError } from './container-environment.ts';
import { ContainerLog } from './container-log.ts';
import {
  Waiting,
  containersOf,
  isTerminalPhase,
  killedExitCode,
  recordsFromStatus,
  type ContainerRecord,
  type ContainerState,
  type Terminated,
} from './container-record.ts';
import { ContainerRun } from './container-run.ts';
import { decide, isOver, type Plan } from './decide.ts';
import { UnknownImageError, launchOf, type Launch } from './launch.ts';
import { removeTree, type NodeFolder } from './node-folder.ts';
import { wholeSeconds } from './node-object.ts';
import type { NodeSettings } from './options.ts';
import { podStatusOf, type PodStatus } from './pod-status.ts';
import type { ProcessRunner } from './process-runner.ts';

export interface PodRuntimeOptions {
  readonly pod: Pod;
  readonly settings: NodeSettings;
  readonly runner: ProcessRunner;
  readonly addresses: AddressPool;
  readonly folder: NodeFolder;
  /** Called when `sync` has work to do. */
  readonly onChange: () => void;
}

export const hostIP = '127.0.0.1';

const noneWaiting: Plan['waiting'] = new Map();
const maxReportAttempts = 5;
const startErrorExitCode = 128;
const defaultGraceSeconds = 30;

/**
 * One pod, from its assignment to this node until nothing of it remains. `sync` never runs twice at
 * once for a pod; it observes the containers, takes the next steps and reports the status. A pod of
 * the same name with another uid has a runtime of its own.
 */
export class PodRuntime {
  readonly uid: string;
  readonly #options: PodRuntimeOptions;
  readonly #logger: Logger;
  readonly #records: Map<string, ContainerRecord>;
  readonly #runs = new Map<string, ContainerRun>();
  readonly #ends = new Set<Promise<void>>();
  readonly #logs = new Map<string, ContainerLog>();
  readonly #claimUids = new Set<string>();
  /** Back-off of containers that could not be prepared. */
  readonly #preparationBackOffs = new Map<string, BackOff>();
  readonly #startTime: string;
  #pod: Pod;
  #reported: PodStatus | undefined;
  #address: Reservation | undefined;
  #phase: 'living' | 'suspended' | 'killed' = 'living';
  #ended: boolean;

  constructor(options: PodRuntimeOptions) {
    const { pod, settings } = options;
    this.uid = pod.metadata.uid;
    this.#options = options;
    this.#logger = settings.logger.child({
      namespace: pod.metadata.namespace,
      pod: pod.metadata.name,
      podUid: this.uid,
    });
    this.#pod = pod;
    this.#reported = pod.status;
    this.#records = recordsFromStatus(pod, { iso: this.#now(), ms: settings.clock.monotonic() });
    this.#startTime = pod.status?.startTime ?? this.#now();
    this.#ended = isTerminalPhase(pod.status?.phase);
    for (const { name } of containersOf(pod)) {
      const path = options.folder.log(this.uid, name);
      this.#logs.set(
        name,
        new ContainerLog({ path, maxBytes: settings.maxLogBytes, logger: this.#logger }),
      );
    }
  }

  get claimUids(): ReadonlySet<string> {
    return this.#claimUids;
  }

  get isRunning(): boolean {
    return this.#runs.size > 0;
  }

  log(containerName: string): ContainerLog | undefined {
    return this.#logs.get(containerName);
  }

  /**
   * Takes the next steps of the pod and reports the status. Returns the delay until the next call.
   */
  async sync(pod: Pod): Promise<{ readonly requeueAfterMs?: number }> {
    this.#pod = pod;
    if (this.#phase !== 'living') return {};
    if (pod.metadata.deletionTimestamp !== undefined) {
      await this.#finish();
      return {};
    }
    const first = this.#plan();
    if (first.start.length > 0) {
      await this.#reserveAddress();
      await Promise.all(first.start.map((name) => this.#start(name)));
    }
    const plan = this.#plan();
    for (const name of plan.stop) this.#runs.get(name)?.terminate(this.#graceMs());
    this.#ended ||= isOver(pod, this.#records);
    await this.#report(plan.waiting);
    if (this.#ended && !this.isRunning) await this.#releaseAddress();
    // Started containers may unblock others, or may have ended already.
    if (plan.start.length > 0) return { requeueAfterMs: 0 };
    return plan.nextInMs === undefined ? {} : { requeueAfterMs: plan.nextInMs };
  }

  /**
   * Ends all containers and waits for their end. The pod remains, and the next start of the node
   * runs it again.
   */
  async suspend(graceMs: number): Promise<void> {
    if (this.#phase === 'living') this.#phase = 'suspended';
    const stopped = [...this.#runs.keys()];
    for (const run of this.#runs.values()) run.terminate(graceMs);
    await this.#allEnded();
    for (const name of stopped) {
      const record = this.#records.get(name);
      if (record?.state.kind !== 'terminated' || this.#ended) continue;
      const state: ContainerState = {
        kind: 'waiting',
        reason: Waiting.nodeStopped,
        message: 'The node has been stopped.',
      };
      this.#records.set(name, { ...record, state, last: record.state.run });
    }
    await this.#report(noneWaiting).catch((error: unknown) =>
      this.#logger.warn('The last status of a pod could not be written', { error }),
    );
    await this.#releaseAddress();
  }

  /** Kills all processes. Resolves when none remains. */
  async kill(): Promise<void> {
    this.#phase = 'killed';
    for (const run of this.#runs.values()) run.kill();
    await this.#allEnded();
  }

  /** Removes the files of the pod. The caller ensures that no process runs. */
  async remove(): Promise<void> {
    await this.#releaseAddress();
    await removeTree(this.#options.folder.pod(this.uid));
  }

  #plan(): Plan {
    if (this.#ended && !this.isRunning) return { start: [], stop: [], waiting: noneWaiting };
    return decide(this.#pod, this.#records, this.#options.settings.clock.monotonic());
  }

  async #allEnded(): Promise<void> {
    while (this.#ends.size > 0) await Promise.all(this.#ends);
  }

  /** Terminates a deleted pod: ends its containers, reports their end, and deletes the object. */
  async #finish(): Promise<void> {
    const graceMs = this.#graceMs();
    for (const run of this.#runs.values()) run.terminate(graceMs);
    await this.#report(noneWaiting);
    if (this.isRunning) return;
    const { namespace = '', name } = this.#pod.metadata;
    try {
      await this.#options.settings.client.delete(pods, namespace, name, {
        uid: this.uid,
        gracePeriodSeconds: 0,
      });
    } catch (error) {
      // The pod is not found or was replaced; it is gone in both cases.
      if (!isNotFound(error) && !isConflict(error)) throw error;
    }
  }

  #graceMs(): number {
    const { metadata, spec } = this.#pod;
    return (
      (metadata.deletionGracePeriodSeconds ??
        spec?.terminationGracePeriodSeconds ??
        defaultGraceSeconds) * 1000
    );
  }

  async #reserveAddress(): Promise<void> {
    const { addresses, folder } = this.#options;
    try {
      this.#address ??= await addresses.reserve(this.#reported?.podIP);
    } catch (error) {
      this.#event(
        'Warning',
        'FailedCreatePodSandBox',
        error instanceof Error ? error.message : String(error),
      );
      throw error;
    }
    await mkdir(folder.pod(this.uid), { recursive: true, mode: 0o700 });
  }

  async #releaseAddress(): Promise<void> {
    const address = this.#address;
    this.#address = undefined;
    await address?.release();
  }

  async #start(name: string): Promise<void> {
    const container = containersOf(this.#pod).find((candidate) => candidate.name === name);
    const podIP = this.#address?.address;
    if (container === undefined || podIP === undefined) return;
    const { settings, folder } = this.#options;
    try {
      const launch = await launchOf(this.#pod, container, { settings, folder, podIP, hostIP });
      this.#preparationBackOffs.delete(name);
      await this.#run(container, launch, podIP);
    } catch (error) {
      this.#onPreparationFailure(name, error);
    }
  }

  /**
   * Records that a container was not started, because of its spec or because a dependency is
   * missing, and schedules a retry.
   */
  #onPreparationFailure(name: string, error: unknown): void {
    const record = this.#records.get(name);
    if (record === undefined) return;
    const { backOff, clock } = this.#options.settings;
    const before = this.#preparationBackOffs.get(name);
    const wait = raised(before ?? noBackOff, backOff);
    this.#preparationBackOffs.set(name, wait);
    const message = error instanceof Error ? error.message : String(error);
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
    const retryAtMs = clock.monotonic() + (isImage ? wait.delayMs : backOff.initialMs / 5);
    const last = record.state.kind === 'terminated' ? record.state.run : record.last;
    this.#records.set(name, {
      ...record,
      ...(last === undefined ? {} : { last }),
      state: { kind: 'waiting', reason, message, retryAtMs },
    });
    if (before === undefined) this.#event('Warning', 'Failed', `Error: ${reason}: ${message}`);
  }

  async #run(container: Container, launch: Launch, podIP: string): Promise<void> {
    const { settings, runner, onChange } = this.#options;
    const { clock, backOff } = settings;
    const log = this.#logs.get(container.name);
    const record = this.#records.get(container.name);
    if (log === undefined || record === undefined) return;
    launch.claimUids.forEach((uid) => this.#claimUids.add(uid));

    const runId = randomUUID();
    const containerID = `process://${runId}`;
    const startedAt = this.#now();
    const startedAtMs = clock.monotonic();
    const last = record.state.kind === 'terminated' ? record.state.run : record.last;
    const next = {
      name: container.name,
      ...(last === undefined ? {} : { last }),
      ran: true,
      restarts: record.ran ? record.restarts + 1 : record.restarts,
      backOff: record.ran ? raised(record.backOff, backOff) : record.backOff,
    };
    const ended = (
      run: Omit<Terminated, 'containerID' | 'startedAt' | 'finishedAt'>,
    ): ContainerRecord => ({
      ...next,
      state: {
        kind: 'terminated',
        run: { ...run, containerID, startedAt, finishedAt: this.#now() },
        finishedAtMs: clock.monotonic(),
      },
      backOff: afterRun(next.backOff, clock.monotonic() - startedAtMs, backOff),
    });
    const running = (): ContainerRecord => ({
      ...next,
      state: {
        kind: 'running',
        containerID,
        startedAt,
        startedAtMs,
        started: run?.started ?? false,
        ready: run?.ready ?? false,
      },
    });
    const graceMs = this.#graceMs();
    let run: ContainerRun | undefined;
    try {
      run = await ContainerRun.start({
        runId,
        container,
        launch,
        podIP,
        graceMs,
        runner,
        log,
        clock,
        onChange: () => {
          if (this.#runs.get(container.name) !== run) return;
          this.#records.set(container.name, running());
          onChange();
        },
        onUnhealthy: (message) => this.#event('Warning', 'Unhealthy', message),
      });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      this.#records.set(
        container.name,
        ended({ exitCode: startErrorExitCode, reason: 'StartError', message }),
      );
      this.#event('Warning', 'Failed', `Error: ${message}`);
      onChange();
      return;
    }
    this.#runs.set(container.name, run);
    this.#records.set(container.name, running());
    this.#event('Normal', 'Started', `Started container ${container.name}`);
    this.#logger.info('A container has started', {
      container: container.name,
      containerID,
      restarts: next.restarts,
    });
    const end = run.exited.then(
      ({ exitCode }) => {
        this.#runs.delete(container.name);
        this.#records.set(
          container.name,
          ended({ exitCode, reason: exitCode === 0 ? 'Completed' : 'Error' }),
        );
        this.#logger.info('A container has ended', {
          container: container.name,
          containerID,
          exitCode,
        });
        this.#reportBackOff(container.name);
      },
      (error: unknown) => {
        this.#runs.delete(container.name);
        this.#records.set(
          container.name,
          ended({ exitCode: killedExitCode, reason: 'Error', message: String(error) }),
        );
        this.#logger.error('The end of a container could not be followed', {
          error,
          container: container.name,
        });
      },
    );
    const tracked: Promise<void> = end.finally(() => {
      this.#ends.delete(tracked);
      onChange();
    });
    this.#ends.add(tracked);
  }

  #reportBackOff(name: string): void {
    const delayMs = this.#records.get(name)?.backOff.delayMs ?? 0;
    if (
      delayMs === 0 ||
      this.#phase !== 'living' ||
      this.#pod.metadata.deletionTimestamp !== undefined
    )
      return;
    this.#event(
      'Warning',
      'BackOff',
      `Back-off ${goDuration(delayMs)} restarting failed container ${name}`,
    );
  }

  #event(type: 'Normal' | 'Warning', reason: string, message: string): void {
    this.#options.settings.events.record(this.#pod, { type, reason, message });
  }

  /**
   * Writes the status if it differs from the last written status. After a conflict, another client
   * has changed the pod, so the status is computed again from the current pod.
   */
  async #report(waiting: Plan['waiting']): Promise<void> {
    const { client } = this.#options.settings;
    let base = this.#pod;
    for (let attempt = 1; ; attempt += 1) {
      const status = this.#status(base, waiting);
      if (isDeepStrictEqual(status, this.#reported)) return;
      try {
        this.#pod = await client.updateStatus(pods, { ...base, status });
        this.#reported = status;
        return;
      } catch (error) {
        if (isNotFound(error)) return;
        if (!isConflict(error) || attempt === maxReportAttempts) throw error;
      }
      const { namespace = '', name } = base.metadata;
      try {
        base = await client.get(pods, namespace, name);
      } catch (error) {
        if (isNotFound(error)) return;
        throw error;
      }
      if (base.metadata.uid !== this.uid) return;
    }
  }

  #status(pod: Pod, waiting: Plan['waiting']): PodStatus {
    const podIP = this.#address?.address;
    return podStatusOf({
      pod,
      records: this.#records,
      waiting,
      ...(podIP === undefined ? {} : { podIP }),
      hostIP,
      startTime: this.#startTime,
      previous: this.#reported,
      suspended: this.#phase === 'suspended',
      now: this.#now(),
    });
  }

  #now(): string {
    return wholeSeconds(this.#options.settings.clock);
  }
}
