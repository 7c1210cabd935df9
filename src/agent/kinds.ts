import { agentKinds, defaultAgentKind, type AgentKind } from '../resources/agent-settings.ts';
import { keySeedOf, type Sandbox } from '../resources/sandbox.ts';
import type { SandboxTemplate } from '../resources/sandbox-template.ts';
import type {
  AgentKindDefinition,
  AgentClient,
  AgentConversation,
  AgentEndpoint,
} from './agent.ts';
import { acp } from './acp.ts';
import { openhands } from './openhands.ts';
import { isIP } from 'node:net';
import { hostInUrl } from '@conversation-operator/base/addresses';
import type { SandboxKeys } from './keys.ts';

export const defaultAgentPort = 8000;

/** Endpoint of a sandbox's agent; undefined while the status has no valid pod IP. */
export function agentEndpointOf(
  sandbox: Sandbox,
  keys: Pick<SandboxKeys, 'sessionKey'>,
): AgentEndpoint | undefined {
  const { podIP, agentPort, agentKind, masterKeyId } = sandbox.status ?? {};
  if (podIP === undefined || isIP(podIP) === 0) return undefined;
  return {
    baseUrl: `http://${hostInUrl(podIP)}:${agentPort ?? defaultAgentPort}`,
    sessionKey: keys.sessionKey(keySeedOf(sandbox), masterKeyId),
    ...(agentKind === undefined ? {} : { kind: agentKind }),
  };
}

/** Forwards each call to the client for the endpoint's kind, and keeps this client's guarantees. */
export class ClientOfKinds implements AgentClient {
  readonly #clients: ReadonlyMap<AgentKind, AgentClient>;

  constructor(clients: ReadonlyMap<AgentKind, AgentClient>) {
    this.#clients = clients;
  }

  readonly probe = this.#forward('probe');
  readonly initialise = this.#forward('initialise');
  readonly execute = this.#forward('execute');
  readonly writeFile = this.#forward('writeFile');
  readonly hookConfig = this.#forward('hookConfig');
  readonly createConversation = this.#forward('createConversation');
  readonly conversation = this.#forward('conversation');
  readonly conversations = this.#forward('conversations');
  readonly run = this.#forward('run');
  readonly continueRun = this.#forward('continueRun');
  readonly interrupt = this.#forward('interrupt');
  readonly sendMessage = this.#forward('sendMessage');
  readonly userMessages = this.#forward('userMessages');
  readonly userMessagesAfter = this.#forward('userMessagesAfter');
  readonly lastError = this.#forward('lastError');
  readonly lastResult = this.#forward('lastResult');
  readonly setSecrets = this.#forward('setSecrets');
  readonly useLlm = this.#forward('useLlm');
  readonly serverInfo = this.#forward('serverInfo');
  readonly runningConversations = this.#forward('runningConversations');
  readonly question = this.#forward('question');
  readonly answer = this.#forward('answer');
  readonly hadApproval = this.#forward('hadApproval');
  readonly losableQuestions = this.#forward('losableQuestions');
  readonly rejectPending = this.#forward('rejectPending');

  async close(): Promise<void> {
    await Promise.all([...this.#clients.values()].map((client) => client.close()));
  }

  #forward<K extends Exclude<keyof AgentClient, 'close'>>(name: K): AgentClient[K] {
    const forward = (endpoint: AgentEndpoint, ...rest: readonly unknown[]): unknown => {
      const client = this.#of(endpoint);
      const call = client[name] as (...given: readonly unknown[]) => unknown;
      return call.call(client, endpoint, ...rest);
    };
    // TypeScript does not relate the parameters of `forward` to those of the method `name`.
    return forward as AgentClient[K];
  }

  #of({ kind = defaultAgentKind }: AgentEndpoint): AgentClient {
    const client = this.#clients.get(kind);
    if (client === undefined) throw new Error(`there is no client for agents of the kind ${kind}`);
    return client;
  }
}

export const kindDefinitions: Readonly<Record<AgentKind, AgentKindDefinition>> = { openhands, acp };

export const createAgentClient = (): ClientOfKinds =>
  new ClientOfKinds(
    new Map(agentKinds.map((kind) => [kind, kindDefinitions[kind].createClient()])),
  );

/** Kind of the agent in the sandbox's status; before the first pod, the kind in the template. */
export const agentKindOf = (
  { status }: Pick<Sandbox, 'status'>,
  template: Pick<SandboxTemplate, 'spec'>,
): AgentKind => status?.agentKind ?? template.spec.agent.kind ?? defaultAgentKind;

export const keepsQuestions = (
  { agentKind = defaultAgentKind }: Pick<NonNullable<Sandbox['status']>, 'agentKind'>,
  { keepsQuestions: isReported = false }: Pick<AgentConversation, 'keepsQuestions'>,
): boolean => isReported || kindDefinitions[agentKind].keepsQuestions;

/** Name of the `acp` agent from the status, else the template. Undefined: a command replaces it. */
export const agentNameOf = (
  { status }: Pick<Sandbox, 'status'>,
  template: Pick<SandboxTemplate, 'spec'>,
): string | undefined =>
  status?.agentKind === undefined ? template.spec.agent.acp?.agent : status.agentName;

export const agentPortOf = (
  sandbox: Pick<Sandbox, 'status'>,
  template: Pick<SandboxTemplate, 'spec'>,
): number =>
  template.spec.agent.port ?? kindDefinitions[agentKindOf(sandbox, template)].defaultPort;
