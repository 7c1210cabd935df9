import type { AgentConversation } from '../../../agent/agent.ts';

/** Maximum time by which an agent's clock may be ahead. A later time is not stored. */
const maxClockSkewMs = 24 * 3_600_000;

const metricsOf = ({ metrics }: AgentConversation) =>
  metrics === undefined
    ? {}
    : {
        metrics: {
          accumulatedCost: metrics.accumulatedCost.toFixed(6),
          promptTokens: metrics.promptTokens,
          completionTokens: metrics.completionTokens,
        },
      };

/**
 * Returns the fields of a conversation's status that an agent reports beside the status of the run.
 */
export const reportedFields = (agent: AgentConversation, nowMs: number) => ({
  ...(agent.title === undefined ? {} : { title: agent.title }),
  ...(agent.updatedAt === undefined || Date.parse(agent.updatedAt) > nowMs + maxClockSkewMs
    ? {}
    : { lastActivityTime: agent.updatedAt }),
  ...metricsOf(agent),
});
