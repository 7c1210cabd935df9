import type { SandboxKeys } from '../../agent/keys.ts';
import type { Logger } from '../../observability/logger.ts';
import { viewOfSandbox, type Sandbox } from '../../resources/sandbox.ts';

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

const defaultAgentPort = 8000;

export interface ExposureOptions {
  /** Called late, since a port may be known only once it listens. Without a slash at the end. */
  readonly publicUrl: () => string;
  readonly keys: Pick<SandboxKeys, 'sessionKey'>;
  readonly logger: Logger;
}

/** Agents behind the gateway's own address. */
export const exposedBy = ({ publicUrl, keys, logger }: ExposureOptions): Exposure => ({
  accessTo: (sandbox) => {
    if (sandbox === undefined || viewOfSandbox(sandbox).phase !== 'RUNNING') return undefined;
    const { name, uid } = sandbox.metadata;
    try {
      return {
        agentUrl: `${publicUrl()}/sandboxes/${name}/AGENT_SERVER`,
        port: sandbox.status?.agentPort ?? defaultAgentPort,
        sessionKey: keys.sessionKey(uid, sandbox.status?.masterKeyId),
      };
    } catch (error) {
      // Made under a master key that this process was not given: its record can be read all the same.
      logger.warn('The key of a sandbox can not be derived', { sandbox: name, error });
      return undefined;
    }
  },
});
