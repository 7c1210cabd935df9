import { z } from 'zod';
import { sandboxStatuses } from '../../resources/conversation-status.ts';
import type { Sandbox } from '../../resources/sandbox.ts';
import { viewOfSandbox } from '../../status/sandbox-phase.ts';
import type { Reader, SessionKeys } from '../auth/session-keys.ts';
import { nullableText, pageSchema, timestampSchema, wireTime } from './schemas.ts';
import { defaultAgentPort } from '../../agent/kinds.ts';

export interface AgentAccess {
  /** An absolute URL without a slash at its end. */
  readonly agentUrl: string;
  readonly port: number;
  /** The session key that the API key `reader` has for this sandbox. */
  readonly sessionKeyFor: (reader: Reader) => string | undefined;
}

export interface Exposure {
  /**
   * The access of clients to a sandbox's agent. Undefined if the sandbox is not RUNNING, or
   * agents are not exposed.
   */
  accessTo(sandbox: Sandbox | undefined): AgentAccess | undefined;
}

interface ExposureOptions {
  /** An absolute URL without a slash at its end. */
  readonly agentUrlOf: (sandboxName: string) => string;
  readonly keys: Pick<SessionKeys, 'has' | 'shownTo'>;
}

/** Exposes agents through the gateway's proxy. */
export const exposedBy = ({ agentUrlOf, keys }: ExposureOptions): Exposure => ({
  accessTo: (sandbox) => {
    if (sandbox === undefined || viewOfSandbox(sandbox).phase !== 'RUNNING') return undefined;
    // Without the agent's key, no request can be forwarded to the agent.
    if (!keys.has(sandbox)) return undefined;
    return {
      agentUrl: agentUrlOf(sandbox.metadata.name),
      port: sandbox.status?.agentPort ?? defaultAgentPort,
      sessionKeyFor: (reader) => keys.shownTo(reader, sandbox),
    };
  },
});

export const exposedUrlSchema = z.object({ name: z.string(), url: z.string(), port: z.int() });

export const sandboxSchema = z.object({
  id: z.string(),
  created_by_user_id: z.string(),
  sandbox_spec_id: z.string(),
  status: z.enum(sandboxStatuses),
  status_detail: nullableText.describe('Why the sandbox has its status, as a text.'),
  session_api_key: nullableText.describe(
    'Opens the agent, as long as the API key of this request is valid. Only while RUNNING.',
  ),
  exposed_urls: z.array(exposedUrlSchema).describe('Empty unless RUNNING.'),
  created_at: timestampSchema,
});
export const sandboxList = z.array(sandboxSchema.nullable());
export const sandboxPage = pageSchema(sandboxSchema);
export type SandboxRecord = z.output<typeof sandboxSchema>;

/** The record of a sandbox. Without `reader`, the record has no session key. */
export function presentSandbox(
  sandbox: Sandbox,
  exposure: Exposure,
  reader?: Reader,
): SandboxRecord {
  const { phase, message } = viewOfSandbox(sandbox);
  const access = exposure.accessTo(sandbox);
  return {
    id: sandbox.metadata.name,
    created_by_user_id: sandbox.spec.owner,
    sandbox_spec_id: sandbox.spec.templateName,
    status: phase,
    status_detail: message === '' ? null : message,
    session_api_key: (reader && access?.sessionKeyFor(reader)) ?? null,
    exposed_urls:
      access === undefined
        ? []
        : [{ name: 'AGENT_SERVER', url: access.agentUrl, port: access.port }],
    created_at: wireTime(sandbox.metadata.creationTimestamp),
  };
}
