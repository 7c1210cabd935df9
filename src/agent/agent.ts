import type { AgentKind, ConfirmationPolicy } from '../resources/agent-settings.ts';
import type { Approval } from '../resources/approval.ts';
import type { ExecutionStatus } from '../resources/conversation-status.ts';
import type { RunResult } from '../resources/run-result.ts';
import type { AskedCalls } from './question-text.ts';
import type { AcpSettings } from '../resources/acp-settings.ts';

export interface AgentEndpoint {
  /** `http://ip:port`, without a path. */
  readonly baseUrl: string;
  readonly sessionKey: string;
  /** Protocol of the agent. Absent: `openhands`. */
  readonly kind?: AgentKind | undefined;
}

/**
 * - unreachable: no process listens, or the agent answers that it is not ready yet.
 * - dormant: the agent waits for `initialise`. A container that has restarted is dormant again.
 * - ready: the agent has keys. The first call shows whether these are the operator's keys.
 */
export type AgentState = 'unreachable' | 'dormant' | 'ready';

/** Answer of an agent to `initialise`. */
export interface AgentIntroduction {
  /** Display name of the agent, safe to store and to show; undefined if the agent reports none. */
  readonly title: string | undefined;
}

/** Webhooks POST to `{baseUrl}/conversations` and `{baseUrl}/events/{id}` with the session key. */
export interface AgentWebhook {
  readonly baseUrl: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Maximum events in one request. */
  readonly eventBufferSize?: number;
  /** Delay before the agent sends a request with only one event. */
  readonly flushDelaySeconds?: number;
  /** Maximum retries of one request that the receiver has not accepted. */
  readonly retries?: number;
  /** Delay before each retry, in whole seconds. */
  readonly retryDelaySeconds?: number;
  /** Maximum events in the queue of an unreachable receiver. The agent drops the oldest ones. */
  readonly maxQueuedEvents?: number;
  readonly maxQueuedBytes?: number;
  /** Maximum bytes of one request. A single event may be larger. */
  readonly maxBatchBytes?: number;
}

export interface AgentInit {
  readonly bootstrapKey: string;
  readonly sessionKey: string;
  readonly secretKey: string;
  /** Absolute paths on the sandbox's volume. Absent: the agent's environment has the paths. */
  readonly conversationsPath?: string;
  readonly bashEventsDir?: string;
  /** Environment of the agent and of the commands that it runs. */
  readonly env: Readonly<Record<string, string>>;
  readonly webhooks?: readonly AgentWebhook[];
}

export interface AgentCommand {
  /** Program for /bin/sh (may be dash), without secrets: the agent stores the text unencrypted. */
  readonly command: string;
  /** Absent: the working directory of the agent process. */
  readonly cwd?: string;
  readonly timeoutSeconds: number;
}

