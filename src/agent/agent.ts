import type { AgentKind, ConfirmationPolicy } from '../resources/agent-settings.ts';
import type { Approval } from '../resources/approval.ts';
import type { ExecutionStatus } from '../resources/conversation-status.ts';
import type { RunResult } from '../resources/run-result.ts';
import type { AskedCalls } from './question-text.ts';
import type { AcpSettings } from '../resources/acp-settings.ts';

export interface AgentEndpoint {
  /** `http://ip:port`, no path. */
  readonly baseUrl: string;
  readonly sessionKey: string;
  /** Protocol of the agent. Absent: openhands. */
  readonly kind?: AgentKind | undefined;
}

/**
 * - unreachable: no process listens, or the agent answers that it is not ready yet.
 * - dormant: the agent waits for `initialise`. A container that has restarted is dormant again.
 * - ready: the agent has keys. The first call shows whether the operator has the same ones.
 */
export type AgentState = 'unreachable' | 'dormant' | 'ready';

/** Name that an agent reports when it gets its keys. */
export interface AgentIntroduction {
  /** Display name, safe to store and to show; undefined for an agent that reports none. */
  readonly title: string | undefined;
}

/** Webhooks: POST `{baseUrl}/conversations` and `{baseUrl}/events/{id}` with the session key. */
export interface AgentWebhook {
  readonly baseUrl: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Maximum events in one request. */
  readonly eventBufferSize?: number;
  /** Delay before a request with only one event. */
  readonly flushDelaySeconds?: number;
  /** Maximum retries of one request that the receiver has not accepted. */
  readonly retries?: number;
  /** Delay before each retry; whole seconds. */
  readonly retryDelaySeconds?: number;
  /** Maximum queue while the receiver is unreachable; the agent drops older events beyond it. */
  readonly maxQueuedEvents?: number;
  readonly maxQueuedBytes?: number;
  /** Maximum bytes of one request, unless a single event is larger. */
  readonly maxBatchBytes?: number;
}

export interface AgentInit {
  readonly bootstrapKey: string;
  readonly sessionKey: string;
  readonly secretKey: string;
  /** Absolute paths on the sandbox's volume. Absent: the paths of the agent's environment. */
  readonly conversationsPath?: string;
  readonly bashEventsDir?: string;
  /** Environment of the agent and of the commands that it runs. */
  readonly env: Readonly<Record<string, string>>;
  readonly webhooks?: readonly AgentWebhook[];
}

export interface AgentCommand {
  /** Program for /bin/sh, which may be dash. The agent stores the text in clear: no secrets. */
  readonly command: string;
  /** Absent: the agent's own working directory. */
  readonly cwd?: string;
  readonly timeoutSeconds: number;
}

export interface AgentCommandResult {
  /** -1 when the command timed out or could not be started. */
  readonly exitCode: number;
  /** Last 64 KiB of the output. */
  readonly stdout: string;
  readonly stderr: string;
  readonly timedOut: boolean;
}

export interface AgentContent {
  readonly type: 'text' | 'image';
  readonly text?: string | undefined;
  readonly imageUrls?: readonly string[] | undefined;
}

/** Message of a user, such as a Conversation's `spec.initialMessage`. */
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

/** MCP server with an address, or with a command to start. Headers and environment are secrets. */
export type AgentMcpServer = { readonly name: string } & (
  | {
      readonly url: string;
      readonly transport: 'http' | 'sse';
      readonly headers: Readonly<Record<string, string>>;
    }
  | {
      readonly command: string;
      readonly args: readonly string[];
      readonly env: Readonly<Record<string, string>>;
    }
);

/** A secret whose value the agent reads at an address each time it uses the secret. */
export interface AgentSecret {
  /** Name of the environment variable. */
  readonly name: string;
  readonly url: string;
  /** The values are secrets. */
  readonly headers: Readonly<Record<string, string>>;
}

