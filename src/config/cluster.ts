import { z } from 'zod';
import { port, readEnvironment, shared } from './environment.ts';

const cluster = {
  ...shared,
  /** The namespace that is served; by default the one of the kubeconfig or of the pod. */
  NAMESPACE: z.string().optional(),
  /** Files with master keys, the current one first, separated by commas. Each holds at least 32 bytes. */
  MASTER_KEY_FILES: z.string('must name at least one file').transform((text) => text.split(',')),
  METRICS_PORT: port(9464),
};

const operatorSchema = z.object({
  ...cluster,
  /** Of /alive and /ready. */
  HEALTH_PORT: port(8081),
  /** The name of this process among those that want to lead; by default the host's. */
  POD_NAME: z.string().optional(),
});

const gatewaySchema = z.object({ ...cluster, HOST: z.string().default('0.0.0.0'), PORT: port(3000) });

/** The settings of `conversation-operator operator`. */
export type OperatorConfig = z.output<typeof operatorSchema>;
/** The settings of `conversation-operator gateway`. */
export type GatewayConfig = z.output<typeof gatewaySchema>;

export const readOperatorConfig = (environment: NodeJS.ProcessEnv): OperatorConfig => readEnvironment(operatorSchema, environment);
export const readGatewayConfig = (environment: NodeJS.ProcessEnv): GatewayConfig => readEnvironment(gatewaySchema, environment);
