import { failuresOf } from './drafts.ts';
import type { Commands } from './commands.ts';
import type { DerivedState } from './derived-state.ts';
import type { EventLog } from './event-log.ts';
import type { LiveActivity } from './live-activity.ts';
import type { Needles } from './mask.ts';
import type { McpTools } from './mcp-tools.ts';
import type { Meta } from './meta.ts';
import { ConfirmationRequested, type Program, type ProgramLink, type Run } from './program.ts';

export interface ConversationHost {
  readonly commands: Commands;
  programFor(meta: Meta, link: ProgramLink): Program;
  /** Ends the processes of a conversation's program, before the conversation closes. */
  release(meta: Meta): Promise<void>;
  /** Returns variables with the secrets that `command` names, and names of unreadable secrets. */
  environmentFor(
    meta: Meta,
    command: string,
    signal: AbortSignal,
  ): Promise<{
    readonly env: Readonly<Record<string, string>>;
    readonly unread: readonly string[];
  }>;
  /** Returns the tools of a conversation's MCP servers. The caller closes them. */
  toolsFor(meta: Meta): McpTools;
  needlesOf(meta: Meta): Needles;
  touch(): void;
  onError(message: string, error: unknown): void;
}

export interface CurrentRun {
  readonly abort: AbortController;
  readonly ended: Promise<void>;
  readonly pause: AbortController;
  readonly tools: McpTools;
  readonly startedMs: number;
  inCommand: boolean;
}

const maxToolOutputBytes = 30_000;

export interface RunViewOptions {
  readonly run: CurrentRun;
  readonly host: ConversationHost;
  readonly state: DerivedState;
  /** The conversation, whose settings may change during the run. */
  readonly conversation: {
    readonly meta: Meta;
    readonly log: EventLog;
    readonly activity: LiveActivity;
    readonly needles: Needles;
    pendingMessages(): readonly number[];
  };
}

/** Returns the interface through which a program reads and changes its conversation. */
export function runViewOf({ run, host, state, conversation }: RunViewOptions): Run {
  const { workingDir, maxIterations, systemMessageSuffix, loadProjectSkills } = conversation.meta;
  const { confirmationPolicy } = conversation.meta;
  const { signal } = run.abort;
  return {
    workingDir,
    maxIterations,
    systemMessageSuffix,
    loadProjectSkills,
    log: conversation.log,
    confirmationPolicy,
    get stats() {
      return state.stats;
    },
    get approval() {
      return state.approval;
    },
    get acpSession() {
      return state.acpSession;
    },
    get interruptedBy() {
      return state.interruptedBy;
    },
    skippedMcpServers: state.skippedMcpServers,
    get skippedSecrets() {
      return state.skippedSecrets;
    },
    failOpenCalls: async (reason) => {
      await conversation.log.append(() => failuresOf(state.openCalls.values(), reason));
    },
    signal,
    pauseSignal: run.pause.signal,
    checkpoint: () => {
      signal.throwIfAborted();
      run.pause.signal.throwIfAborted();
    },
    confirm: () => {
      if (confirmationPolicy !== undefined && confirmationPolicy !== 'NeverConfirm')
        throw new ConfirmationRequested();
    },
    pendingMessages: () => conversation.pendingMessages(),
    append: async (...drafts) => {
      // The log gets no event of a run after the run's interruption.
      await conversation.log.append(() => {
        signal.throwIfAborted();
        return drafts;
      });
      host.touch();
    },
    mcpTools: () => run.tools.list(AbortSignal.any([signal, run.pause.signal])),
    callTool: async (call) => {
      run.inCommand = true;
      try {
        return await run.tools.call(call, signal);
      } finally {
        run.inCommand = false;
      }
    },
    execute: async ({ command, shell = 'sh', timeoutSeconds }, toolCallId) => {
      run.inCommand = true;
      const onOutput = conversation.activity.begin(toolCallId);
      try {
        const { env, unread } = await host.environmentFor(conversation.meta, command, signal);
        const result = await host.commands.run({
          command,
          shell,
          cwd: workingDir,
          env,
          timeoutMs: timeoutSeconds * 1000,
          maxOutputBytes: maxToolOutputBytes,
          merged: true,
          onOutput,
          needles: () => conversation.needles,
          signal,
        });
        const lines = unread.map((name) => `The secret ${name} could not be read.\n`);
        return { ...result, stdout: lines.join('') + result.stdout };
      } finally {
        run.inCommand = false;
      }
    },
  };
}
