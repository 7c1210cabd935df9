import { defaultAgentPort } from '../../agent/endpoint.ts';
import type { SandboxKeys } from '../../agent/keys.ts';
import type { Logger } from '../../observability/logger.ts';
import { viewOfSandbox, type Sandbox } from '../../resources/sandbox.ts';
import { SessionKeys } from '../proxy/session-keys.ts';

export interface AgentAccess {
  /** Absolute, without a slash at the end. */
  readonly agentUrl: string;
  readonly port: number;
  readonly sessionKey: string;
}

export interface Exposure {
  /** How clients reach a sandbox's agent. Undefined unless it is RUNNING, and where agents are not exposed at all. */
  accessTo(sandbox: Sandbox | undefined): AgentAccess | undefined;
}

export const nothingExposed: Exposure = { accessTo: () => undefined };

export const isSameAccess = (one: AgentAccess | undefined, other: AgentAccess | undefined): boolean =>
  one?.agentUrl === other?.agentUrl && one?.sessionKey === other?.sessionKey;

export interface ExposureOptions {
  /** Absolute, without a slash at the end. */
  readonly agentUrlOf: (sandboxName: string) => string;
  readonly keys: Pick<SandboxKeys, 'sessionKey'>;
  readonly logger: Logger;
}

/** Agents behind the gateway's proxy. */
export function exposedBy({ agentUrlOf, keys, logger }: ExposureOptions): Exposure {
  const sessionKeys = new SessionKeys({ keys, logger });
  return {
    accessTo: (sandbox) => {
      if (sandbox === undefined || viewOfSandbox(sandbox).phase !== 'RUNNING') return undefined;
      const sessionKey = sessionKeys.of(sandbox);
      if (sessionKey === undefined) return undefined;
      return { agentUrl: agentUrlOf(sandbox.metadata.name), port: sandbox.status?.agentPort ?? defaultAgentPort, sessionKey };
    },
  };
}
