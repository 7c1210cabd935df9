import type { AgentWebhook } from '../../agent/agent.ts';
import type { Sandbox } from '../../resources/sandbox.ts';

export interface AgentSide {
  /** URL of the gateway's callback server for the sandboxes of the namespace, without a path. */
  readonly url: string;
  readonly namespace: string;
}

/**
 * The webhook by which a sandbox's agent reports that something has happened. The agent adds its
 * session key by itself. At most a second passes between a change and its record, so an event may
 * wait for others for a quarter of that.
 *
 * The buffer is never full, by number or by size, because fewer events are kept: the real server
 * sends a full buffer in the middle of its work, and a gateway that does not answer would hold up
 * the agent for half a minute each time. The next poll finds the dropped events. The agent retries
 * once, after 5 s: without a retry it would try again four times a second as long as the gateway is
 * away, and with more retries it would take longer to end.
 */
export const webhooksOf = (
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
