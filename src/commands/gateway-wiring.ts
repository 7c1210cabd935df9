import type { GatewayConfig } from '../config/cluster.ts';
import type { UpConfig } from '../config/up.ts';
import { ConfigError } from '../config/environment.ts';
import { readSignIn } from '../config/sign-in.ts';
import type { Transport } from '@conversation-operator/kube/transport';
import type { ClusterKeys } from '../gateway/sign-in/service-accounts.ts';
import { z } from 'zod';
import type { GatewayOptions } from '../gateway/gateway.ts';
import { auditLogOf } from './process.ts';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { EventRecorder } from '@conversation-operator/kube/events';
import type { KubeClient } from '@conversation-operator/kube/client';
import { newHostApis } from '../gateway/git/host-api/host-apis.ts';
import type { GitCredentials } from '../gateway/git/hosts.ts';
import type { Caches } from '../gateway/lookup/cache.ts';
import { PullRequestStates } from '../gateway/pull-requests/pull-request-states.ts';
import { PullRequests } from '../gateway/pull-requests/pull-requests.ts';
import type { OutwardRuntime } from './outward.ts';
import type { AgentCredentials } from '../agent/credentials.ts';
import type { SandboxKeys } from '../agent/keys.ts';
import { auditTo, type Audit } from '../observability/audit.ts';
import { auditFile, checkAuditFile } from '../observability/audit-file.ts';
import type { MeasuredRuntime } from '../observability/metrics.ts';
import { sealingUnder } from '../agent/sealing.ts';
import { SecretReads } from '../gateway/auth/secret-reads.ts';
import { createCallbackServer } from '../gateway/callback-server/callback-server.ts';
import { secretsHandler } from '../gateway/callback-server/secrets.ts';
import { webhooks, type WebhooksOptions } from '../gateway/callback-server/webhooks.ts';
import { GitHandler } from '../gateway/git/git-handler.ts';
import { maxTransferMs } from '../gateway/git/git-relay.ts';
import { relayForModels } from './models-wiring.ts';
import { PrivateHost } from '../gateway/git/private-host.ts';
import { PushRecords } from '../gateway/git/push-records.ts';
import { SecretReader } from '../gateway/lookup/secret-reader.ts';
import { pullRequestTools } from '../gateway/pull-requests/tools.ts';

const dayMs = 24 * 60 * 60 * 1000;

/**
 * The audit log: in AUDIT_FILE, or in the log at every LOG_LEVEL. Throws a ConfigError for a file
 * that can't be written.
 */
export function auditOf(
  config: GatewayConfig | UpConfig,
  { clock, metrics }: Pick<MeasuredRuntime, 'clock' | 'metrics'>,
): Audit {
  const log = auditLogOf(config);
  const { AUDIT_FILE: path } = config;
  if (path === undefined) return auditTo(log);
  try {
    checkAuditFile(path);
  } catch (error) {
    throw new ConfigError(`AUDIT_FILE: ${path} can't be written: ${String(error)}`);
  }
  return auditTo(auditFile({ path, clock, metrics, fallback: log }));
}

export const gatewaySettings = (config: GatewayConfig | UpConfig) =>
  ({
    legacyApi: config.LEGACY_API,
    gitHosts: config.GIT_HOSTS,
    corsOrigins: config.CORS_ORIGINS,
    trustedProxies: config.TRUSTED_PROXIES,
    rateLimits: {
      readsPerSecond: config.RATE_LIMIT_READS,
      writesPerSecond: config.RATE_LIMIT_WRITES,
      failedKeysPerMinute: config.RATE_LIMIT_FAILED_KEYS,
    },
    ...(config.API_KEY_MAX_LIFETIME_DAYS === 0
      ? {}
      : { maxKeyLifetimeMs: config.API_KEY_MAX_LIFETIME_DAYS * dayMs }),
    load: { maxUnderWay: config.MAX_REQUESTS, maxDelayMs: config.OVERLOAD_DELAY_MS },
    maxConnections: config.MAX_CONNECTIONS,
    maxConnectionsPerAddress: config.MAX_CONNECTIONS_PER_ADDRESS,
    ...(config.METRICS_URL === undefined ? {} : { metricsUrl: config.METRICS_URL }),
    ...(config.PUBLIC_URL === undefined ? {} : { publicUrl: config.PUBLIC_URL }),
  }) satisfies Partial<GatewayOptions>;

