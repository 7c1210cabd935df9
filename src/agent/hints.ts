import { z } from 'zod';

/**
 * An agent has something to tell, says the gateway to the operators: of one of its conversations, or of any. It only makes somebody
 * ask the agent sooner, so it may be lost, late, repeated or wrong.
 */
export interface AgentHint {
  readonly namespace: string;
  /** The name of the sandbox. */
  readonly sandbox: string;
  /** 32 hex digits; absent: any of the sandbox's. */
  readonly conversationId?: string | undefined;
}

export const hintsPath = '/hints';
/** Of one request, with what stands around them. */
export const mostHints = 200;
export const maxHintsBytes = 128 * 1024;

const name = z.string().min(1).max(253);

export const hintsSchema = z.object({
  hints: z.array(z.object({ namespace: name, sandbox: name, conversationId: z.string().max(64).optional() })).max(mostHints),
});