export interface NewAgentConversation {
  /** A UUID, with or without dashes. */
  readonly id: string;
  /** UID of the resource. The client rejects a conversation that has this id and another UID. */
  readonly uid?: string | undefined;
  readonly workingDir: string;
  readonly message?: AgentMessage | undefined;
  /** Absent: the agent's default model; without one the call fails with `unconfigured`. */
  readonly llm?: AgentLlm | undefined;
  readonly systemMessageSuffix?: string | undefined;
  /** Names of tools. Absent: the agent's choice. The client rejects a tool that the agent lacks. */
  readonly tools?: readonly string[] | undefined;
  /** Absent: the agent's choice. */
  readonly confirmationPolicy?: ConfirmationPolicy | undefined;
  /** Maximum steps of a run. Absent: the agent's choice. */
  readonly maxIterations?: number | undefined;
  /** Result of `hookConfig`. */
  readonly hookConfig?: Readonly<Record<string, unknown>> | undefined;
  readonly secrets?: readonly AgentSecret[] | undefined;
  readonly mcpServers?: readonly AgentMcpServer[] | undefined;
}

export interface AgentMetrics {
  /** US dollars. */
  readonly accumulatedCost: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/**
 * A conversation as the agent last stored it. The copy lags up to one step behind: ignore a
 * terminal status within 1 s of `run` or a message.
 */
export interface AgentConversation {
  /** 32 hex digits. */
  readonly id: string;
  /** Undefined for a status that this client does not know; `reportedStatus` has the text. */
  readonly executionStatus: ExecutionStatus | undefined;
  readonly reportedStatus: string;
  readonly title: string | undefined;
  /** RFC 3339. */
  readonly updatedAt: string | undefined;
  /** Undefined while no message has arrived. */
  readonly lastUserMessageId: string | undefined;
  /** True: the agent still asks its question after a restart of its container. Absent: unknown. */
  readonly keepsQuestions?: boolean;
  /** Summed over all models used; undefined before the first model call. */
  readonly metrics: AgentMetrics | undefined;
  /** Current model of the conversation, as far as the agent reports one. */
  readonly llm?: Pick<AgentLlm, 'model' | 'baseUrl'> | undefined;
}

export interface AgentFailure {
  /** For example LLMAuthenticationError, MaxIterationsReached. */
  readonly code: string;
  /** Bounded to 2048 characters. */
  readonly detail: string;
}

export interface AgentUserMessage {
  readonly id: string;
  /** Local time of the agent without a zone, comparable only with events of the same agent. */
  readonly timestamp: string;
  readonly text: string;
}

/** Question of an agent whether it may use its tools, with the calls as the agent has sent them. */
export type AgentQuestion = Pick<Approval, 'id' | 'kind' | 'options' | 'callHash'> & AskedCalls;

export interface AgentAnswer {
  readonly questionId: string;
  /** Whether the tools run. */
  readonly accept: boolean;
  /** An option of the question. Absent: the agent's turn is cancelled. */
  readonly option?: string | undefined;
  /** Reason of a rejection, which the model reads. */
  readonly reason?: string | undefined;
}

export interface AgentCallOptions {
  readonly signal?: AbortSignal | undefined;
}

type AgentCall<Needs extends readonly unknown[], Result> = (
  endpoint: AgentEndpoint,
  ...rest: [...Needs, options?: AgentCallOptions]
) => Promise<Result>;

/**
 * The calls of the operator to an agent of any kind. Every method throws `AgentError` and has a
 * deadline of its own. No method retries a request that the agent could execute twice.
 */
export interface AgentClient {
  /** Never throws for an agent that does not answer. No key needed. */
  readonly probe: AgentCall<[], AgentState>;
  /** Undefined: the agent already had this session key, or has keys from its environment. */
  readonly initialise: AgentCall<[init: AgentInit], AgentIntroduction | undefined>;
  /** A command with a non-zero exit code does not throw. Aborting does not stop the command. */
  readonly execute: AgentCall<[command: AgentCommand], AgentCommandResult>;
  /** Writes a small file whole, and the folders above it. `path` is absolute, in the sandbox. */
  readonly writeFile: AgentCall<[path: string, text: string], void>;
  /** The hooks of a repository; undefined when it has none. */
  readonly hookConfig: AgentCall<
    [projectDir: string],
    Readonly<Record<string, unknown>> | undefined
  >;
  /**
   * Creates the conversation with its first message, or returns the existing one with this id. A
   * caller that retries until success creates both exactly once. `busy` means that an earlier call
   * may still be under way: retry after some seconds.
   */
  readonly createConversation: AgentCall<
    [conversation: NewAgentConversation],
    { readonly created: boolean; readonly status: AgentConversation }
  >;
  /** Undefined when the agent does not know the conversation. */
  readonly conversation: AgentCall<[id: string], AgentConversation | undefined>;
  /** Up to 50 conversations by one request, in the order of the ids. */
  readonly conversations: AgentCall<
    [ids: readonly string[]],
    readonly (AgentConversation | undefined)[]
  >;
  /** Starts or continues a run; no effect on a running or finished one. `busy`: too many runs. */
  readonly run: AgentCall<[id: string], void>;
  /** Kills the running tool call and pauses; nothing happens when nothing runs. */
  readonly interrupt: AgentCall<[id: string], void>;
  /**
   * Waits for the running tool call to end: up to 5 min. Not idempotent: when the outcome is
   * unknown, read `userMessages` before a retry. `started: false` means that the agent stored the
   * message and has too many runs: call `run` later, do not send again.
   */
  readonly sendMessage: AgentCall<
    [id: string, message: AgentMessage],
    { readonly started: boolean }
  >;
  /** The user's messages, newest first; at most `limit` (up to 100). */
  readonly userMessages: AgentCall<[id: string, limit: number], readonly AgentUserMessage[]>;
  /** The user's messages that came after this one, or all of them, oldest first; at most 200. */
  readonly userMessagesAfter: AgentCall<
    [id: string, after: Pick<AgentUserMessage, 'id' | 'timestamp'> | undefined],
    readonly AgentUserMessage[]
  >;
  /** Undefined in status `error`: the agent was killed during the run, which `run` continues. */
  readonly lastError: AgentCall<[id: string], AgentFailure | undefined>;
  /**
   * Result of the agent's work since the last user message, with the agent's whole last message;
   * undefined where the agent has done nothing yet. `conversation` reports a run that is over.
   */
  readonly lastResult: AgentCall<[conversation: AgentConversation], RunResult | undefined>;
  /** Sets the model and key from the next model call on. A run under way continues. */
  readonly useLlm: AgentCall<[id: string, llm: AgentLlm], void>;
  /** `needsModel`: the agent has no default model, so that each conversation names one. */
  readonly serverInfo: AgentCall<[], { readonly needsModel: boolean }>;
  /** Ids (32 hex digits) of the conversations in status `running`. */
  readonly runningConversations: AgentCall<[], readonly string[]>;
  /** Open question of the conversation, if any. Throws `busy` where it changes too fast to read. */
  readonly question: AgentCall<[id: string], AgentQuestion | undefined>;
  /** Throws `refused` if another question, or none, is open; `question` shows unknown outcomes. */
  readonly answer: AgentCall<[id: string, answer: AgentAnswer], void>;
  /**
   * Whether an approval in doubt has reached the agent, which no longer asks the question: false
   * where its calls were rejected, or where the agent knows no such answer.
   */
  readonly hadApproval: AgentCall<[id: string, answer: AgentAnswer], boolean>;
  /** Ids (32 hex digits) of the conversations whose question is lost when the agent ends. */
  readonly losableQuestions: AgentCall<[], readonly string[]>;
  /** Rejects the pending actions. The conversation is `idle` then; its next run has the reason. */
  readonly rejectPending: AgentCall<[id: string, reason: string], void>;
  close(): Promise<void>;
}

/** An HTTP probe of Kubernetes. Absent fields have the defaults of Kubernetes. */
interface AgentProbe {
  readonly httpGet: { readonly path: string; readonly port: number };
  readonly initialDelaySeconds?: number;
  readonly periodSeconds?: number;
  readonly timeoutSeconds?: number;
  readonly failureThreshold?: number;
}

/** Fields of the agent's container in addition to the template's. */
export interface AgentContainer {
  /** Overrides the template's environment. Readers of the pod see the values: no secrets. */
  readonly env: readonly { readonly name: string; readonly value: string }[];
  /** Probes for a template that has none. */
  readonly startupProbe: AgentProbe;
  readonly readinessProbe: AgentProbe;
  readonly livenessProbe: AgentProbe;
}

export interface AgentContainerOptions {
  readonly port: number;
  /** Mount path of the volume. */
  readonly workingDir: string;
  /** A folder on the volume for the agent's own state. */
  readonly stateDir: string;
  /** Key that authenticates the operator's `initialise` call to the agent, and no other call. */
  readonly bootstrapKey: string;
  /** Name of the agent of the kind `acp` that the sandbox stores. Absent: the template's agent. */
  readonly agentName?: string | undefined;
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