/**
 * The keys of the cluster's tokens, which the API server shows to all service accounts
 * (`system:service-account-issuer-discovery`).
 */
async function clusterKeysOf(transport: Pick<Transport, 'call'>): Promise<ClusterKeys> {
  const accept = 'application/json, application/jwk-set+json';
  const read = (path: string) =>
    transport.call({ verb: 'get', resource: 'openid', method: 'GET', path, accept });
  const document = await read('/.well-known/openid-configuration');
  const { issuer } = z.object({ issuer: z.string() }).parse(document);
  const keySet = z.object({ keys: z.array(z.looseObject({ kty: z.string() })) });
  return { issuer, keys: keySet.parse(await read('/openid/v1/jwks')) };
}

const tokenReviewSchema = z.object({
  status: z.object({
    authenticated: z.boolean().default(false),
    audiences: z.array(z.string()).default([]),
    user: z.object({ username: z.string().optional() }).default({}),
  }),
});

/** Needs the right to create TokenReviews. An API server that knows no audiences accepts none. */
async function reviewOf(
  transport: Pick<Transport, 'call'>,
  token: string,
  audience: string,
): Promise<string | undefined> {
  const apiVersion = 'authentication.k8s.io/v1';
  const answer = await transport.call({
    verb: 'create',
    resource: 'tokenreviews',
    method: 'POST',
    path: `/apis/${apiVersion}/tokenreviews`,
    body: { apiVersion, kind: 'TokenReview', spec: { token, audiences: [audience] } },
  });
  const { authenticated, audiences, user } = tokenReviewSchema.parse(answer).status;
  return authenticated && audiences.includes(audience) ? user.username : undefined;
}

/**
 * Identity providers and service accounts of the settings. Throws a ConfigError for a file that is
 * not valid.
 * @param transport Reads the keys of the cluster. Absent: service accounts have no tokens.
 */
export function signInOf(
  config: GatewayConfig | UpConfig,
  { outward }: Pick<OutwardRuntime, 'outward'>,
  transport?: Pick<Transport, 'call'>,
) {
  const { issuers, serviceAccounts: settings } = readSignIn(config);
  if (issuers.length > 0 && transport !== undefined && config.PUBLIC_URL === undefined)
    throw new ConfigError('PUBLIC_URL is needed: identity providers send people back to it');
  if (settings !== undefined && transport === undefined)
    throw new ConfigError('SIGN_IN_FILE: serviceAccounts: needs a cluster, which make run is not');
  return {
    signIn: {
      issuers,
      outward,
      requireActivePerson: config.SIGN_IN_KEYS_REQUIRE_ACTIVE_PERSON,
      ...(settings === undefined || transport === undefined
        ? {}
        : {
            serviceAccounts: {
              settings,
              readKeys: () => clusterKeysOf(transport),
              review: (token: string, audience: string) => reviewOf(transport, token, audience),
            },
          }),
    },
  };
}

/** A folder of the build: beside the bundled program, or in `dist` of a checkout. */
const builtFolder = (programFolder: string, name: string, file: string): string | undefined =>
  [name, `../dist/${name}`]
    .map((path) => join(programFolder, path))
    .find((path) => existsSync(join(path, file)));

/** Folders of the built pages, and of the official web UI if `UI` is true. Absent if not built. */
export function webDirectories(
  programFolder: string,
  { UI }: { readonly UI: boolean },
): { readonly webDirectory?: string; readonly uiDirectory?: string } {
  const webDirectory = builtFolder(programFolder, 'web', 'app.js');
  const uiDirectory = UI ? builtFolder(programFolder, 'ui', 'index.html') : undefined;
  return {
    ...(webDirectory === undefined ? {} : { webDirectory }),
    ...(uiDirectory === undefined ? {} : { uiDirectory }),
  };
}

