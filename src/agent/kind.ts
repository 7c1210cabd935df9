import type { AgentClient } from './agent.ts';

/** Of an HTTP GET, as Kubernetes has it; what is absent is Kubernetes' default. */
export interface AgentProbe {
  readonly httpGet: { readonly path: string; readonly port: number };
  readonly initialDelaySeconds?: number;
  readonly periodSeconds?: number;
  readonly timeoutSeconds?: number;
  readonly failureThreshold?: number;
}

/** What the container of an agent needs beyond what its template says. */
export interface AgentContainer {
  /** Wins over the template's. It can be read by whoever sees the pod, and by what runs in it: no secrets. */
  readonly env: readonly { readonly name: string; readonly value: string }[];
  /** All three give way to the template's. */
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
  /** What the operator shows to the agent to give it its keys; good for nothing else. */
  readonly bootstrapKey: string;
}

/** All that the product knows of a kind of agents: one file each, and a line in kinds.ts. */
export interface AgentKindDefinition {
  /** Where it listens when its template does not say. */
  readonly defaultPort: number;
  /** One client serves all sandboxes of the kind. */
  createClient(): AgentClient;
  container(options: AgentContainerOptions): AgentContainer;
}
