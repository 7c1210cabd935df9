import * as z from 'zod/mini';

/** The reference agent does not judge risks, so ConfirmRisky asks before every action. */
export const confirmationPolicies = ['NeverConfirm', 'AlwaysConfirm', 'ConfirmRisky'] as const;

/** Stored settings of a conversation. Sealed texts need the server's secret key. */
export const metaSchema = z.object({
  /** UUID as 32 hexadecimal digits. */
  id: z.string(),
  createdAt: z.string(),
  workingDir: z.string(),
  maxIterations: z.number(),
  /** Absent: NeverConfirm. */
  confirmationPolicy: z.optional(z.enum(confirmationPolicies)),
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
  /** Values by name. */
  sealedSecrets: z.record(z.string(), z.string()),
  /** Requests that read a value from another server, as JSON by name. */
  sealedLookups: z.optional(z.record(z.string(), z.string())),
  /** The conversation's MCP servers as JSON, sealed because headers may contain secrets. */
  sealedMcpServers: z.optional(z.string()),
});
export type Meta = z.output<typeof metaSchema>;
