import type { CommandResult, ProcessGuard } from './commands.ts';
import type { Draft, EventLog } from './event-log.ts';
import type { OpenApproval } from './derived-state.ts';
import type { Classification, Stats } from './events.ts';
import type { LiveText } from './live-activity.ts';
import type { Needles } from './mask.ts';
import type { McpServer } from './mcp-servers.ts';
import type { McpCall, McpResult, McpTool } from './mcp-tools.ts';
import type { Meta } from './meta.ts';
import type { ReadSecrets } from './secrets.ts';

export interface CommandRequest {
  readonly command: string;
  readonly shell?: 'sh' | 'bash' | undefined;
  readonly timeoutSeconds: number;
}

export interface Run {
  readonly workingDir: string;
  readonly maxIterations: number;
  readonly systemMessageSuffix: string | undefined;
  readonly loadProjectSkills: boolean;
  readonly log: EventLog;
  readonly stats: Stats;
  /** Aborted when the run has to end immediately. The program rethrows the signal's reason. */
  readonly signal: AbortSignal;
  /** Aborted with `PauseRequested` when a client has requested a pause. */
  readonly pauseSignal: AbortSignal;
  /** Throws if a client has requested a pause. Programs call `checkpoint` between two steps. */
  checkpoint(): void;
  /** Returns the log positions of the user's unhandled messages, oldest first. */
  pendingMessages(): readonly number[];
  append(...drafts: readonly Draft[]): Promise<void>;
  /** Throws if a person has to confirm the last action. The next run begins with this action. */
  confirm(): void;
  /** Undefined: the default of the agent. */
  readonly confirmationPolicy: Meta['confirmationPolicy'];
  /** Last approval request of the agent; undefined when the agent has got the answer. */
  readonly approval: OpenApproval | undefined;
  /** Id of the agent's session, which the next process continues. */
  readonly acpSession: string | undefined;
  /** Names of the MCP servers that the log records as unusable for the agent. */
  readonly skippedMcpServers: ReadonlySet<string>;
  /** Names of the secrets that were last recorded as missing in the agent's process. */
  readonly skippedSecrets: readonly string[];
  /** Cause that interrupted the agent's last prompt; undefined if the prompt has ended. */
  readonly interruptedBy: 'end' | 'pause' | undefined;
  failOpenCalls(reason: string): Promise<void>;
  /** Returns the tools of the conversation's MCP servers that answer. */
  mcpTools(): Promise<readonly McpTool[]>;
  /** Calls a tool of an MCP server. Returns a failure as a result. */
  callTool(call: McpCall): Promise<McpResult>;
  /** Runs the command of a tool call. Output and error are merged, bounded and masked. */
  execute(request: CommandRequest, toolCallId: string): Promise<CommandResult>;
}

export interface ProgramLink {
  /** Withdraws an approval request, because the agent continues without the answer. */
  withdraw(approvalId: string): void;
  readonly live: Pick<LiveText, 'say' | 'output' | 'flush' | 'drop'>;
  readonly meta: Meta;
}

/**
 * The logic of an agent. A program keeps all state in the log, so that another process can continue
 * the run: the program writes an ActionEvent before an action and an observation afterwards, and
 * never repeats an action of the log.
 */
export interface Program {
  /** Handles the pending messages. Throws RunFailure when this fails. */
  work(run: Run): Promise<void>;
  /**
   * Ends a process that outlives a run. A program with `close` handles all runs of its
   * conversation; a program without `close` is chosen for each run.
   */
  close?(): Promise<void>;
}

/** Model of a conversation: the settings of its request, completed by the environment. */
export interface Model {
  readonly model: string;
  readonly baseUrl: string | undefined;
  readonly apiKey: string | undefined;
  readonly retries: number;
}

export interface ProgramPlace {
  readonly model: Model | undefined;
  /** Folder on the volume for the state of an ACP agent. */
  readonly home: string;
  /** Environment of commands, without any key of the server. */
  readonly env: Readonly<Record<string, string>>;
  readonly guard: ProcessGuard;
  readonly mcpServers: () => readonly McpServer[];
  /** Reads the conversation's secrets for a process. Rejects with the signal's reason. */
  readonly readSecrets: (signal: AbortSignal) => Promise<ReadSecrets>;
  readonly needles: () => Needles;
  readonly link: ProgramLink;
}

export type ChooseProgram = (place: ProgramPlace) => Program;

/** Returns the function that chooses a program. Throws SettingsError for an invalid variable. */
export type Programs = (env: Readonly<Record<string, string>>) => ChooseProgram;

/** Ends a run with status `error` and a ConversationErrorEvent, or with status `stuck` alone. */
export class RunFailure extends Error {
  override readonly name = 'RunFailure';
  readonly code: string;
  readonly classification: Classification;
  readonly status: 'error' | 'stuck';
  /** Events that are stored together with the end of the run. */
  readonly last: readonly Draft[];

  constructor(
    code: string,
    detail: string,
    options: ErrorOptions & {
      readonly classification: Classification;
      readonly status?: 'stuck';
      readonly last?: readonly Draft[];
    },
  ) {
    super(detail, options);
    this.code = code;
    this.classification = options.classification;
    this.status = options.status ?? 'error';
    this.last = options.last ?? [];
  }
}

/** Thrown by `confirm`. Ends a run with the status `waiting_for_confirmation`. */
export class ConfirmationRequested extends Error {
  override readonly name = 'ConfirmationRequested';
  readonly approvalId: string | undefined;

  constructor(approvalId?: string) {
    super();
    this.approvalId = approvalId;
  }
}

/** Thrown by `checkpoint`. Ends a run with the status `paused`. */
export class PauseRequested extends Error {
  override readonly name = 'PauseRequested';
}
