import type { AgentClient, AgentEndpoint } from '../../agent/agent.ts';
import { agentEndpointOf } from '../../agent/endpoint.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Clock } from '@conversation-operator/kube/clock';
import type { Logger } from '@conversation-operator/kube/logger';
import type { CachedPod } from '../../resources/cached-pod.ts';
import { pods } from '@conversation-operator/kube/core';
import { hasStopToFinish, sandboxes, shouldRun, viewOfSandbox } from '../../resources/sandbox.ts';
import { abortedAfter } from '../aborted-after.ts';
import type { ElapsedTimes } from '../elapsed-times.ts';
import type { AgentConnections } from './agent-connection.ts';
import { AgentRuns } from './agent-runs.ts';
import { observedOf, outdated, type Outcome, type Scope } from './scope.ts';
import { unready, type SandboxProgress } from './status.ts';
import { deleteObject, storedObject } from '../stored-object.ts';

export interface AgentStopsOptions {
  readonly client: KubeClient;
  readonly agent: AgentClient;
  readonly keys: SandboxKeys;
  readonly elapsed: ElapsedTimes;
  readonly connections: Pick<AgentConnections, 'isSilent'>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** How long a pause waits for the agent to stop its runs, in milliseconds. Default 15,000. */
  readonly pauseBoundMs?: number | undefined;
}

const stopIntervalMs = 200;
const mostInterrupted = 64;
/** How long an agent may take to say what runs in it, before its pod goes without that. */
const patienceMs = 10_000;
const silentPatienceMs = 1_000;
const nothing = { running: [], waiting: [] } as const;

/** Interrupts the runs of an agent before its pod goes, or before a resumed sandbox is RUNNING again. */
export class AgentStops {
  readonly #options: AgentStopsOptions;
  readonly #pauseBoundMs: number;
  readonly #runs: AgentRuns;

  constructor(options: AgentStopsOptions) {
    this.#options = options;
    this.#pauseBoundMs = options.pauseBoundMs ?? 15_000;
    this.#runs = new AgentRuns(options);
  }

  /**
   * Resumed while its agent was being stopped, or before: undefined once the runs that were to be cut stand, or the time for that is
   * over. Until then it is not RUNNING, because a run that is about to stand can't be told from one that began after the resume. A
   * pause by its owner cuts what runs, however soon the resume came: the official web UI stops an agent by a pause and a resume.
   */
  async carryThrough(scope: Scope, containerID: string, endpoint: AgentEndpoint, signal: AbortSignal): Promise<Outcome | undefined> {
    const { sandbox } = scope;
    const {
      containerID: known,
      pauseTime,
      interruptedConversationIDs: interrupted = [],
      agentEpoch = 0,
      lastUserPauseEpoch,
    } = sandbox.status ?? {};
    if (known !== containerID || !hasStopToFinish(sandbox)) return undefined;
    const progress: SandboxProgress = { ...observedOf(scope), containerID, ready: false, ...unready.stopping, wanted: false };
    if (pauseTime === undefined) return { progress, requeueAfterMs: 0 };
    if (!this.#isInTime(scope, pauseTime)) return undefined;
    const all = await this.#runs.running(endpoint, signal);
    // Nobody has looked yet what runs, and nothing can have begun since.
    if (interrupted.length === 0 && lastUserPauseEpoch === agentEpoch && all.length > 0)
      return { progress: { ...progress, interrupted: all.slice(0, mostInterrupted) }, requeueAfterMs: 0 };
    const running = all.filter((id) => interrupted.includes(id));
    await this.#runs.interrupt(endpoint, running, signal);
    return running.length === 0 ? undefined : { requeueAfterMs: stopIntervalMs };
  }

  /** Interrupts the agent's runs, waits until they stand, then deletes the pod; an agent that hangs is not waited for beyond the bound. */
  async stop(scope: Scope, pod: CachedPod, podIP: string | undefined, signal: AbortSignal): Promise<Outcome> {
    const { client, keys } = this.#options;
    const { sandbox } = scope;
    const { reason, message } = viewOfSandbox(sandbox);
    const { containerID, pauseTime, interruptedConversationIDs: before = [] } = sandbox.status ?? {};
    const progress: SandboxProgress = { ...observedOf(scope), containerID, ready: false, reason, message, wanted: false };
    // Known in the resource before anything is stopped: however soon it runs again, whose runs are to go on follows from why they were cut.
    if (pauseTime === undefined) return { progress, requeueAfterMs: 0 };
    const stored = await storedObject(client, sandboxes, sandbox, signal);
    // A pod may not be stopped for a pause that is over.
    if (stored === undefined || stored.metadata.deletionTimestamp !== undefined || shouldRun(stored)) return outdated;
    // The cached pod may be from before it had an address; no run begins before the address is stored.
    const address = podIP ?? (stored.status?.podUID === pod.metadata.uid ? stored.status.podIP : undefined);
    const { agentPort } = progress;
    const endpoint =
      address === undefined ? undefined : agentEndpointOf({ ...sandbox, status: { ...sandbox.status, podIP: address, agentPort } }, keys);
    const { running, waiting } = endpoint === undefined ? nothing : await this.#inUse(scope, endpoint, signal);
    const interrupted = [...new Set([...before, ...running, ...waiting])].slice(0, mostInterrupted);
    // Known in the resource before a run is cut: neither a crash nor a write that fails may forget which are to go on.
    if (interrupted.length > before.length) return { progress: { ...progress, interrupted }, requeueAfterMs: 0 };
    if (endpoint !== undefined) await this.#runs.cut(endpoint, { running, waiting }, signal);
    if (this.#isInTime(scope, pauseTime) && running.length + waiting.length > 0) return { progress, requeueAfterMs: stopIntervalMs };
    await deleteObject(client, pods, pod, signal);
    return { progress };
  }

  /** What runs, and what waits for a person. An agent that has been silent is given a moment: its pod goes all the same. */
  async #inUse(
    { sandbox }: Scope,
    endpoint: AgentEndpoint,
    signal: AbortSignal,
  ): Promise<Readonly<Record<'running' | 'waiting', readonly string[]>>> {
    const { clock, connections } = this.#options;
    const patience = abortedAfter(clock, connections.isSilent(endpoint, sandbox) ? silentPatienceMs : patienceMs, signal);
    try {
      const [running, waiting] = await Promise.all([
        this.#runs.running(endpoint, patience.signal),
        this.#runs.waiting(endpoint, patience.signal),
      ]);
      return { running, waiting };
    } finally {
      patience.cancel();
    }
  }

  #isInTime({ sandbox }: Scope, pauseTime: string): boolean {
    return this.#options.elapsed.elapsedMs(`pause/${sandbox.metadata.uid}`, pauseTime) < this.#pauseBoundMs;
  }
}
