import * as z from 'zod/mini';

/** The reference agent does not judge risks, so ConfirmRisky asks before every action. */
export const confirmationPolicies = ['NeverConfirm', 'AlwaysConfirm', 'ConfirmRisky'] as const;

/** Stored settings of a conversation. The server's secret key encrypts the fields `sealed…`. */
export const metaSchema = z.object({
  /** UUID as 32 hexadecimal digits. */
  id: z.string(),
  createdAt: z.string(),
  workingDir: z.string(),
  maxIterations: z.number(),
  /** Default: NeverConfirm. */
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
  /** Encrypted values of secrets by name. */
  sealedSecrets: z.record(z.string(), z.string()),
  /** Secret name → encrypted JSON of a request that reads the secret from another server. */
  sealedLookups: z.optional(z.record(z.string(), z.string())),
  /** MCP servers as JSON, encrypted because headers may contain secrets. */
  sealedMcpServers: z.optional(z.string()),
});
export type Meta = z.output<typeof metaSchema>;
