import { defaultAgentPort } from '../../agent/endpoint.ts';
import { viewOfSandbox, type Sandbox } from '../../resources/sandbox.ts';
import type { Reader, SessionKeys } from '../auth/session-keys.ts';

export interface AgentAccess {
  /** An absolute URL without a slash at its end. */
  readonly agentUrl: string;
  readonly port: number;
  /** The session key that the reader shows there. */
  readonly sessionKeyFor: (reader: Reader) => string | undefined;
}

export interface Exposure {
  /**
   * The access of clients to a sandbox's agent. Undefined unless the sandbox is RUNNING, and where
   * agents are not exposed.
   */
  accessTo(sandbox: Sandbox | undefined): AgentAccess | undefined;
}

export interface ExposureOptions {
  /** An absolute URL without a slash at its end. */
  readonly agentUrlOf: (sandboxName: string) => string;
  readonly keys: Pick<SessionKeys, 'has' | 'shownTo'>;
}

/** Agents behind the gateway's proxy. */
export const exposedBy = ({ agentUrlOf, keys }: ExposureOptions): Exposure => ({
  accessTo: (sandbox) => {
    if (sandbox === undefined || viewOfSandbox(sandbox).phase !== 'RUNNING') return undefined;
    // Without its key no request gets through to the agent.
    if (!keys.has(sandbox)) return undefined;
    return {
      agentUrl: agentUrlOf(sandbox.metadata.name),
      port: sandbox.status?.agentPort ?? defaultAgentPort,
      sessionKeyFor: (reader) => keys.shownTo(reader, sandbox),
    };
  },
});