interface PullRequestServiceOptions {
  readonly client: KubeClient;
  readonly credentials: GitCredentials;
  readonly caches: Pick<Caches, 'conversations' | 'templates'>;
  readonly audit: Audit;
}

/** Opens pull requests, and polls the states of open ones. The stack closes the service. */
export function pullRequestService(
  config: GatewayConfig | UpConfig,
  { client, credentials, caches, audit }: PullRequestServiceOptions,
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
    client,
    events,
    credentials,
    defaultProvider,
    clock,
    logger,
    metrics,
    audit,
    templates: caches.templates,
    apiOf: (provider) => apis.of(provider),
  });
  const states = new PullRequestStates({
    conversations: caches.conversations,
    pullRequests,
    clock,
    logger,
  });
  stack.defer(() => states.close());
  return pullRequests;
}

interface AgentSideOptions {
  readonly namespace: string;
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  readonly maxConnectionsPerAddress?: number;
  readonly notify: WebhooksOptions['notify'];
  readonly credentials: GitCredentials;
  /**
   * API keys of models, which the relay for models adds to the requests of agents. Absent: another
   * process serves the relay.
   */
  readonly modelCredentials: AgentCredentials | undefined;
  readonly keys: SandboxKeys;
  readonly caches: Pick<
    Caches,
    'conversations' | 'sandboxes' | 'templates' | 'ownerSettings' | 'quotas'
  >;
  readonly client: KubeClient;
  readonly pullRequests: PullRequests;
  readonly audit: Audit;
  readonly version: string;
}

/** Maximum connections to one git host, for all sandboxes together. */
const hostConnections = 128;

/**
 * Serves git, tools, secrets, models and webhooks to sandboxes until the stack closes. Returns a
 * port.
 */
export async function serveAgentSide(
  config: GatewayConfig | UpConfig,
  {
    credentials,
    modelCredentials,
    keys,
    caches,
    notify,
    client,
    pullRequests,
    audit,
    version,
    ...server
  }: AgentSideOptions,
  runtime: OutwardRuntime,
  stack: AsyncDisposableStack,
): Promise<number> {
  const { GIT_HOSTS: hosts } = config;
  const { clock, metrics, outward } = runtime;
  const logger = runtime.logger.child({ component: 'git' });
  const host = new PrivateHost({
    hosts,
    credentials,
    clock,
    logger,
    outward,
    connections: hostConnections,
  });
  stack.defer(() => host.close());
  const { conversations, sandboxes, templates, ownerSettings } = caches;
  const [defaultProvider] = Object.keys(hosts);
  const events = new EventRecorder({ client, component: 'gateway', ...runtime });
  stack.defer(() => events.close());
  const git = new GitHandler({
    host,
    keys,
    conversations,
    templates,
    defaultProvider,
    records: new PushRecords({ client, events, audit, clock, logger }),
    limits: { totalMs: maxTransferMs(config.CLONE_TIMEOUT_SECONDS) },
    clock,
    logger,
    metrics,
  });
  const tools = pullRequestTools({ keys, conversations, pullRequests, version, clock, logger });
  const reads = new SecretReads({ audit, clock });
  stack.defer(() => reads.close());
  const sealing = sealingUnder(keys);
  const reader = new SecretReader({ client, conversations, ownerSettings, sealing });
  const secrets = secretsHandler({ keys, reads, clock, secrets: reader });
  const models =
    modelCredentials === undefined
      ? []
      : [
          relayForModels(
            { config, client, events, keys, caches, credentials: modelCredentials, ...server },
            runtime,
            stack,
          ),
        ];
  const hooks = webhooks({ keys, notify, clock, metrics });
  const agentSide = createCallbackServer({
    ...runtime,
    ...server,
    sandboxes,
    handlers: [git, tools, secrets, ...models, hooks],
  });
  stack.defer(() => agentSide.close());
  return (await agentSide.listen()).port;
}
