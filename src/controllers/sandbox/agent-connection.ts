import type { Clock } from '@conversation-operator/base/clock';
import type {
  AgentClient,
  AgentEndpoint,
  AgentIntroduction,
  AgentState,
  AgentWebhook,
} from '../../agent/agent.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import { AgentError, isAgentError } from '../../agent/errors.ts';
import { keySeedOf, type Sandbox } from '../../resources/sandbox.ts';
import { PollBulkhead } from '../agent-calls/poll-bulkhead.ts';
import { ownerShare } from '../controller-spec.ts';

export interface AgentSide {
  /** URL of the gateway's callback server for the sandboxes of the namespace, without a path. */
  readonly url: string;
  /** URL of the relay for models, without a path. Absent: the callback server has it. */
  readonly modelsUrl?: string | undefined;
  readonly namespace: string;
}

/**
 * The webhook by which a sandbox's agent reports changes. The agent adds its session key to each
 * request. The operator has to record a change in the Conversation within a second, so the agent
 * may collect events for a quarter of a second.
 *
 * The limits in this object keep the agent's buffer from filling up: openhands-agent-server flushes
 * a full buffer in the middle of its work, and a gateway that does not answer would block the agent
 * for half a minute each time. The operator finds events that the agent drops at its next poll. The
 * agent retries once, after 5 s. Without a retry the agent would try again four times a second
 * while the gateway is unavailable, and more retries would delay the end of the agent.
 */
const webhooksOf = (
  agentSide: AgentSide | undefined,
  { metadata }: Sandbox,
): readonly AgentWebhook[] =>
  agentSide?.namespace !== metadata.namespace
    ? []
    : [
        {
          baseUrl: `${agentSide.url.replace(/\/+$/, '')}/webhooks/${metadata.name}`,
          flushDelaySeconds: 0.25,
          eventBufferSize: 200,
          maxQueuedEvents: 100,
          maxBatchBytes: 2 * 1024 * 1024,
          maxQueuedBytes: 1024 * 1024,
          retries: 1,
          retryDelaySeconds: 5,
        },
      ];

export interface AgentConnectionsOptions {
  readonly clock: Clock;
  /** Random numbers from 0 to below 1. */
  readonly random: () => number;
  readonly agent: AgentClient;
  readonly keys: SandboxKeys;
  /** Destination of the agents' webhooks; absent if agents send none. */
  readonly agentSide?: AgentSide | undefined;
}

/** An agent in one run of its container. `containerID` identifies the run. */
interface AgentPlace {
  readonly endpoint: AgentEndpoint;
  readonly sandbox: Sandbox;
  readonly containerID: string | undefined;
}

export interface AgentConnection {
  readonly connected: boolean;
  /** Absent if this attempt has not sent the agent its keys. */
  readonly introduction?: AgentIntroduction | undefined;
  /** Whether the agent has keys that the operator did not send. */
  readonly isForeign?: boolean;
  /** Milliseconds until the next attempt; absent if the caller chooses the delay. */
  readonly laterMs?: number;
}

/**
 * Maximum time in which a starting agent refuses a connection or reports that it is not ready. An
 * agent that takes longer counts as one that does not answer.
 */
const refusalMs = 1_000;
/** Maximum delay between two attempts, and thus before the operator finds a recovered agent. */
const maxDelayMs = 5_000;

/**
 * Connects agents. `PollBulkhead` limits the concurrent attempts, so that agents that do not answer
 * occupy few of the workers that create and delete pods. No attempt waits for a permit of the
 * `PollBulkhead`. Agents that do not answer share few permits, are served round robin by owner, and
 * are tried with growing delays.
 */
export class AgentConnections {
  readonly #options: AgentConnectionsOptions;
  readonly #lane: PollBulkhead;

  constructor(options: AgentConnectionsOptions) {
    this.#options = options;
    this.#lane = new PollBulkhead({
      clock: options.clock,
      random: options.random,
      quick: 256,
      slow: 64,
      waits: false,
      maxDelayMs,
    });
  }

  /** Reads the state of a warm sandbox's agent, and sends no keys. Throws like `connect`. */
  async probe(
    at: AgentPlace,
    signal: AbortSignal,
  ): Promise<{ readonly state?: AgentState; readonly laterMs?: number }> {
    const { agent } = this.#options;
    const asked = { agent: keyOf(at), owner: ownerShare(at.sandbox) };
    const polled = await this.#lane.poll(
      asked,
      (patience) => agent.probe(at.endpoint, { signal: patience }),
      signal,
    );
    return 'answer' in polled ? { state: polled.answer } : { laterMs: polled.laterMs };
  }

  /** Throws errors other than `AgentError`, and throws when the signal is aborted. */
  async connect(at: AgentPlace, signal: AbortSignal): Promise<AgentConnection> {
    const { clock } = this.#options;
    const asked = { agent: keyOf(at), owner: ownerShare(at.sandbox) };
    const attempt = async (patience: AbortSignal): Promise<AgentConnection> => {
      const beganAt = clock.monotonic();
      const connection = await connectAgent(this.#options, at, patience);
      if (!connection.connected && clock.monotonic() - beganAt >= refusalMs)
        throw new AgentError('timeout', 'The agent does not answer.');
      return connection;
    };
    const polled = await this.#lane.poll(asked, attempt, signal);
    if ('answer' in polled) return polled.answer;
    const isForeign = isAgentError(polled.error, 'unauthorized');
    return { connected: false, laterMs: polled.laterMs, isForeign };
  }

  /** Whether the last attempt to call the agent in `lastContainerID` got no answer at all. */
  isSilent(endpoint: AgentEndpoint, sandbox: Sandbox): boolean {
    return this.#lane.isUnresponsive(
      keyOf({ endpoint, sandbox, containerID: sandbox.status?.lastContainerID }),
    );
  }
}

const keyOf = ({ endpoint, sandbox, containerID }: AgentPlace): string =>
  [sandbox.metadata.uid, containerID, endpoint.baseUrl].join('/');

/** Sends an agent its keys if it has none; `connected` is true once the agent has its keys. */
async function connectAgent(
  { agent, keys, agentSide }: AgentConnectionsOptions,
  { endpoint, sandbox }: AgentPlace,
  signal: AbortSignal,
): Promise<AgentConnection> {
  const { status } = sandbox;
  const seed = keySeedOf(sandbox);
  const state = await agent.probe(endpoint, { signal });
  if (state === 'unreachable') return { connected: false };
  if (state === 'dormant') {
    const introduction = await agent.initialise(
      endpoint,
      {
        bootstrapKey: keys.bootstrapKey(seed, status?.masterKeyId),
        sessionKey: endpoint.sessionKey,
        secretKey: keys.secretKey(seed, status?.masterKeyId),
        env: {},
        webhooks: webhooksOf(agentSide, sandbox),
      },
      { signal },
    );
    return { connected: true, introduction };
  }
  // This call with the session key proves that the agent at this address has the key.
  await agent.runningConversations(endpoint, { signal });
  return { connected: true };
}
