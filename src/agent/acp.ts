import { AcpClient } from './acp-client.ts';
import type { AcpSettings } from '../resources/acp-settings.ts';
import type { AgentContainer, AgentContainerOptions, AgentKindDefinition } from './kind.ts';
import { openhands } from './openhands.ts';

type Variables = AgentContainer['env'];
type McpServer = NonNullable<AcpSettings['mcpServers']>[number];

const variables = (env: Readonly<Record<string, string>> = {}): Variables =>
  Object.entries(env).map(([name, value]) => ({ name, value }));

/** A server in the format of the protocol's `session/new`. */
const protocolServer = ({ name, type = 'http', url, command, args = [], env }: McpServer) =>
  url === undefined
    ? { name, command, args, env: variables(env) }
    : { type, name, url, headers: [] };

/**
 * Settings of the bridge. The name of the sandbox's agent comes before the template's, which may
 * have changed since the agent stored its sessions on the volume.
 */
function bridgeSettings({ agentName, acp = { allowAlways: false } }: AgentContainerOptions) {
  const { agent = '', command, mode, env, mcpServers, allowAlways } = acp;
  const isCommand = agentName === undefined && command !== undefined;
  return variables({
    // Both are always present, because the container of the template may have one of them.
    ACP_AGENT: isCommand ? '' : (agentName ?? agent),
    ACP_COMMAND: isCommand ? JSON.stringify(command) : '',
    ...(mode === undefined ? {} : { ACP_MODE: mode }),
    ...(env === undefined ? {} : { ACP_ENV: JSON.stringify(env) }),
    ...(mcpServers === undefined
      ? {}
      : { ACP_MCP_SERVERS: JSON.stringify(mcpServers.map(protocolServer)) }),
    ACP_ALLOW_ALWAYS: String(allowAlways),
  });
}

/**
 * Definition of agents that speak the Agent Client Protocol behind the bridge of the reference
 * agent, which has the API of openhands-agent-server.
 */
export const acp: AgentKindDefinition = {
  defaultPort: openhands.defaultPort,
  createClient: () => new AcpClient(),
  keepsQuestions: true,
  container: (options) => {
    const container = openhands.container(options);
    return { ...container, env: [...container.env, ...bridgeSettings(options)] };
  },
};
