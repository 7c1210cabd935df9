import { z } from 'zod';
import { agentContainerOf, type SandboxTemplate } from '../../resources/sandbox-template.ts';
import { nullableText, pageSchema, timestampSchema } from './schemas.ts';
import { wireTime } from './time.ts';

export const sandboxSpecSchema = z.object({
  id: z.string(),
  command: z.array(z.string()).nullable(),
  created_at: timestampSchema,
  initial_env: z
    .record(z.string(), z.string())
    .describe('Plain values only; what comes from Secrets is left out.'),
  working_dir: z.string(),
  display_name: nullableText,
  description: nullableText,
  image: nullableText,
});
export const sandboxSpecList = z.array(sandboxSpecSchema.nullable());
export const sandboxSpecPage = pageSchema(sandboxSpecSchema);
export type SandboxSpecRecord = z.output<typeof sandboxSpecSchema>;

export function presentSandboxSpec(template: SandboxTemplate): z.output<typeof sandboxSpecSchema> {
  const { spec, metadata } = template;
  const container = agentContainerOf(template);
  const command = [...(container?.command ?? []), ...(container?.args ?? [])];
  return {
    id: metadata.name,
    command: command.length > 0 ? command : null,
    created_at: wireTime(metadata.creationTimestamp),
    initial_env: Object.fromEntries(
      (container?.env ?? []).flatMap(({ name, value }) =>
        value === undefined ? [] : [[name, value]],
      ),
    ),
    working_dir: spec.agent.workingDir,
    display_name: spec.displayName ?? null,
    description: spec.description ?? null,
    image: container?.image ?? null,
  };
}
