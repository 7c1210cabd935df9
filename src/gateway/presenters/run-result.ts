import { z } from 'zod';
import { kebabCase } from '../../resources/owner-mends.ts';
import { resultDetailOf, type RunResult } from '../../resources/run-result.ts';
import { nullableText } from './schemas.ts';

export const runResultSchema = z.object({
  reason: nullableText.describe(
    'Why the result needs attention: tool-failed, tool-rejected, model-not-configured. Null where it does not.',
  ),
  detail: nullableText.describe('The reason as a text for people. Null without a reason.'),
  exit_code: z
    .int()
    .nullable()
    .describe('Exit code of the last command, if that command failed and the agent reports one.'),
  message: nullableText.describe(
    "Beginning of the agent's last message on one line, without known secrets; … marks that there is more.",
  ),
});

export const presentRunResult = (
  result: RunResult | undefined,
): z.output<typeof runResultSchema> | null =>
  result === undefined
    ? null
    : {
        reason: result.reason === undefined ? null : kebabCase(result.reason),
        detail: resultDetailOf(result) ?? null,
        exit_code: result.exitCode ?? null,
        message: result.message ?? null,
      };
