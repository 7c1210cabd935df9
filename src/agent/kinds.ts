import { agentKinds, defaultAgentKind, type AgentKind } from '../resources/agent-settings.ts';
import type { SandboxTemplate } from '../resources/sandbox-template.ts';
import { ClientOfKinds } from './client-of-kinds.ts';
import type { AgentKindDefinition } from './kind.ts';
import { openhands } from './openhands.ts';

export const kindDefinitions: Readonly<Record<AgentKind, AgentKindDefinition>> = { openhands };

/** A client for agents of every kind; each endpoint says which it is of. */
export const createAgentClient = (): ClientOfKinds =>
  new ClientOfKinds(new Map(agentKinds.map((kind) => [kind, kindDefinitions[kind].createClient()])));

export const agentKindOf = (template: Pick<SandboxTemplate, 'spec'>): AgentKind => template.spec.agent.kind ?? defaultAgentKind;

export const agentPortOf = (template: Pick<SandboxTemplate, 'spec'>): number =>
  template.spec.agent.port ?? kindDefinitions[agentKindOf(template)].defaultPort;
