import type { Clock } from '@conversation-operator/base/clock';
import type { Logger } from '@conversation-operator/base/logger';
import type { SandboxKeys } from '../../agent/keys.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import { AgentError } from '../../agent/errors.ts';
import { agentEndpointOf } from '../../agent/kinds.ts';
import { pods } from '@conversation-operator/kube/core';
import type { AgentEndpoint } from '../../agent/agent.ts';
import { isWarmSandbox, keySeedOf, type Sandbox } from '../../resources/sandbox.ts';
import { withoutSecrets } from '../../agent/redaction.ts';
import { lastWords } from './readable-output.ts';
import { hasStopToFinish, viewOfSandbox } from '../../status/sandbox-phase.ts';
import { isWithin } from '../elapsed-times.ts';
import type { UnresponsiveAgents } from '../agent-calls/unresponsive-agents.ts';
import type { AgentConnections } from './agent-connection.ts';
import type { AgentStops } from './agent-stops.ts';
import { FailureCode, agentInitialised, initialisedBefore } from './failure.ts';
import type { PodBackoff } from './pod-loss.ts';
import {
  failed,
  observedOf,
  patientIntervalMs,
  waiting,
  type Outcome,
  type SandboxStep,
  type Scope,
} from './scope.ts';
import { runningProgress, unready } from './status.ts';
import { deleteObject } from '../stored-object.ts';

export interface AgentConnectorOptions {
  readonly client: KubeClient;
  readonly keys: SandboxKeys;
  readonly logger: Logger;
  readonly clock: Pick<Clock, 'now'>;
  readonly connections: AgentConnections;
  readonly stops: AgentStops;
  readonly podBackoff: PodBackoff;
  /** Records which agents do not answer the calls of other controllers. */
  readonly unresponsiveAgents?: UnresponsiveAgents | undefined;
}

type AgentStep = Pick<Extract<SandboxStep, { readonly kind: 'running' }>, 'podIP' | 'containerID'>;

/** Maximum time for which the agent of a new start is polled at short intervals. */
const eagerMs = 10_000;
const eagerIntervalMs = 100;
const warmSandboxIntervalMs = 30_000;

const spareUsed = {
  code: FailureCode.spareUsed,
  message: 'The agent of the warm sandbox has keys that the operator did not give it.',
} as const;

/**
 * Sends an agent its keys. If a resume comes while a pause is still stopping the agent,
 * `AgentConnector` also completes the stop.
 */
export class AgentConnector {
  readonly #options: AgentConnectorOptions;

  constructor(options: AgentConnectorOptions) {
    this.#options = options;
  }

  get stops(): AgentStops {
    return this.#options.stops;
  }

