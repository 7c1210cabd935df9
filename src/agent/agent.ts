import type { AgentKind, ConfirmationPolicy } from '../resources/agent-settings.ts';
import type { ExecutionStatus } from '../resources/conversation.ts';

/** Where one sandbox's agent listens, and what it accepts. */
export interface AgentEndpoint {
  /** `http://ip:port`, no path. */
  readonly baseUrl: string;
  readonly sessionKey: string;
  /** Which protocol it speaks; absent: openhands. */
  readonly kind?: AgentKind | undefined;
}

/**
 * - unreachable: nothing listens, or it says that it is not ready yet.
 * - dormant: it waits for `initialise`. A container that has restarted is dormant again.
 * - ready: it has keys. Whether they are ours shows with the first call.
 */
export type AgentState = 'unreachable' | 'dormant' | 'ready';

/** Where the agent says that something has happened: `POST {baseUrl}/conversations` and `{baseUrl}/events/{id}`, with its session key. */
export interface AgentWebhook {
  readonly baseUrl: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Events that are sent together at the most. */
  readonly eventBufferSize?: number;
  /** How long an event waits for others. */
  readonly flushDelaySeconds?: number;
  /** How often the same is sent again that was not taken, and after how long. Whole seconds. */
  readonly retries?: number;
  readonly retryDelaySeconds?: number;
  /** What is kept for a receiver that takes nothing; beyond that the oldest events are dropped. */
  readonly maxQueuedEvents?: number;
  readonly maxQueuedBytes?: number;
  /** Of one request, where one event is not more already. */
  readonly maxBatchBytes?: number;
}

export interface AgentInit {
  readonly bootstrapKey: string;
  readonly sessionKey: string;
  readonly secretKey: string;
  /** Absolute paths on the sandbox's volume. Absent: what the agent's environment says. */
  readonly conversationsPath?: string;
  readonly bashEventsDir?: string;
  /** For the agent and the commands that it runs. */
  readonly env: Readonly<Record<string, string>>;
  readonly webhooks?: readonly AgentWebhook[];
}

export interface AgentCommand {
  /** For /bin/sh, which may be dash. Kept by the agent in clear: never with a secret in it. */
  readonly command: string;
  /** Absent: the agent's own working directory. */
  readonly cwd?: string;
  readonly timeoutSeconds: number;
}

export interface AgentCommandResult {
  /** -1 when the command timed out or could not be started. */
  readonly exitCode: number;
  /** The last 64 KiB. */
  readonly stdout: string;
  readonly stderr: string;
  readonly timedOut: boolean;
}

export interface AgentContent {
  readonly type: 'text' | 'image';
  readonly text?: string | undefined;
  readonly imageUrls?: readonly string[] | undefined;
}

/** A Conversation's `spec.initialMessage` is one. */
export interface AgentMessage {
  readonly role?: 'user' | 'system' | 'assistant';
  readonly content: readonly AgentContent[];
  /** Whether the agent starts working, true by default. */
  readonly run?: boolean;
}

export interface AgentLlm {
  readonly model: string;
  readonly baseUrl?: string | undefined;
  readonly apiKey?: string | undefined;
}

export interface NewAgentConversation {
  /** A UUID, with or without dashes. */
  readonly id: string;
  /** Of the resource: where the agent knows an earlier conversation of the same id, it is refused, and not taken for this one. */
  readonly uid?: string | undefined;
  readonly workingDir: string;
  readonly message?: AgentMessage | undefined;
  /** Absent: the agent's own default, where it has one that works. Without one it is `unconfigured`. */
  readonly llm?: AgentLlm | undefined;
  readonly systemMessageSuffix?: string | undefined;
  /** By their names; absent: the agent's choice. One that it does not have is refused. */
  readonly tools?: readonly string[] | undefined;
  /** Absent: the agent's choice. */
  readonly confirmationPolicy?: ConfirmationPolicy | undefined;
  /** Steps that a run may take. Absent: the agent's choice. */
  readonly maxIterations?: number | undefined;
  /** Whether AGENTS.md and the repository's skills go into the prompt, true by default. */
  readonly loadProjectSkills?: boolean | undefined;
  /** What `hookConfig` has returned. */
  readonly hookConfig?: Readonly<Record<string, unknown>> | undefined;
  /** Keys of lower-case letters and digits only; others are left out, because the agent refuses them. */
  readonly tags?: Readonly<Record<string, string>> | undefined;
  readonly secrets?: Readonly<Record<string, string>> | undefined;
}

