import type { CommonNeeds } from '../controller-spec.ts';
import type { AgentClient, AgentEndpoint } from '../../agent/agent.ts';
import { agentEndpointOf } from '../../agent/kinds.ts';
import { AgentError } from '../../agent/errors.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import type { CachedPod } from '../../resources/cached-core.ts';
import { pods } from '@conversation-operator/kube/core';
import { sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import { hasStopToFinish, shouldRun, viewOfSandbox } from '../../status/sandbox-phase.ts';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import type { SandboxArchives } from '../archive/seal.ts';
import { abortedAfter } from '../agent-calls/aborted-after.ts';
import type { ElapsedTimes } from '../elapsed-times.ts';
import type { AgentConnections } from './agent-connection.ts';
import { agentStatusOf } from './decide.ts';
import { observedOf, outdated, type Outcome, type Scope } from './scope.ts';
import { unready, type SandboxProgress } from './status.ts';
import { deleteObject, storedObject } from '../stored-object.ts';

export interface AgentStopsOptions extends CommonNeeds {
  readonly agent: AgentClient;
  readonly keys: SandboxKeys;
  readonly elapsed: ElapsedTimes;
  readonly connections: Pick<AgentConnections, 'isSilent'>;
  /** Archives the agent's data before its pod is deleted; absent if nothing is archived. */
  readonly archives?: SandboxArchives | undefined;
  /** Maximum milliseconds that a pause waits for the end of the agent's runs. Default 15,000. */
  readonly pauseBoundMs?: number | undefined;
}

interface ArchivedPause {
  readonly pauseTime: string;
  /** Whether all runs had ended when the archive was made. */
  readonly isLast: boolean;
}

interface Pausing {
  readonly endpoint: AgentEndpoint;
  readonly pauseTime: string;
  readonly isBusy: boolean;
}

/** Delay before the operator reads again which runs are still in progress. */
const stopIntervalMs = 200;
const maxInterrupted = 64;
/** Maximum time in which an agent has to list its runs. After that its pod is deleted anyway. */
const patienceMs = 10_000;
/** `patienceMs` for an agent that did not answer the last attempt to connect. */
const silentPatienceMs = 1_000;
/** Ids of the conversations whose run is in progress or waits for a confirmation. */
type Runs = Readonly<Record<'running' | 'waiting', readonly string[]>>;

const nothing: Runs = { running: [], waiting: [] };
/**
 * Text for the model and for readers of the conversation. If a pending action got no rejection and
 * were answered after the stop, openhands-agent-server 1.58 would send the model a result without
 * its request.
 */
const rejection =
  'The sandbox was paused before this action was confirmed. It has not been executed. Ask for it again if it is still needed.';

/**
 * Interrupts the runs of an agent before its pod is deleted, or before a resumed sandbox is RUNNING
 * again. An agent that does not answer is logged, and counts as an agent without runs.
 */
export class AgentStops {
  readonly #options: AgentStopsOptions;
  readonly #pauseBoundMs: number;
  /** The last archived pause of each sandbox, by UID. */
  readonly #archivedPauses = recentlyUsed<ArchivedPause>(1_000);

  constructor(options: AgentStopsOptions) {
    this.#options = options;
    this.#pauseBoundMs = options.pauseBoundMs ?? 15_000;
  }

  /**
   * Completes the stop of an agent whose sandbox was resumed before the stop ended. Returns
   * undefined once the interrupted runs have ended, or `pauseBoundMs` is over. Until then the
   * sandbox is not RUNNING, because nothing distinguishes a run that is about to end from a run
   * that began after the resume. A pause by the owner interrupts the runs even if a resume follows
   * at once, because the official web UI stops an agent by a pause and a resume.
   */
  async carryThrough(
    scope: Scope,
    { containerID, endpoint }: { readonly containerID: string; readonly endpoint: AgentEndpoint },
    signal: AbortSignal,
  ): Promise<Outcome | undefined> {
    const { sandbox } = scope;
    const {
      containerID: known,
      pauseTime,
      interruptedConversationIDs: interrupted = [],
      agentEpoch = 0,
      lastUserPauseEpoch,
    } = sandbox.status ?? {};
    const { pod } = scope;
    if (known !== containerID || pod === undefined || !hasStopToFinish(sandbox)) return undefined;
    const progress: SandboxProgress = {
      ...observedOf(scope),
      containerID,
      ready: false,
      ...unready.stopping,
      wanted: false,
    };
    if (pauseTime === undefined) return { progress, requeueAfterMs: 0 };
    // The pause may have deleted the pod just before the resume. The agent of a terminating pod
    // still answers.
    const stored = await storedObject({ client: this.#options.client, signal }, pods, pod);
    if (stored === undefined || stored.metadata.deletionTimestamp !== undefined) return outdated;
    if (!this.#isInTime(scope, pauseTime)) return undefined;
    const all = await this.#running(endpoint, signal);
    // All these runs began before the pause, but the status does not name them yet.
    if (interrupted.length === 0 && lastUserPauseEpoch === agentEpoch && all.length > 0)
      return {
        progress: { ...progress, interrupted: all.slice(0, maxInterrupted) },
        requeueAfterMs: 0,
      };
    const running = all.filter((id) => interrupted.includes(id));
    await this.#interrupt(endpoint, running, signal);
    return running.length === 0 ? undefined : { requeueAfterMs: stopIntervalMs };
  }

  /**
   * Interrupts the agent's runs, waits for their end, then deletes the pod. An agent that does not
   * answer delays the deletion for `pauseBoundMs` at most.
   */
  async stop(
    scope: Scope,
    { pod, podIP }: { readonly pod: CachedPod; readonly podIP: string | undefined },
    signal: AbortSignal,
  ): Promise<Outcome> {
    const { client, agent, keys } = this.#options;
    const { sandbox } = scope;
    const { reason, message } = viewOfSandbox(sandbox);
    const {
      containerID,
      pauseTime,
      interruptedConversationIDs: before = [],
    } = sandbox.status ?? {};
    const progress: SandboxProgress = {
      ...observedOf(scope),
      containerID,
      ready: false,
      reason,
      message,
      wanted: false,
    };
    // The status stores the pause before any run is interrupted, because the reason of the pause
    // decides which runs continue after a resume.
    if (pauseTime === undefined) return { progress, requeueAfterMs: 0 };
    const stored = await storedObject({ client, signal }, sandboxes, sandbox);
    // The sandbox was resumed or deleted, so this stop must not continue.
    if (
      stored === undefined ||
      stored.metadata.deletionTimestamp !== undefined ||
      shouldRun(stored)
    )
      return outdated;
    const address = podIP ?? (await this.#storedAddress(stored, pod, signal));
    const { agentPort } = progress;
    const endpoint =
      address === undefined
        ? undefined
        : agentEndpointOf(
            { ...sandbox, status: { ...sandbox.status, podIP: address, agentPort } },
            keys,
          );
    const { running, waiting } =
      endpoint === undefined ? nothing : await this.#inUse(scope, endpoint, signal);
    const interrupted = [...new Set([...before, ...running, ...waiting])].slice(0, maxInterrupted);
    // The status stores a run before its interruption, so that the run can continue even after a
    // crash of the operator or a failed write.
    if (interrupted.length > before.length)
      return { progress: { ...progress, interrupted }, requeueAfterMs: 0 };
    if (endpoint !== undefined) {
      const rejected = waiting.map((id) =>
        agent.rejectPending(endpoint, id, rejection, { signal }),
      );
      await this.#ask(endpoint, Promise.all(rejected));
      await this.#interrupt(endpoint, running, signal);
    }
    const isBusy = this.#isInTime(scope, pauseTime) && running.length + waiting.length > 0;
    if (endpoint !== undefined) await this.#archive(scope, { endpoint, pauseTime, isBusy }, signal);
    if (isBusy) return { progress, requeueAfterMs: stopIntervalMs };
    await deleteObject({ client, signal }, pods, pod);
    return { progress };
  }

  /** The address of an agent that has run, if the cached pod and the status lack the address. */
  async #storedAddress(
    { status: { lastContainerID } = {} }: Sandbox,
    pod: CachedPod,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    if (lastContainerID === undefined) return undefined;
    const stored = await storedObject({ client: this.#options.client, signal }, pods, pod);
    if (stored === undefined || agentStatusOf(stored)?.containerID !== lastContainerID)
      return undefined;
    return stored.status?.podIP;
  }

  /**
   * The conversations of an agent whose runs are in progress or wait for a confirmation. An agent
   * that does not answer gets less time, because its pod is deleted anyway.
   */
  async #inUse({ sandbox }: Scope, endpoint: AgentEndpoint, signal: AbortSignal): Promise<Runs> {
    const { agent, clock, connections } = this.#options;
    const patience = abortedAfter(
      clock,
      connections.isSilent(endpoint, sandbox) ? silentPatienceMs : patienceMs,
      signal,
    );
    try {
      const [running, waiting = []] = await Promise.all([
        this.#running(endpoint, patience.signal),
        this.#ask(endpoint, agent.losableQuestions(endpoint, { signal: patience.signal })),
      ]);
      return { running, waiting };
    } finally {
      patience.cancel();
    }
  }

  async #running(endpoint: AgentEndpoint, signal: AbortSignal): Promise<readonly string[]> {
    const { agent } = this.#options;
    return (await this.#ask(endpoint, agent.runningConversations(endpoint, { signal }))) ?? [];
  }

  async #interrupt(
    endpoint: AgentEndpoint,
    ids: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    const { agent } = this.#options;
    const interrupted = ids.map((id) => agent.interrupt(endpoint, id, { signal }));
    await this.#ask(endpoint, Promise.all(interrupted));
  }

  /** The answer of an agent; undefined when it does not answer. */
  async #ask<T>(endpoint: AgentEndpoint, answer: Promise<T>): Promise<T | undefined> {
    try {
      return await answer;
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      this.#options.logger.info(
        'agent could not be asked to pause; its pod is stopped all the same',
        { agent: endpoint.baseUrl, code: error.code },
      );
      return undefined;
    }
  }

  /**
   * Archives the agent's data when the pause begins, because a run may not end in time, and again
   * when all runs have ended. An agent or an archive storage that does not answer delays the pause
   * by `pauseBoundMs` at most. `stop` calls this method until the cache shows the deletion of the
   * pod. Each of the two archives is made only once, because an agent that has ended must not make
   * a complete archive incomplete.
   */
  async #archive(
    { sandbox }: Scope,
    { endpoint, pauseTime, isBusy }: Pausing,
    signal: AbortSignal,
  ): Promise<void> {
    const { archives, connections } = this.#options;
    const { uid } = sandbox.metadata;
    if (archives === undefined) return;
    const before = this.#archivedPauses.get(uid);
    if (before?.pauseTime === pauseTime && before.isLast === !isBusy) return;
    this.#archivedPauses.set(uid, { pauseTime, isLast: false });
    const leftMs = Math.max(0, this.#leftMs(sandbox, pauseTime));
    const maxMs = connections.isSilent(endpoint, sandbox)
      ? Math.min(leftMs, silentPatienceMs)
      : leftMs;
    try {
      await archives.seal(sandbox, endpoint, { maxMs, isLast: !isBusy, signal });
    } catch (error) {
      // Another attempt follows until `pauseBoundMs` is over. The pause then ends without an
      // archive.
      if (signal.aborted || this.#leftMs(sandbox, pauseTime) > 0) throw error;
      this.#options.logger.warn(
        'The pause of a sandbox has ended before its archive was complete',
        { sandbox: sandbox.metadata.name, error },
      );
    }
    if (!isBusy) this.#archivedPauses.set(uid, { pauseTime, isLast: true });
  }

  #isInTime({ sandbox }: Scope, pauseTime: string): boolean {
    return this.#leftMs(sandbox, pauseTime) > 0;
  }

  /** Milliseconds until the pod is deleted, whatever its agent does. */
  #leftMs({ metadata }: Sandbox, pauseTime: string): number {
    return this.#pauseBoundMs - this.#options.elapsed.elapsedMs(`pause/${metadata.uid}`, pauseTime);
  }
}
