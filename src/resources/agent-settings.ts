import { z } from 'zod';

/**
 * Protocols of agents: `src/agent/kinds.ts` has the client and the container of each. The reference
 * agent is of the kind `openhands`, and of the kind `acp` where it is the bridge to another agent.
 */
export const agentKinds = ['openhands', 'acp'] as const;
export type AgentKind = (typeof agentKinds)[number];
/** Also of sandboxes from before kinds were recorded. */
export const defaultAgentKind: AgentKind = 'openhands';

/** When an agent asks before it acts; the words are the agent server's own. */
export const confirmationPolicies = ['NeverConfirm', 'AlwaysConfirm', 'ConfirmRisky'] as const;
export type ConfirmationPolicy = (typeof confirmationPolicies)[number];

export const confirmationPolicy = (error?: string) =>
  z.enum(confirmationPolicies, error).meta({
    description:
      'NeverConfirm: it acts. AlwaysConfirm: it asks before each tool call. ConfirmRisky: before those that its model takes for risky.',
  });

/** The name of a tool, as an agent lists it. */
const toolName = () =>
  z
    .string()
    .max(64)
    .regex(/^[A-Za-z][A-Za-z0-9_-]*$/, 'must be the name of a tool');

/** An empty list is a choice too: an agent that can only talk. */
export const toolNames = () => z.array(toolName()).max(64);

/** An http(s) URL without a user: a password in the URL would be stored in clear. */
export const modelBaseUrl = () =>
  z
    .string()
    .max(1024)
    .regex(
      /^https?:\/\/[^\s/?#@\\]+(\/[^\s?#\\]*)?$/,
      'must be an http or https URL without user, query and fragment',
    );

/** A pattern of model names, in which `*` matches any characters. */
const modelPattern = () =>
  z
    .string()
    .min(1)
    .max(256)
    .regex(
      /^[A-Za-z0-9*][A-Za-z0-9._:@+/*-]*$/,
      'must be the name of a model, in which * matches any characters',
    );

/** An empty list allows the template's own model alone. */
export const modelPatterns = () => z.array(modelPattern()).max(64);

/** No dot: what follows one in a file's name is the owner. */
export const credentialName = () =>
  z
    .string()
    .max(63)
    .regex(/^[A-Za-z0-9_-]+$/);
