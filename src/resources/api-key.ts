import { z } from 'zod';
import { conditionsSchema } from './conditions.ts';
import { ageColumn, resourceOf, type CustomObject, type CustomResourceDefinition } from './group.ts';
import { immutable, ownerName, timestamp, validations } from './schema.ts';

export const apiKeyRoles = ['user', 'admin'] as const;

export const apiKeySpecSchema = z
  .object({
    owner: ownerName().meta({ description: 'Whose conversations the key opens.' }),
    role: z.enum(apiKeyRoles).default('user'),
    sha256: z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .meta({ description: 'SHA-256 of the key, in hex. The key itself is stored nowhere.' }),
    description: z.string().max(200).optional(),
    expiresAt: timestamp().optional(),
    disabled: z.boolean().optional(),
  })
  .meta(validations(...immutable({ required: ['owner', 'sha256'] })));

export const apiKeyStatusSchema = z.object({
  lastUsedTime: timestamp().optional().meta({ description: 'Coarse: written at most once an hour.' }),
  conditions: conditionsSchema,
});

export type ApiKeySpec = z.output<typeof apiKeySpecSchema>;
export type ApiKey = CustomObject<ApiKeySpec, z.output<typeof apiKeyStatusSchema>>;

export const apiKeyDefinition: CustomResourceDefinition = {
  kind: 'ApiKey',
  plural: 'apikeys',
  singular: 'apikey',
  shortNames: ['ak'],
  description: 'A key for the REST service.',
  spec: apiKeySpecSchema,
  status: apiKeyStatusSchema,
  printerColumns: [
    { name: 'Owner', type: 'string', jsonPath: '.spec.owner', description: 'Whom it belongs to.' },
    { name: 'Role', type: 'string', jsonPath: '.spec.role', description: 'user or admin.' },
    { name: 'Description', type: 'string', jsonPath: '.spec.description', description: 'What it is for.' },
    { name: 'Expires', type: 'date', jsonPath: '.spec.expiresAt', description: 'When it stops working.' },
    { name: 'Disabled', type: 'boolean', jsonPath: '.spec.disabled', description: 'Whether it has been switched off.', priority: 1 },
    ageColumn,
  ],
  selectableFields: ['.spec.owner'],
};

export const apiKeys = resourceOf<ApiKey>(apiKeyDefinition);
