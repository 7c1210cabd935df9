import { EventRecorder } from '@conversation-operator/kube/events';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { GatewayConfig } from '../config/cluster.ts';
import type { UpConfig } from '../config/up.ts';
import { newHostApis } from '../gateway/git/host-api/host-apis.ts';
import type { GitCredentials } from '../gateway/git/hosts.ts';
import type { Caches } from '../gateway/lookup/cache.ts';
import { PullRequestStates } from '../gateway/pull-requests/pull-request-states.ts';
import { PullRequests } from '../gateway/pull-requests/pull-requests.ts';
import { auditOf } from './gateway-settings.ts';
import type { OutwardRuntime } from './outward.ts';

export interface PullRequestServiceOptions {
  readonly client: KubeClient;
  readonly credentials: GitCredentials;
  readonly caches: Pick<Caches, 'conversations' | 'templates'>;
}

/**
 * Opens pull requests for clients and agents, and reads the states of open ones again, until the
 * stack ends.
 */
export function pullRequestService(
  config: GatewayConfig | UpConfig,
  { client, credentials, caches }: PullRequestServiceOptions,
  runtime: OutwardRuntime,
  stack: AsyncDisposableStack,
): PullRequests {
  const { GIT_HOSTS: hosts, GIT_API_URLS: apiUrls } = config;
  const { clock, metrics, outward } = runtime;
  const logger = runtime.logger.child({ component: 'git' });
  const apis = newHostApis({ hosts, apiUrls, outward });
  stack.defer(() => apis.close());
  const events = new EventRecorder({ client, component: 'gateway', ...runtime });
  stack.defer(() => events.close());
  const [defaultProvider] = Object.keys(hosts);
  const pullRequests = new PullRequests({
    ...{ client, events, credentials, defaultProvider, clock, logger, metrics },
    audit: auditOf(config),
    templates: caches.templates,
    apiOf: (provider) => apis.of(provider),
  });
  const states = new PullRequestStates({
    ...{ conversations: caches.conversations, pullRequests, clock, logger },
  });
  stack.defer(() => states.close());
  return pullRequests;
}
