import type { SandboxKeys } from '../agent/keys.ts';
import type { GatewayConfig } from '../config/cluster.ts';
import type { UpConfig } from '../config/up.ts';
import {
  createCallbackServer,
  type CallbackServerOptions,
} from '../gateway/callback-server/callback-server.ts';
import { webhooks, type WebhooksOptions } from '../gateway/callback-server/webhooks.ts';
import { CloneHandler } from '../gateway/git/clone-handler.ts';
import type { GitCredentials } from '../gateway/git/hosts.ts';
import { PrivateHost } from '../gateway/git/private-host.ts';
import type { Caches } from '../gateway/lookup/cache.ts';
import type { MeasuredRuntime } from '../observability/runtime.ts';

export interface AgentSideOptions
  extends
    Pick<CallbackServerOptions, 'namespace' | 'host' | 'port' | 'maxConnectionsPerAddress'>,
    Pick<WebhooksOptions, 'notify'> {
  readonly credentials: GitCredentials;
  readonly keys: SandboxKeys;
  readonly caches: Pick<Caches, 'conversations' | 'sandboxes'>;
}

/** To one git host, of all the sandboxes that clone from it. */
const cloneConnections = 128;

/**
 * Serves what sandboxes may ask of the gateway until the stack ends: clones of private
 * repositories, and webhooks. Returns the port.
 */
export async function serveAgentSide(
  { GIT_HOSTS: hosts }: GatewayConfig | UpConfig,
  { credentials, keys, caches, notify, ...server }: AgentSideOptions,
  runtime: MeasuredRuntime,
  stack: AsyncDisposableStack,
): Promise<number> {
  const { clock, metrics } = runtime;
  const logger = runtime.logger.child({ component: 'git' });
  const host = new PrivateHost({
    ...{ hosts, credentials, clock, logger },
    connections: cloneConnections,
  });
  stack.defer(() => host.close());
  const { conversations, sandboxes } = caches;
  const [defaultProvider] = Object.keys(hosts);
  const clones = new CloneHandler({
    ...{ host, keys, conversations, defaultProvider },
    ...{ clock, logger, metrics },
  });
  const hooks = webhooks({ keys, notify, clock, metrics });
  const agentSide = createCallbackServer({
    ...{ ...runtime, ...server, sandboxes },
    handlers: [clones, hooks],
  });
  stack.defer(() => agentSide.close());
  return (await agentSide.listen()).port;
}
