import type { SandboxKeys } from '../agent/keys.ts';
import { sealingUnder } from '../agent/sealing.ts';
import type { GatewayConfig } from '../config/cluster.ts';
import type { UpConfig } from '../config/up.ts';
import { SecretReads } from '../gateway/auth/secret-reads.ts';
import {
  createCallbackServer,
  type CallbackServerOptions,
} from '../gateway/callback-server/callback-server.ts';
import { secretsHandler } from '../gateway/callback-server/secrets.ts';
import { webhooks, type WebhooksOptions } from '../gateway/callback-server/webhooks.ts';
import { GitHandler } from '../gateway/git/git-handler.ts';
import type { GitCredentials } from '../gateway/git/hosts.ts';
import { maxTransferMs } from '../gateway/git/git-relay.ts';
import { PrivateHost } from '../gateway/git/private-host.ts';
import { PushRecords } from '../gateway/git/push-records.ts';
import type { Caches } from '../gateway/lookup/cache.ts';
import { SecretReader } from '../gateway/lookup/secret-reader.ts';
import { EventRecorder } from '@conversation-operator/kube/events';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { PullRequests } from '../gateway/pull-requests/pull-requests.ts';
import { pullRequestTools } from '../gateway/pull-requests/tools.ts';
import { auditOf } from './gateway-settings.ts';
import type { OutwardRuntime } from './outward.ts';

export interface AgentSideOptions
  extends
    Pick<CallbackServerOptions, 'namespace' | 'host' | 'port' | 'maxConnectionsPerAddress'>,
    Pick<WebhooksOptions, 'notify'> {
  readonly credentials: GitCredentials;
  readonly keys: SandboxKeys;
  readonly caches: Pick<Caches, 'conversations' | 'sandboxes' | 'templates' | 'ownerSettings'>;
  readonly client: KubeClient;
  readonly pullRequests: PullRequests;
  readonly version: string;
}

/** To one git host, of all the sandboxes. */
const hostConnections = 128;

/**
 * Serves what sandboxes may ask of the gateway until the stack ends: git, tools for pull requests,
 * and webhooks. Returns the port.
 */
export async function serveAgentSide(
  config: GatewayConfig | UpConfig,
  { credentials, keys, caches, notify, client, pullRequests, version, ...server }: AgentSideOptions,
  runtime: OutwardRuntime,
  stack: AsyncDisposableStack,
): Promise<number> {
  const { GIT_HOSTS: hosts } = config;
  const { clock, metrics, outward } = runtime;
  const audit = auditOf(config);
  const logger = runtime.logger.child({ component: 'git' });
  const host = new PrivateHost({
    ...{ hosts, credentials, clock, logger, outward },
    connections: hostConnections,
  });
  stack.defer(() => host.close());
  const { conversations, sandboxes, templates, ownerSettings } = caches;
  const [defaultProvider] = Object.keys(hosts);
  const events = new EventRecorder({ client, component: 'gateway', ...runtime });
  stack.defer(() => events.close());
  const git = new GitHandler({
    ...{ host, keys, conversations, templates, defaultProvider },
    records: new PushRecords({ client, events, audit, clock, logger }),
    limits: { totalMs: maxTransferMs(config.CLONE_TIMEOUT_SECONDS) },
    ...{ clock, logger, metrics },
  });
  const tools = pullRequestTools({ keys, conversations, pullRequests, version, clock, logger });
  const reads = new SecretReads({ audit, clock });
  stack.defer(() => reads.close());
  const secrets = secretsHandler({
    ...{ keys, reads, clock },
    secrets: new SecretReader({
      ...{ client, conversations, ownerSettings, sealing: sealingUnder(keys) },
    }),
  });
  const hooks = webhooks({ keys, notify, clock, metrics });
  const agentSide = createCallbackServer({
    ...{ ...runtime, ...server, sandboxes },
    handlers: [git, tools, secrets, hooks],
  });
  stack.defer(() => agentSide.close());
  return (await agentSide.listen()).port;
}
