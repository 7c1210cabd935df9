import { z } from 'zod';
import { archiveSettings, checkArchive } from './archive.ts';
import {
  count,
  fileList,
  flag,
  httpUrl,
  listOf,
  numberFrom,
  operating,
  port,
  readEnvironment,
  seconds,
  shared,
} from './environment.ts';
import { initialObjects } from './initial-objects.ts';
import { checkSandboxTrust, sandboxOutward } from './sandbox-outward.ts';
import { checkGithubApp, serving } from './serving.ts';

/** Maximum number of shards of one operator. */
const maxShards = 64;

const cluster = {
  ...shared,
  ...archiveSettings,
  /** The namespace that is served; by default the one of the kubeconfig or of the pod. */
  NAMESPACE: z.string().optional(),
  /**
   * Files with master keys, the current one first, separated by commas. Each holds at least 32
   * bytes.
   */
  MASTER_KEY_FILES: fileList,
  /**
   * Address at which the servers of the process listen: `::` is every address of both families, or
   * of IPv4 where the system has no IPv6.
   */
  HOST: z.string().default('::'),
  METRICS_PORT: port().default(9464),
};

const operatorSchema = z
  .object({
    ...cluster,
    ...operating,
    /** Work in every namespace, not in one; the lease stays in NAMESPACE. */
    ALL_NAMESPACES: flag(false),
    /**
     * Into how many shards the namespaces are divided: each shard has a leader, and replicas lead
     * different shards. More than one needs ALL_NAMESPACES.
     */
    SHARDS: numberFrom({ from: 1, to: maxShards }).default(1),
    /**
     * The default quota and templates, as documents of YAML: the operator creates them, and lets
     * them follow until people change them.
     */
    INITIAL_OBJECTS: initialObjects,
    /** Port of /alive and /ready. */
    HEALTH_PORT: port().default(8081),
    /**
     * Where sandboxes of NAMESPACE reach the gateway's agent side; absent: they don't, and agents
     * are polled only.
     */
    AGENT_SIDE_URL: httpUrl.optional(),
    ...sandboxOutward,
    /**
     * Address, by default HOST, and port at which gateways report notifications of agents. Without
     * a port, the operator only polls agents.
     */
    NOTIFICATION_HOST: z.string().optional(),
    NOTIFICATION_PORT: port().optional(),
    /** The name of this process among those that want to lead; by default the host's. */
    POD_NAME: z.string().optional(),
    /**
     * How long the others leave a leader alone that does not renew its lease. The same for all of
     * them.
     */
    LEASE_DURATION_SECONDS: seconds().default(15),
    /**
     * Maximum time that a leader works without a renewal. The remaining time of the lease is the
     * deadline of each write.
     */
    LEASE_RENEW_DEADLINE_SECONDS: seconds().default(10),
    /** Between renewals. */
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

const gatewaySettings = z.object({
  ...cluster,
  ...serving,
  PORT: port().default(3000),
  /**
   * Port of the callback server, which only sandboxes need: webhooks and clones of private
   * repositories. Absent: no such server.
   */
  AGENT_SIDE_PORT: port().optional(),
  /**
   * URLs of the operators' notification ports: one name for all of them, or several URLs. Default:
   * none, and operators only poll.
   */
  OPERATOR_NOTIFICATION_URLS: listOf(
    (text) => httpUrl.safeParse(text).success,
    'must be an http or https URL',
  ),
  /** Requests to agents and WebSockets at once: of one sandbox, and of all. */
  PROXY_CONNECTIONS_PER_SANDBOX: count().default(256),
  PROXY_CONNECTIONS: count().default(10_000),
  /** How long an agent may take to begin an answer; some of its calls last as long as a command. */
  PROXY_FIRST_BYTE_SECONDS: seconds().default(600),
  /**
   * How long nothing may come from an agent in the middle of an answer, or in either direction of a
   * WebSocket.
   */
  PROXY_IDLE_SECONDS: seconds().default(600),
  /**
   * Time that a terminating gateway still serves requests after /ready fails, so that no client
   * sends one to a closed port.
   */
  DRAIN_SECONDS: numberFrom({
    from: 0,
    to: 15,
    unit: 'a number of seconds',
    fractions: true,
  }).default(0),
});

const gatewaySchema = gatewaySettings.superRefine(checkGithubApp).superRefine(checkArchive);

/** The settings of `conversation-operator operator`. */
export type OperatorConfig = z.output<typeof operatorSchema>;
/** The settings of `conversation-operator gateway`. */
export type GatewayConfig = z.output<typeof gatewaySchema>;

export const readOperatorConfig = (environment: NodeJS.ProcessEnv): OperatorConfig =>
  readEnvironment(operatorSchema, environment);
export const readGatewayConfig = (environment: NodeJS.ProcessEnv): GatewayConfig =>
  readEnvironment(gatewaySchema, environment);
