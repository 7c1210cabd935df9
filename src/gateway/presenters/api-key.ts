import { z } from 'zod';
import { apiKeyRoles, type ApiKey } from '../../resources/api-key.ts';
import { nullableText, timestampSchema, wireTime } from './schemas.ts';

export const apiKeySchema = z.object({
  id: z.string(),
  name: z.string(),
  user_id: z.string(),
  role: z.enum(apiKeyRoles),
  created_at: timestampSchema,
  last_used_at: timestampSchema
    .nullable()
    .describe('To the hour; null: not yet, or within the last minute.'),
  expires_at: timestampSchema.nullable().describe('When it stops working; null: never.'),
  issued_by: nullableText.describe('The key that made it, and that it ends with; null: none.'),
});
export type ApiKeyRecord = z.output<typeof apiKeySchema>;
export const issuedApiKeySchema = apiKeySchema.extend({
  key: z.string().describe('The key itself. It is shown only now.'),
});

/**
 * A time that a person wrote by kubectl and that can't be read shows as none; for authentication it
 * is past.
 */
const timeOrNull = (text: string | undefined): string | null =>
  text === undefined || Number.isNaN(Date.parse(text)) ? null : wireTime(text);

/** The record of a key, without its hash. */
export const presentApiKey = ({ metadata, spec, status }: ApiKey): ApiKeyRecord => ({
  id: metadata.name,
  name: spec.description ?? metadata.name,
  user_id: spec.owner,
  role: spec.role,
  created_at: wireTime(metadata.creationTimestamp),
  last_used_at: timeOrNull(status?.lastUsedTime),
  expires_at: timeOrNull(spec.expirationTime),
  issued_by: spec.issuedBy?.name ?? null,
});