  /** The outcome for a running agent. Connects it again if it does not answer other controllers. */
  async keep(scope: Scope, step: AgentStep, signal: AbortSignal): Promise<Outcome> {
    const { uid } = scope.sandbox.metadata;
    if (this.#options.unresponsiveAgents?.isUnresponsive(uid) === true)
      return this.connect(scope, step, signal);
    const { containerID } = step;
    return { progress: { ...observedOf(scope), ...runningProgress, containerID } };
  }

  /** Output of an agent for its owner: bounded, on one line, without the keys of the sandbox. */
  shown(output: string, sandbox: Sandbox): string {
    const { keys } = this.#options;
    const seed = keySeedOf(sandbox);
    const keyId = sandbox.status?.masterKeyId;
    const secrets = [
      keys.bootstrapKey(seed, keyId),
      keys.sessionKey(seed, keyId),
      keys.secretKey(seed, keyId),
    ];
    return lastWords(withoutSecrets(output, secrets)).replaceAll(/\s*\n\s*/g, ' / ');
  }

  /** Connects the agent of a container, and returns the status of the sandbox. */
  async connect(
    scope: Scope,
    { podIP, containerID }: AgentStep,
    signal: AbortSignal,
  ): Promise<Outcome> {
    const { keys, logger, clock, connections, stops, unresponsiveAgents } = this.#options;
    const { sandbox } = scope;
    const observed = observedOf(scope);
    const endpoint = agentEndpointOf(
      { ...sandbox, status: { ...sandbox.status, podIP, agentPort: observed.agentPort } },
      keys,
    );
    if (endpoint !== undefined && isWarmSandbox(sandbox))
      return this.#bootWarmSandbox(scope, { endpoint, containerID }, signal);
    const { startingSinceTime } = sandbox.status ?? {};
    // The agent has answered in this container run. No start deadline applies, because the kubelet
    // restarts an agent that does not answer.
    const isSilent = sandbox.status?.lastContainerID === containerID;
    const isEager =
      startingSinceTime === undefined || isWithin(eagerMs, startingSinceTime, clock.now());
    const soonMs = !isSilent && isEager ? eagerIntervalMs : patientIntervalMs;
    let laterMs: number | undefined;
    try {
      const connection =
        endpoint === undefined
          ? undefined
          : await connections.connect({ endpoint, sandbox, containerID }, signal);
      laterMs = connection?.laterMs;
      if (endpoint !== undefined && connection?.connected === true) {
        unresponsiveAgents?.forget(sandbox.metadata.uid);
        const stopping = await stops.carryThrough(scope, { containerID, endpoint }, signal);
        const { introduction } = connection;
        return (
          stopping ?? { progress: { ...observed, ...runningProgress, containerID, introduction } }
        );
      }
      // The pod of an agent that has had its keys stays, because it may hold the owner's files.
      if (connection?.isForeign === true && !isSilent) return await this.#replacePod(scope, signal);
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      logger.debug('agent is not ready', { sandbox: sandbox.metadata.name, code: error.code });
    }
    // An agent that does not answer can not be stopped. `wanted: false` keeps the pending stop in
    // the status until the agent answers or its container ends.
    const wanted = !isSilent || !hasStopToFinish(sandbox);
    const requeueAfterMs = laterMs ?? soonMs;
    const before = initialisedBefore(viewOfSandbox(sandbox));
    if (before !== undefined && !isSilent)
      return waiting(scope, { reason: before.code, message: before.message, requeueAfterMs });
    return {
      progress: {
        ...observed,
        ready: false,
        ...(isSilent ? unready.silent : unready.unanswered),
        wanted,
      },
      requeueAfterMs,
    };
  }

  /**
   * Deletes the pod of an agent that another process has initialised: at once the first time, then
   * after the delay of `podBackoff`. The start deadline ends the attempts.
   */
  async #replacePod(scope: Scope, signal: AbortSignal): Promise<Outcome> {
    const { client, podBackoff, logger } = this.#options;
    const { pod, sandbox } = scope;
    const { uid, name } = sandbox.metadata;
    const { code: reason, message } = agentInitialised;
    const requeueAfterMs = podBackoff.waitMs(uid);
    if (pod === undefined || requeueAfterMs > 0)
      return waiting(scope, { reason, message, requeueAfterMs });
    logger.warn('another process has initialised the agent', { sandbox: name });
    await deleteObject({ client, signal }, pods, pod);
    podBackoff.ended(uid, pod.metadata.uid, 0);
    return waiting(scope, { reason, message });
  }

  /**
   * Waits until the agent of a warm sandbox has booted. If the agent already has keys, another
   * process has sent them, so the sandbox fails and no owner gets it.
   */
  async #bootWarmSandbox(
    scope: Scope,
    at: { readonly endpoint: AgentEndpoint; readonly containerID: string },
    signal: AbortSignal,
  ): Promise<Outcome> {
    const { connections, logger } = this.#options;
    const { sandbox } = scope;
    let laterMs: number | undefined;
    try {
      const probed = await connections.probe({ ...at, sandbox }, signal);
      const observed = { ...observedOf(scope), ready: false, wanted: true };
      if (probed.state === 'dormant')
        return {
          progress: { ...observed, ...unready.warmSandbox },
          requeueAfterMs: warmSandboxIntervalMs,
        };
      if (probed.state === 'ready') return failed(scope, spareUsed);
      laterMs = probed.laterMs;
    } catch (error) {
      if (!(error instanceof AgentError)) throw error;
      logger.debug('agent is not ready', { sandbox: sandbox.metadata.name, code: error.code });
    }
    return {
      progress: { ...observedOf(scope), ready: false, ...unready.unanswered, wanted: true },
      requeueAfterMs: laterMs ?? patientIntervalMs,
    };
  }
}
