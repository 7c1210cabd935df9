import type { AcpSettings } from '../resources/acp-settings.ts';
import type { AgentClient } from './agent.ts';

/** An HTTP probe of Kubernetes. Absent fields have the defaults of Kubernetes. */
export interface AgentProbe {
  readonly httpGet: { readonly path: string; readonly port: number };
  readonly initialDelaySeconds?: number;
  readonly periodSeconds?: number;
  readonly timeoutSeconds?: number;
  readonly failureThreshold?: number;
}

/** Fields of the agent's container in addition to the template's. */
export interface AgentContainer {
  /**
   * Overrides the template's environment. Readers of the pod and its processes see the values: no
   * secrets.
   */
  readonly env: readonly { readonly name: string; readonly value: string }[];
  /** Probes for a template that has none. */
  readonly startupProbe: AgentProbe;
  readonly readinessProbe: AgentProbe;
  readonly livenessProbe: AgentProbe;
}

export interface AgentContainerOptions {
  readonly port: number;
  /** Where the volume is mounted. */
  readonly workingDir: string;
  /** A folder on the volume for the agent's own state. */
  readonly stateDir: string;
  /** Key that authenticates the operator's `initialise` call to the agent, and no other call. */
  readonly bootstrapKey: string;
  /** Name of an agent of the kind `acp` that the sandbox keeps. Absent: the template's agent. */
  readonly agentName?: string | undefined;
  /** Settings of the template for an agent of the kind `acp`. */
  readonly acp?: AcpSettings | undefined;
}

/** Definition of a kind of agents: one file each, registered in kinds.ts. */
export interface AgentKindDefinition {
  /** Port of the agent when its template names none. */
  readonly defaultPort: number;
  /** Whether every agent of the kind still asks its question after its container has ended. */
  readonly keepsQuestions: boolean;
  /** One client serves all sandboxes of the kind. */
  createClient(): AgentClient;
  container(options: AgentContainerOptions): AgentContainer;
}
