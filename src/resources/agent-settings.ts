import { z } from 'zod';

/**
 * Protocols of agents: `src/agent/kinds.ts` has the client and the container of each. The reference
 * agent has the kind `openhands`, and the kind `acp` where it is the bridge to another agent.
 */
export const agentKinds = ['openhands', 'acp'] as const;
export type AgentKind = (typeof agentKinds)[number];
/** Also the kind of sandboxes from versions that recorded none. */
export const defaultAgentKind: AgentKind = 'openhands';

/** When an agent asks before it acts, in the agent server's terms. */
export const confirmationPolicies = ['NeverConfirm', 'AlwaysConfirm', 'ConfirmRisky'] as const;
export type ConfirmationPolicy = (typeof confirmationPolicies)[number];

export const confirmationPolicy = (error?: string) =>
  z
    .enum(confirmationPolicies, error)
    .meta({
      description:
        'NeverConfirm: it acts. AlwaysConfirm: it asks before each tool call. ConfirmRisky: before those that its model takes for risky.',
    });

/** The name of a tool, as an agent lists it. */
const toolName = () =>
  z
    .string()
    .max(64)
    .regex(/^[A-Za-z][A-Za-z0-9_-]*$/, 'must be the name of a tool');

/** An empty list is valid: an agent that can only talk. */
export const toolNames = () => z.array(toolName()).max(64);

/** An http(s) URL without a user, because a password in the URL would be stored in clear. */
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

/** An empty list only allows the template's own model. */
export const modelPatterns = () => z.array(modelPattern()).max(64);

/** Contains no dot, which separates the credential and the owner in a file's name. */
export const credentialName = () =>
  z
    .string()
    .max(63)
    .regex(/^[A-Za-z0-9_-]+$/);

/** The fields of a template that decide about models. */
export interface ModelChoice {
  readonly model?: string | undefined;
  readonly baseUrl?: string | undefined;
  readonly credential?: string | undefined;
  readonly allowedModels?: readonly string[] | undefined;
}

/**
 * A model name of LiteLLM: no URL in it, which some of its providers would send prompts and keys
 * to, nothing else that redirects.
 */
const nameShape = /^[A-Za-z0-9][A-Za-z0-9._:@+/-]{0,255}$/;
/** Whether a text can be the name of a model. */
export const isModelName = (model: string): boolean =>
  nameShape.test(model) && !model.includes('//') && !model.includes('..');

/**
 * The text before the first slash: LiteLLM selects the provider by it, and with the provider the
 * host that gets prompts and keys.
 */
const providerOf = (model: string): string =>
  model.includes('/') ? model.slice(0, model.indexOf('/')).toLowerCase() : '';

/**
 * Whether a text matches a pattern as a whole, in which each wildcard matches any characters.
 * Linear time: each literal part is matched where it first occurs.
 */
export function matchesPattern(name: string, pattern: string, wildcard = '*'): boolean {
  const [first = '', ...others] = pattern.split(wildcard);
  const last = others.pop();
  if (last === undefined) return name === pattern;
  if (!name.startsWith(first) || name.length < first.length + last.length || !name.endsWith(last))
    return false;
  const end = name.length - last.length;
  let at = first.length;
  for (const part of others) {
    const found = name.indexOf(part, at);
    if (found < 0 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}

/** Whether a pattern names a provider: no star precedes the first slash. */
export const namesProvider = (pattern: string): boolean =>
  !pattern.includes('*') || /^[^*/]+\//.test(pattern);

/**
 * Whether a conversation may use this model. The template's own model is always allowed. For others
 * the template's patterns decide; where it has none and names a credential, the model must have the
 * same provider, at the template's URL: another provider would get the platform's key. Where a
 * credential has no URL, only patterns count that name the provider.
 */
export function isModelAllowed(
  chosen: string,
  { model, baseUrl, credential, allowedModels }: ModelChoice,
): boolean {
  if (chosen === model) return true;
  if (!isModelName(chosen)) return false;
  // An @ would end a user name in a URL. A template that needs it, as for a version at Vertex AI,
  // has it in a pattern.
  const takesAt = (pattern: string) => pattern.includes('@') || !chosen.includes('@');
  const isSafe = (pattern: string) =>
    credential === undefined || baseUrl !== undefined || namesProvider(pattern);
  if (allowedModels !== undefined) {
    return allowedModels.some(
      (pattern) => takesAt(pattern) && isSafe(pattern) && matchesPattern(chosen, pattern),
    );
  }
  if (chosen.includes('@')) return false;
  if (credential === undefined) return true;
  return baseUrl !== undefined && (model === undefined || providerOf(chosen) === providerOf(model));
}
