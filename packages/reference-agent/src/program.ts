import type { CommandResult } from './commands.ts';
import type { Draft, EventLog } from './event-log.ts';
import type { Classification, Stats } from './events.ts';

export interface CommandRequest {
  readonly command: string;
  readonly shell?: 'sh' | 'bash';
  readonly timeoutSeconds: number;
}

/** What a program sees of the conversation that it works for. */
export interface Run {
  readonly workingDir: string;
  readonly maxIterations: number;
  readonly systemMessageSuffix: string | undefined;
  readonly loadProjectSkills: boolean;
  readonly log: EventLog;
  readonly stats: Stats;
  /** Aborted when the run has to end at once; what it throws then is to be passed on. */
  readonly signal: AbortSignal;
  /** To be called between two steps: throws when somebody has asked for a pause. */
  checkpoint(): void;
  /** Positions in the log of the user's messages that nobody has dealt with, oldest first. */
  pendingMessages(): readonly number[];
  append(...drafts: readonly Draft[]): Promise<void>;
  /** Standard output and error together, bounded, secrets masked. */
  execute(request: CommandRequest): Promise<CommandResult>;
}

/**
 * What makes an agent act. It keeps nothing but what is in the log, so that it can go on in another process: it writes an
 * ActionEvent before it acts and an observation afterwards, and never repeats an action that is in the log.
 */
export interface Program {
  /** Deals with the pending messages. Throws `RunFailure` when it can't. */
  work(run: Run): Promise<void>;
}

/** Ends a run with status `error` and a ConversationErrorEvent, or `stuck` and none. */
export class RunFailure extends Error {
  override readonly name = 'RunFailure';
  readonly code: string;
  readonly classification: Classification;
  readonly status: 'error' | 'stuck';

  constructor(
    code: string,
    detail: string,
    options: ErrorOptions & { readonly classification: Classification; readonly status?: 'stuck' },
  ) {
    super(detail, options);
    this.code = code;
    this.classification = options.classification;
    this.status = options.status ?? 'error';
  }
}

/** Thrown by `checkpoint`. */
export class PauseRequested extends Error {
  override readonly name = 'PauseRequested';
}
