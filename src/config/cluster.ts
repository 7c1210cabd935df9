import { z, type core } from 'zod';
import { archiveSettings, checkArchive } from './archive.ts';
import {
  count,
  fileList,
  flag,
  httpUrl,
  listOf,
  logging,
  numberFrom,
  operating,
  port,
  readEnvironment,
  seconds,
  shared,
} from './environment.ts';
import { initialObjects } from './initial-objects.ts';
import { modelSettings } from './models.ts';
import { outwardSettings } from './outward.ts';
import { checkGithubApp, serving } from './serving.ts';

/** A URL without a password, because every command of an agent can read the URL. */
const publicProxyUrl = httpUrl.refine((url) => !url.includes('@'), {
  error: 'must be a URL without a user and a password, which every command of an agent could read',
});

const objectName = z
  .string()
  .regex(
    /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/,
    'must be the name of an object: lower-case letters, digits, dots and hyphens',
  );

/** How sandboxes reach hosts outside the cluster, unless their templates differ. */
export const sandboxOutward = {
  /** Proxy of sandboxes for https. Default: none. */
  SANDBOX_HTTPS_PROXY: publicProxyUrl.optional(),
  /** Proxy of sandboxes for http. Default: none. */
  SANDBOX_HTTP_PROXY: publicProxyUrl.optional(),
  /** Hosts that sandboxes reach without the proxy, besides themselves and the gateway. */
  SANDBOX_NO_PROXY: listOf(
    (host) => !/\s/.test(host),
    'must be hosts, domains, addresses and ranges, separated by commas',
  ),
  /**
   * A ConfigMap in the namespace of each sandbox, with certificates that programs in the sandbox
   * trust in addition to those of the image. Can't be combined with SANDBOX_TRUST_SECRET.
   */
  SANDBOX_TRUST_CONFIG_MAP: objectName.optional(),
  /** A Secret to use instead of SANDBOX_TRUST_CONFIG_MAP. */
  SANDBOX_TRUST_SECRET: objectName.optional(),
  /** Key of the entry with the certificates, in the ConfigMap or Secret. The format is PEM. */
  SANDBOX_TRUST_KEY: z
    .string()
    .regex(
      /^(?!\.$|\.\.)[\w.-]{1,253}$/,
      'must be the name of an entry: letters, digits, dots, hyphens and underscores, and not begin with two dots',
    )
    .default('ca.crt'),
};

type SandboxOutward = z.output<z.ZodObject<typeof sandboxOutward>>;

export function checkSandboxTrust(
  { SANDBOX_TRUST_CONFIG_MAP, SANDBOX_TRUST_SECRET }: SandboxOutward,
  context: core.$RefinementCtx,
): void {
  if (SANDBOX_TRUST_CONFIG_MAP === undefined || SANDBOX_TRUST_SECRET === undefined) return;
  context.addIssue({
    code: 'custom',
    path: ['SANDBOX_TRUST_SECRET'],
    message: "can't be combined with SANDBOX_TRUST_CONFIG_MAP",
  });
}

export function sandboxOutwardOf({
  SANDBOX_HTTPS_PROXY: https,
  SANDBOX_HTTP_PROXY: http,
  SANDBOX_NO_PROXY: noProxy,
  SANDBOX_TRUST_CONFIG_MAP: configMap,
  SANDBOX_TRUST_SECRET: secret = configMap,
  SANDBOX_TRUST_KEY: key,
}: SandboxOutward) {
  const kind: 'ConfigMap' | 'Secret' = configMap === undefined ? 'Secret' : 'ConfigMap';
  return {
    ...(https === undefined && http === undefined ? {} : { proxy: { https, http, noProxy } }),
    ...(secret === undefined ? {} : { trust: { kind, name: secret, key } }),
  };
}

const maxShards = 64;

/** Settings of every process that works in a cluster. */
const inCluster = {
  /** The namespace that is served; by default the one of the kubeconfig or of the pod. */
  NAMESPACE: z.string().optional(),
  /** Files with master keys of at least 32 bytes, the current one first, separated by commas. */
  MASTER_KEY_FILES: fileList,
  /** Address to listen on. `::` means all addresses: IPv4, and IPv6 if the host supports IPv6. */
  HOST: z.string().default('::'),
  METRICS_PORT: port().default(9464),
};

const cluster = { ...shared, ...archiveSettings, ...inCluster };

