import * as z from 'zod/mini';

/** What a conversation was created with, as it is stored. Sealed texts can be read with the server's secret key only. */
export const metaSchema = z.object({
  /** 32 hex digits. */
  id: z.string(),
  createdAt: z.string(),
  workingDir: z.string(),
  maxIterations: z.number(),
  title: z.optional(z.string()),
  tags: z.record(z.string(), z.string()),
  systemMessageSuffix: z.optional(z.string()),
  loadProjectSkills: z.boolean(),
  hookConfig: z.optional(z.record(z.string(), z.unknown())),
  llm: z.optional(
    z.object({
      model: z.optional(z.string()),
      baseUrl: z.optional(z.string()),
      sealedApiKey: z.optional(z.string()),
      retries: z.optional(z.number()),
    }),
  ),
  sealedSecrets: z.record(z.string(), z.string()),
});
export type Meta = z.output<typeof metaSchema>;
