import { z } from 'zod';
import { problems, type ProblemCode } from './catalogue.ts';
import type { ProblemError } from './problem-error.ts';

export const problemSchema = z.object({
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string(),
  code: z.enum(Object.keys(problems) as [ProblemCode, ...ProblemCode[]]),
  request_id: z.string(),
  limit: z.int().optional(),
  current: z.int().optional(),
  errors: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
});

export const problemBody = (
  problem: ProblemError,
  requestId: string,
): z.output<typeof problemSchema> => ({
  type: `tag:conversation-operator.dev,2026:${problem.code}`,
  title: problems[problem.code].title,
  status: problem.status,
  detail: problem.message,
  code: problem.code,
  request_id: requestId,
  ...problem.usage,
  ...(problem.errors === undefined ? {} : { errors: [...problem.errors] }),
});