const operatorSchema = z
  .object({
    ...cluster,
    ...operating,
    /** Whether the operator serves all namespaces. Its lease stays in NAMESPACE. */
    ALL_NAMESPACES: flag(false),
    /**
     * Number of shards. Each namespace belongs to one shard, and each shard has one leader among
     * the replicas. More than 1 needs ALL_NAMESPACES.
     */
    SHARDS: numberFrom({ from: 1, to: maxShards }).default(1),
    /**
     * The default quota and templates as YAML documents. The operator creates these objects, and
     * updates each one until a person changes it.
     */
    INITIAL_OBJECTS: initialObjects,
    HEALTH_PORT: port().default(8081),
    /** URL of the gateway's callback server, for sandboxes of NAMESPACE. Absent: only polling. */
    AGENT_SIDE_URL: httpUrl.optional(),
    /**
     * URL of the relay for models, for sandboxes of NAMESPACE. Absent: the callback server of
     * AGENT_SIDE_URL serves the relay.
     */
    MODEL_RELAY_URL: httpUrl.optional(),
    ...sandboxOutward,
    /**
     * Address (default: HOST) and port to which gateways forward notifications of agents. Without a
     * port, the operator only polls agents.
     */
    NOTIFICATION_HOST: z.string().optional(),
    NOTIFICATION_PORT: port().optional(),
    /** The identity of this process in leader election; by default the host's name. */
    POD_NAME: z.string().optional(),
    /** Time without a renewal after which a leader's lease expires; the same for all replicas. */
    LEASE_DURATION_SECONDS: seconds().default(15),
    /** Time without renewal after which a leader stops; its writes end before the lease expires. */
    LEASE_RENEW_DEADLINE_SECONDS: seconds().default(10),
    /** Delay between two renewals. */
    LEASE_RETRY_PERIOD_SECONDS: seconds().default(2),
  })
  .superRefine((config, context) => {
    const {
      LEASE_DURATION_SECONDS: duration,
      LEASE_RENEW_DEADLINE_SECONDS: deadline,
      LEASE_RETRY_PERIOD_SECONDS: retry,
    } = config;
    const refuse = (name: keyof typeof config, message: string) =>
      context.addIssue({ code: 'custom', path: [name], message });
    if (config.MODEL_RELAY_URL !== undefined && config.AGENT_SIDE_URL === undefined)
      refuse('MODEL_RELAY_URL', 'needs AGENT_SIDE_URL');
    if (config.SHARDS > 1 && !config.ALL_NAMESPACES)
      refuse('SHARDS', 'must be 1 unless ALL_NAMESPACES is true');
    if (duration <= deadline)
      refuse(
        'LEASE_DURATION_SECONDS',
        `must be more than LEASE_RENEW_DEADLINE_SECONDS (${deadline})`,
      );
    if (deadline <= 1.2 * retry)
      refuse(
        'LEASE_RETRY_PERIOD_SECONDS',
        `must be less than LEASE_RENEW_DEADLINE_SECONDS (${deadline}) divided by 1.2`,
      );
  })
  .superRefine(checkSandboxTrust)
  .superRefine(checkArchive);

/** Settings of processes to which clients or sandboxes connect. */
const draining = {
  /**
   * Time for which a terminating process still serves requests after /ready has begun to fail, so
   * that no client sends a request to a closed port.
   */
  DRAIN_SECONDS: numberFrom({
    from: 0,
    to: 15,
    unit: 'a number of seconds',
    fractions: true,
  }).default(0),
};

const gatewaySettings = z.object({
  ...cluster,
  ...draining,
  ...serving,
  PORT: port().default(3000),
  /**
   * Port of the callback server, to which only sandboxes connect, for webhooks and for clones of
   * private repositories. Absent: no callback server.
   */
  AGENT_SIDE_PORT: port().optional(),
  /** Whether the callback server serves the relay for models, instead of a process `relay`. */
  MODEL_RELAY: flag(true),
  /**
   * URLs of the operators' NOTIFICATION_PORT: one DNS name for all replicas, or several URLs.
   * Default: none, so that operators only poll agents.
   */
  OPERATOR_NOTIFICATION_URLS: listOf(
    (text) => httpUrl.safeParse(text).success,
    'must be an http or https URL',
  ),
  /** Maximum concurrent requests and WebSockets to one agent; PROXY_CONNECTIONS: to all agents. */
  PROXY_CONNECTIONS_PER_SANDBOX: count().default(256),
  PROXY_CONNECTIONS: count().default(10_000),
  /** Maximum time until an agent begins a response, which may wait for the end of a command. */
  PROXY_FIRST_BYTE_SECONDS: seconds().default(600),
  /** Maximum idle time of an agent's response, or of both directions of a WebSocket. */
  PROXY_IDLE_SECONDS: seconds().default(600),
});

const gatewaySchema = gatewaySettings.superRefine(checkGithubApp).superRefine(checkArchive);

const relaySchema = z.object({
  ...logging,
  ...outwardSettings,
  ...inCluster,
  ...draining,
  ...modelSettings,
  /** Port of the callback server, to which only sandboxes connect. */
  AGENT_SIDE_PORT: port().default(3001),
});

export type RelayConfig = z.output<typeof relaySchema>;
export type OperatorConfig = z.output<typeof operatorSchema>;
export type GatewayConfig = z.output<typeof gatewaySchema>;

export const readOperatorConfig = (environment: NodeJS.ProcessEnv): OperatorConfig =>
  readEnvironment(operatorSchema, environment);
export const readRelayConfig = (environment: NodeJS.ProcessEnv): RelayConfig =>
  readEnvironment(relaySchema, environment);
export const readGatewayConfig = (environment: NodeJS.ProcessEnv): GatewayConfig =>
  readEnvironment(gatewaySchema, environment);