export interface AgentCommandResult {
  /** -1 for a command that has timed out or could not be started. */
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

/** A message for the agent, such as `spec.initialMessage` of a Conversation. */
export interface AgentMessage {
  readonly role?: 'user' | 'system' | 'assistant';
  readonly content: readonly AgentContent[];
  /** Whether the agent starts a run for the message. Default: true. */
  readonly run?: boolean;
}

export interface AgentLlm {
  readonly model: string;
  readonly baseUrl?: string | undefined;
  readonly apiKey?: string | undefined;
}

/** An MCP server, with an address or with a command that starts it. Headers and env are secrets. */
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

/** A secret that the agent reads from a URL each time that it uses the secret. */
export interface AgentSecret {
  /** Name of the environment variable that gets the secret. */
  readonly name: string;
  readonly url: string;
  /** Headers of the request for the secret. The values of these headers are secrets too. */
  readonly headers: Readonly<Record<string, string>>;
}

export interface NewAgentConversation {
  /** A UUID, with or without dashes. */
  readonly id: string;
  /** UID of the Conversation. The client throws if the agent's conversation has another UID. */
  readonly uid?: string | undefined;
  readonly workingDir: string;
  readonly message?: AgentMessage | undefined;
  /** Absent: the agent's default model. The call throws `unconfigured` if the agent has none. */
  readonly llm?: AgentLlm | undefined;
  readonly systemMessageSuffix?: string | undefined;
  /** Names of tools. Absent: the agent chooses. The client rejects a tool that the agent lacks. */
  readonly tools?: readonly string[] | undefined;
  /** Absent: the agent chooses. */
  readonly confirmationPolicy?: ConfirmationPolicy | undefined;
  /** Maximum steps of a run. Absent: the agent chooses. */
  readonly maxIterations?: number | undefined;
  /** Result of `AgentClient.hookConfig`. */
  readonly hookConfig?: Readonly<Record<string, unknown>> | undefined;
  readonly secrets?: readonly AgentSecret[] | undefined;
  readonly mcpServers?: readonly AgentMcpServer[] | undefined;
}

export interface AgentMetrics {
  /** In US dollars. */
  readonly accumulatedCost: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
}

/**
 * A conversation as the agent last stored it. The stored state may be one step behind: ignore a
 * terminal status that is read within 1 s after a call of `run` or `sendMessage`.
 */
export interface AgentConversation {
  /** 32 hex digits. */
  readonly id: string;
  /** Undefined for a status that is unknown to this client; `reportedStatus` has its text. */
  readonly executionStatus: ExecutionStatus | undefined;
  readonly reportedStatus: string;
  readonly title: string | undefined;
  /** RFC 3339. */
  readonly updatedAt: string | undefined;
  /** Undefined while the conversation has no message of a user. */
  readonly lastUserMessageId: string | undefined;
  /** Whether the agent repeats an open question after its container restarts. Absent: unknown. */
  readonly keepsQuestions?: boolean;
  /** Sum over all models used; undefined before the first model call. */
  readonly metrics: AgentMetrics | undefined;
  /** Current model of the conversation; undefined if the agent reports none. */
  readonly llm?: Pick<AgentLlm, 'model' | 'baseUrl'> | undefined;
}

export interface AgentFailure {
  /** For example `LLMAuthenticationError` or `MaxIterationsReached`. */
  readonly code: string;
  /** At most 2048 characters. */
  readonly detail: string;
}

export interface AgentUserMessage {
  readonly id: string;
  /** Agent's local time without a zone: comparable only with events of the same agent. */
  readonly timestamp: string;
  readonly text: string;
}

/** An agent's question whether it may run tool calls, with the calls as the agent sent them. */
export type AgentQuestion = Pick<Approval, 'id' | 'kind' | 'options' | 'callHash'> & AskedCalls;

export interface AgentAnswer {
  readonly questionId: string;
  /** Whether the agent may run the tool calls. */
  readonly accept: boolean;
  /** Id of an option of the question. Absent: the answer cancels the agent's current run. */
  readonly option?: string | undefined;
  /** Reason of a rejection. The model reads the text. */
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
 * The calls of the operator to an agent. Every method throws `AgentError` and has its own deadline.
 * No method sends a request again that the agent could then execute twice.
 */
export interface AgentClient {
  /** Resolves to `unreachable` if the agent does not answer. The call needs no key. */
  readonly probe: AgentCall<[], AgentState>;
  /** Gives the agent its keys. Undefined: it already has these keys, or keys of its environment. */
  readonly initialise: AgentCall<[init: AgentInit], AgentIntroduction | undefined>;
  /** A non-zero exit code does not throw. An abort of the call does not stop the command. */
  readonly execute: AgentCall<[command: AgentCommand], AgentCommandResult>;
  /** Writes a whole small file, and creates its parent folders. `path` is an absolute path. */
  readonly writeFile: AgentCall<[path: string, text: string], void>;
  /** The hooks that a repository configures; undefined if the repository has none. */
  readonly hookConfig: AgentCall<
    [projectDir: string],
    Readonly<Record<string, unknown>> | undefined
  >;
  /**
   * Creates the conversation with its first message, or returns the existing one with this id. A
   * caller that retries until success creates conversation and message exactly once. The error
   * `busy` means that an earlier call may still be in progress: retry after some seconds.
   */
  readonly createConversation: AgentCall<
    [conversation: NewAgentConversation],
    { readonly created: boolean; readonly status: AgentConversation }
  >;
  /** Undefined if the agent does not know the conversation. */
  readonly conversation: AgentCall<[id: string], AgentConversation | undefined>;
  /** Reads up to 50 conversations in one request, in the order of `ids`. */
  readonly conversations: AgentCall<
    [ids: readonly string[]],
    readonly (AgentConversation | undefined)[]
  >;
  /** Starts or continues a run, unless it runs or is finished. Throws `busy` for too many runs. */
  readonly run: AgentCall<[id: string], void>;
  /** Like `run`, also if the agent takes its run for over, because its model was refused. */
  readonly continueRun: AgentCall<[id: string], void>;
  /** Kills the running tool call and pauses the run. Without a run, the call has no effect. */
  readonly interrupt: AgentCall<[id: string], void>;
  /**
   * Sends a message. Waits up to 5 min for a running tool call. Not idempotent: after an unknown
   * outcome, read `userMessages` before a retry. `started: false` means that the agent has stored
   * the message but has too many runs: call `run` later, and do not send the message again.
   */
  readonly sendMessage: AgentCall<
    [id: string, message: AgentMessage],
    { readonly started: boolean }
  >;
  /** The messages of the user, newest first: `limit` of them, at most 100. */
  readonly userMessages: AgentCall<[id: string, limit: number], readonly AgentUserMessage[]>;
  /** The messages of the user after `after`, or all of them; oldest first, at most 200. */
  readonly userMessagesAfter: AgentCall<
    [id: string, after: Pick<AgentUserMessage, 'id' | 'timestamp'> | undefined],
    readonly AgentUserMessage[]
  >;
  /** Error of the last run. Undefined in status `error`: the agent was killed; call `run` again. */
  readonly lastError: AgentCall<[id: string], AgentFailure | undefined>;
  /**
   * Result of the agent's work since the last user message, with the whole last message of the
   * agent; undefined if the agent has done nothing since. Call this method after the run has ended.
   */
  readonly lastResult: AgentCall<[conversation: AgentConversation], RunResult | undefined>;
  /** Adds secrets, and replaces those with the same names. */
  readonly setSecrets: AgentCall<[id: string, secrets: readonly AgentSecret[]], void>;
  /** Sets the model and its key for all later model calls. The current run continues. */
  readonly useLlm: AgentCall<[id: string, llm: AgentLlm], void>;
  /** `needsModel`: the agent has no default model, so each new conversation has to name one. */
  readonly serverInfo: AgentCall<[], { readonly needsModel: boolean }>;
  /** Ids (32 hex digits) of the conversations in status `running`. */
  readonly runningConversations: AgentCall<[], readonly string[]>;
  /** Open question; undefined without one. Throws `busy` if the conversation keeps changing. */
  readonly question: AgentCall<[id: string], AgentQuestion | undefined>;
  /** Throws `refused` if this question is not open. After an unknown outcome, call `question`. */
  readonly answer: AgentCall<[id: string, answer: AgentAnswer], void>;
  /**
   * Call this after `answer` had an unknown outcome and the question is no longer open. True: the
   * agent has stored this approval. False: it has not, or the tool calls were rejected.
   */
  readonly hadApproval: AgentCall<[id: string, answer: AgentAnswer], boolean>;
  /** Ids (32 hex digits) of the conversations whose open question is lost if the agent ends. */
  readonly losableQuestions: AgentCall<[], readonly string[]>;
  /** Rejects pending tool calls. The conversation becomes `idle`; its next run gets the reason. */
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

/** Fields that the operator adds to the agent's container in the template. */
export interface AgentContainer {
  /** Overrides the template's environment. Has no secret: readers of the pod see each value. */
  readonly env: readonly { readonly name: string; readonly value: string }[];
  /** Each probe applies only if the template's container does not have this probe. */
  readonly startupProbe: AgentProbe;
  readonly readinessProbe: AgentProbe;
  readonly livenessProbe: AgentProbe;
}

export interface AgentContainerOptions {
  readonly port: number;
  /** Mount path of the volume. */
  readonly workingDir: string;
  /** Folder on the volume for the agent's own state. */
  readonly stateDir: string;
  /** Key of the operator's `initialise` call. The agent accepts the key for no other call. */
  readonly bootstrapKey: string;
  /** Name of the `acp` agent in the sandbox's status. Absent: the agent of the template. */
  readonly agentName?: string | undefined;
  readonly acp?: AcpSettings | undefined;
}

/** Definition of a kind of agents. Each kind has a file and an entry in `kinds.ts`. */
export interface AgentKindDefinition {
  /** Port of an agent whose template names no port. */
  readonly defaultPort: number;
  /** Whether every agent of the kind repeats an open question after its container restarts. */
  readonly keepsQuestions: boolean;
  /** The client serves all sandboxes of the kind. */
  createClient(): AgentClient;
  container(options: AgentContainerOptions): AgentContainer;
}