export interface AgentMetrics {
  /** US dollars. */
  readonly accumulatedCost: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/** As the agent last stored it: it lags up to one step behind, so a terminal status within 1 s of `run` or a message means nothing. */
export interface AgentConversation {
  /** 32 hex digits. */
  readonly id: string;
  /** Undefined: a word that is not known here (`reportedStatus` has it). */
  readonly executionStatus: ExecutionStatus | undefined;
  readonly reportedStatus: string;
  readonly title: string | undefined;
  /** RFC 3339. */
  readonly createdAt: string | undefined;
  readonly updatedAt: string | undefined;
  /** Undefined while no message has arrived. */
  readonly lastUserMessageId: string | undefined;
  /** Summed over all models used; undefined before the first model call. */
  readonly metrics: AgentMetrics | undefined;
  /** The model that it works with now, as far as the agent says. */
  readonly llm?: Pick<AgentLlm, 'model' | 'baseUrl'> | undefined;
}

export interface AgentFailure {
  /** For example LLMAuthenticationError, MaxIterationsReached. */
  readonly code: string;
  /** Bounded to 2048 characters. */
  readonly detail: string;
}

export interface AgentServerInfo {
  /** Since the last event. Grows during long tool calls as well: idle is this and nothing `running`. */
  readonly idleSeconds: number;
  readonly uptimeSeconds: number;
  readonly version: string;
  /** It works with no model of its own: one has to be named for each conversation. */
  readonly needsModel: boolean;
}

export interface AgentUserMessage {
  readonly id: string;
  /** The agent's local time, without zone: good for comparing with other events only. */
  readonly timestamp: string;
  readonly text: string;
}

export interface AgentCallOptions {
  readonly signal?: AbortSignal | undefined;
}

/**
 * What the operator asks of an agent, whatever its kind. Every method throws `AgentError`; each has its own deadline, and none
 * repeats what could happen twice.
 */
export interface AgentClient {
  /** Never throws for an agent that does not answer. No key needed. */
  probe(endpoint: AgentEndpoint, options?: AgentCallOptions): Promise<AgentState>;
  /** Done already, with our session key: a success. An agent that takes its keys from its environment as well. */
  initialise(endpoint: AgentEndpoint, init: AgentInit, options?: AgentCallOptions): Promise<void>;
  /** A failing command is a result. Aborting does not stop the command. */
  execute(endpoint: AgentEndpoint, command: AgentCommand, options?: AgentCallOptions): Promise<AgentCommandResult>;
  /** The hooks of a repository; undefined when it has none. */
  hookConfig(
    endpoint: AgentEndpoint,
    projectDir: string,
    options?: AgentCallOptions,
  ): Promise<Readonly<Record<string, unknown>> | undefined>;
  /**
   * The conversation with its first message, or what is there already under this id: call it until it succeeds, and both exist
   * exactly once. `busy` means that an earlier call may still be under way: ask again in some seconds.
   */
  createConversation(
    endpoint: AgentEndpoint,
    conversation: NewAgentConversation,
    options?: AgentCallOptions,
  ): Promise<{ readonly created: boolean; readonly status: AgentConversation }>;
  /** Undefined: the agent does not know it. */
  conversation(endpoint: AgentEndpoint, id: string, options?: AgentCallOptions): Promise<AgentConversation | undefined>;
  /** Up to 50 of them by one request, in the order of the ids. */
  conversations(
    endpoint: AgentEndpoint,
    ids: readonly string[],
    options?: AgentCallOptions,
  ): Promise<readonly (AgentConversation | undefined)[]>;
  /** Starts or continues; running already, or finished: nothing happens. `busy`: too many runs, ask again. */
  run(endpoint: AgentEndpoint, id: string, options?: AgentCallOptions): Promise<void>;
  /** Waits for the running tool call to end: up to 5 min. */
  pause(endpoint: AgentEndpoint, id: string, options?: AgentCallOptions): Promise<void>;
  /** Kills the running tool call and pauses; nothing happens when nothing runs. */
  interrupt(endpoint: AgentEndpoint, id: string, options?: AgentCallOptions): Promise<void>;
  /**
   * Waits for the running tool call to end: up to 5 min. Not idempotent: when the outcome is unknown, look at `userMessages`
   * before sending again. `started: false`: stored, but too many runs; call `run` later, do not send again.
   */
  sendMessage(
    endpoint: AgentEndpoint,
    id: string,
    message: AgentMessage,
    options?: AgentCallOptions,
  ): Promise<{ readonly started: boolean }>;
  /** The user's messages, newest first; at most `limit` (up to 100). */
  userMessages(endpoint: AgentEndpoint, id: string, limit: number, options?: AgentCallOptions): Promise<readonly AgentUserMessage[]>;
  /** The user's messages that came after this one, or all of them, oldest first; at most 200. */
  userMessagesAfter(
    endpoint: AgentEndpoint,
    id: string,
    after: Pick<AgentUserMessage, 'id' | 'timestamp'> | undefined,
    options?: AgentCallOptions,
  ): Promise<readonly AgentUserMessage[]>;
  /**
   * Why the last run failed. Undefined for a conversation in status `error` means that the agent was killed during the run, which
   * `run` continues.
   */
  lastError(endpoint: AgentEndpoint, id: string, options?: AgentCallOptions): Promise<AgentFailure | undefined>;
  /** From its next model call on, the conversation works with this model and key. What it does is left as it is. */
  useLlm(endpoint: AgentEndpoint, id: string, llm: AgentLlm, options?: AgentCallOptions): Promise<void>;
  /** Also a success when there was none. Keeps the working directory. Waits for the running tool call to end: up to 5 min. */
  deleteConversation(endpoint: AgentEndpoint, id: string, options?: AgentCallOptions): Promise<void>;
  serverInfo(endpoint: AgentEndpoint, options?: AgentCallOptions): Promise<AgentServerInfo>;
  /** Ids (32 hex digits) of the conversations in status `running`. */
  runningConversations(endpoint: AgentEndpoint, options?: AgentCallOptions): Promise<readonly string[]>;
  /** Ids (32 hex digits) of the conversations in status `waiting_for_confirmation`. */
  waitingConversations(endpoint: AgentEndpoint, options?: AgentCallOptions): Promise<readonly string[]>;
  /** Rejects the actions that wait for a confirmation: then the conversation is `idle`, and the model learns the reason when it runs. */
  rejectPending(endpoint: AgentEndpoint, id: string, reason: string, options?: AgentCallOptions): Promise<void>;
  close(): Promise<void>;
}
