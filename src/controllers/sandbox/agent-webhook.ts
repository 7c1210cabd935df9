import type { AgentWebhook } from '../../agent/agent.ts';
import type { Sandbox } from '../../resources/sandbox.ts';

export interface AgentSide {
  /** Where the sandboxes of the namespace reach the gateway's agent side, without a path. */
  readonly url: string;
  readonly namespace: string;
}

/**
 * Where a sandbox's agent says that something has happened. It shows its session key by itself. A second passes at the most between a
 * change and its record, so a quarter of that is what an event may wait for others.
 *
 * The buffer is never full, by number or by size, because fewer events are kept: the real server sends a full one in the middle of
 * what it does, and a gateway that does not answer would hold up the agent's work for half a minute each time. What is dropped then
 * is found by the next poll. One retry after 5 s: with none it would try again four times a second as long as the gateway is away,
 * and with more it would take longer to end.
 */
export const webhooksOf = (agentSide: AgentSide | undefined, { metadata }: Sandbox): readonly AgentWebhook[] =>
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
