import { z } from 'zod';

/**
 * Protocols of agents. Their clients and containers are in `src/agent/kinds.ts`. The reference
 * agent has the kind `openhands`; as a bridge to another agent, it has the kind `acp`.
 */
export const agentKinds = ['openhands', 'acp'] as const;
export type AgentKind = (typeof agentKinds)[number];
/** The default kind, also of stored sandboxes that have no kind. */
export const defaultAgentKind: AgentKind = 'openhands';

/** Policies by which an agent asks before it acts, as openhands-agent-server names them. */
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

/** An empty list is valid: an agent without tools can only talk. */
export const toolNames = () => z.array(toolName()).max(64);

/** An http(s) URL without user and password, because a password would be stored unencrypted. */
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

/** An empty list allows only the template's own model. */
export const modelPatterns = () => z.array(modelPattern()).max(64);

/** A name without a dot, because a dot separates the credential and the owner in a file name. */
export const credentialName = () =>
  z
    .string()
    .max(63)
    .regex(/^[A-Za-z0-9_-]+$/);

/** The fields of a template that decide which models its conversations may use. */
export interface ModelChoice {
  readonly model?: string | undefined;
  readonly baseUrl?: string | undefined;
  readonly credential?: string | undefined;
  readonly allowedModels?: readonly string[] | undefined;
}

/**
 * A model name of LiteLLM without a URL. Some providers of LiteLLM would send prompts and keys to a
 * host in the name.
 */
const nameShape = /^[A-Za-z0-9][A-Za-z0-9._:@+/-]{0,255}$/;
/** Whether a text can be the name of a model. */
export const isModelName = (model: string): boolean =>
  nameShape.test(model) && !model.includes('//') && !model.includes('..');

/**
 * The text before the first slash. LiteLLM selects the provider by this text, and so the host that
 * receives prompts and keys.
 */
const providerOf = (model: string): string =>
  model.includes('/') ? model.slice(0, model.indexOf('/')).toLowerCase() : '';

/**
 * Whether the whole text matches a pattern, in which each wildcard matches any characters. This
 * takes linear time, because each literal part is matched where it first occurs.
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

/** Whether a pattern names a provider, which means that no star precedes the first slash. */
export const namesProvider = (pattern: string): boolean =>
  !pattern.includes('*') || /^[^*/]+\//.test(pattern);

/**
 * Whether a conversation may use this model. The model of the template is always allowed, and
 * `allowedModels` decides on other models. Without it, a template with a credential allows only
 * models of the same provider at its `baseUrl`: another provider would receive the platform's key.
 * If a template with a credential has no `baseUrl`, only patterns that name the provider count.
 */
export function isModelAllowed(
  chosen: string,
  { model, baseUrl, credential, allowedModels }: ModelChoice,
): boolean {
  if (chosen === model) return true;
  if (!isModelName(chosen)) return false;
  // In a URL, the text before an @ is a user name. A template that needs an @, such as for a
  // version at Vertex AI, names the @ in a pattern.
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
