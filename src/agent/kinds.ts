import { agentKinds, defaultAgentKind, type AgentKind } from '../resources/agent-settings.ts';
import type { Sandbox } from '../resources/sandbox.ts';
import type { SandboxTemplate } from '../resources/sandbox-template.ts';
import { ClientOfKinds } from './client-of-kinds.ts';
import type { AgentKindDefinition } from './kind.ts';
import { openhands } from './openhands.ts';

export const kindDefinitions: Readonly<Record<AgentKind, AgentKindDefinition>> = { openhands };

/** A client for agents of every kind; the endpoint names the kind. */
export const createAgentClient = (): ClientOfKinds =>
  new ClientOfKinds(
    new Map(agentKinds.map((kind) => [kind, kindDefinitions[kind].createClient()])),
  );

/**
 * Kind of a sandbox's agent: the kind of the sandbox's first pod, or before that the template's.
 */
export const agentKindOf = (
  { status }: Pick<Sandbox, 'status'>,
  template: Pick<SandboxTemplate, 'spec'>,
): AgentKind => status?.agentKind ?? template.spec.agent.kind ?? defaultAgentKind;

export const agentPortOf = (
  sandbox: Pick<Sandbox, 'status'>,
  template: Pick<SandboxTemplate, 'spec'>,
): number =>
  template.spec.agent.port ?? kindDefinitions[agentKindOf(sandbox, template)].defaultPort;
