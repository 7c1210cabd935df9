import { defaultAgentKind, type AgentKind } from '../resources/agent-settings.ts';
import type { AgentClient, AgentEndpoint } from './agent.ts';

/** Forwards each call to the client of the endpoint's kind, with the guarantees of that client. */
export class ClientOfKinds implements AgentClient {
  readonly #clients: ReadonlyMap<AgentKind, AgentClient>;

  constructor(clients: ReadonlyMap<AgentKind, AgentClient>) {
    this.#clients = clients;
  }

  readonly probe: AgentClient['probe'] = (endpoint, ...rest) =>
    this.#of(endpoint).probe(endpoint, ...rest);
  readonly initialise: AgentClient['initialise'] = (endpoint, ...rest) =>
    this.#of(endpoint).initialise(endpoint, ...rest);
  readonly execute: AgentClient['execute'] = (endpoint, ...rest) =>
    this.#of(endpoint).execute(endpoint, ...rest);
  readonly writeFile: AgentClient['writeFile'] = (endpoint, ...rest) =>
    this.#of(endpoint).writeFile(endpoint, ...rest);
  readonly hookConfig: AgentClient['hookConfig'] = (endpoint, ...rest) =>
    this.#of(endpoint).hookConfig(endpoint, ...rest);
  readonly createConversation: AgentClient['createConversation'] = (endpoint, ...rest) =>
    this.#of(endpoint).createConversation(endpoint, ...rest);
  readonly conversation: AgentClient['conversation'] = (endpoint, ...rest) =>
    this.#of(endpoint).conversation(endpoint, ...rest);
  readonly conversations: AgentClient['conversations'] = (endpoint, ...rest) =>
    this.#of(endpoint).conversations(endpoint, ...rest);
  readonly run: AgentClient['run'] = (endpoint, ...rest) =>
    this.#of(endpoint).run(endpoint, ...rest);
  readonly pause: AgentClient['pause'] = (endpoint, ...rest) =>
    this.#of(endpoint).pause(endpoint, ...rest);
  readonly interrupt: AgentClient['interrupt'] = (endpoint, ...rest) =>
    this.#of(endpoint).interrupt(endpoint, ...rest);
  readonly sendMessage: AgentClient['sendMessage'] = (endpoint, ...rest) =>
    this.#of(endpoint).sendMessage(endpoint, ...rest);
  readonly userMessages: AgentClient['userMessages'] = (endpoint, ...rest) =>
    this.#of(endpoint).userMessages(endpoint, ...rest);
  readonly userMessagesAfter: AgentClient['userMessagesAfter'] = (endpoint, ...rest) =>
    this.#of(endpoint).userMessagesAfter(endpoint, ...rest);
  readonly lastError: AgentClient['lastError'] = (endpoint, ...rest) =>
    this.#of(endpoint).lastError(endpoint, ...rest);
  readonly useLlm: AgentClient['useLlm'] = (endpoint, ...rest) =>
    this.#of(endpoint).useLlm(endpoint, ...rest);
  readonly deleteConversation: AgentClient['deleteConversation'] = (endpoint, ...rest) =>
    this.#of(endpoint).deleteConversation(endpoint, ...rest);
  readonly serverInfo: AgentClient['serverInfo'] = (endpoint, ...rest) =>
    this.#of(endpoint).serverInfo(endpoint, ...rest);
  readonly runningConversations: AgentClient['runningConversations'] = (endpoint, ...rest) =>
    this.#of(endpoint).runningConversations(endpoint, ...rest);
  readonly waitingConversations: AgentClient['waitingConversations'] = (endpoint, ...rest) =>
    this.#of(endpoint).waitingConversations(endpoint, ...rest);
  readonly rejectPending: AgentClient['rejectPending'] = (endpoint, ...rest) =>
    this.#of(endpoint).rejectPending(endpoint, ...rest);

  async close(): Promise<void> {
    await Promise.all([...this.#clients.values()].map((client) => client.close()));
  }

  #of({ kind = defaultAgentKind }: AgentEndpoint): AgentClient {
    const client = this.#clients.get(kind);
    if (client === undefined) throw new Error(`there is no client for agents of the kind ${kind}`);
    return client;
  }
}
