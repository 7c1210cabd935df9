import { z } from 'zod';
import { optional, text } from './schema.ts';

/** Reasons why the result of a completed run needs attention; see docs/reasons.md. */
export const runResultReasons = ['ToolFailed', 'ToolRejected', 'ModelNotConfigured'] as const;

/** Maximum characters of the agent's last text in the result. */
export const maxResultMessage = 200;
const maxExitCode = 2 ** 31 - 1;

export const exitCodeSchema = z
  .int()
  .min(-maxExitCode - 1)
  .max(maxExitCode);

export const runResultSchema = z.object({
  reason: optional(
    z.enum(runResultReasons),
    'Reason why the result needs attention; docs/reasons.md lists all reasons. Absent for a run without one.',
  ),
  exitCode: optional(
    exitCodeSchema,
    'Exit code of the last command, if that command failed. Absent also where the agent reports none.',
  ),
  message: optional(
    text(maxResultMessage),
    "Beginning of the agent's last message, on one line and without known secrets; … marks that there is more.",
  ),
});
export type RunResult = z.output<typeof runResultSchema>;

/** Explains the reason to people, and what they can do; undefined without a reason. */
export function resultDetailOf({ reason, exitCode }: RunResult): string | undefined {
  switch (reason) {
    case undefined:
      return undefined;
    case 'ToolFailed':
      return exitCode === undefined
        ? 'The last tool call failed.'
        : `The last command failed: exit code ${exitCode}.`;
    case 'ToolRejected':
      return 'The last tool call was rejected, so it did not run.';
    case 'ModelNotConfigured':
      return 'No model is configured, so nothing was done. Choose one on /account and start again, or send a message with a shell code block.';
  }
}
