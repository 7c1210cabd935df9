import { defaultAgentPort } from '../../agent/endpoint.ts';
import { viewOfSandbox, type Sandbox } from '../../resources/sandbox.ts';
import type { Reader, SessionKeys } from '../proxy/session-keys.ts';

export interface AgentAccess {
  /** Absolute, without a slash at the end. */
  readonly agentUrl: string;
  readonly port: number;
  /** The session key that the reader shows there. */
  readonly sessionKeyFor: (reader: Reader) => string | undefined;
}

export interface Exposure {
  /** How clients reach a sandbox's agent. Undefined unless it is RUNNING, and where agents are not exposed at all. */
  accessTo(sandbox: Sandbox | undefined): AgentAccess | undefined;
}

export const nothingExposed: Exposure = { accessTo: () => undefined };

export interface ExposureOptions {
  /** Absolute, without a slash at the end. */
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
