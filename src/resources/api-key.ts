import { z } from 'zod';
import { conditionsSchema } from './conditions.ts';
import { ageColumn, resourceOf, type CustomObject, type CustomResourceDefinition } from './group.ts';
import { immutable, objectName, ownerName, timestamp, validations } from './schema.ts';

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
    expirationTime: timestamp().optional(),
    disabled: z.boolean().optional(),
    issuedBy: z
      .object({ name: objectName(), uid: z.string().min(1).max(64) })
      .optional()
      .meta({
        description:
          'The key that made this one over REST, which is valid only as long as that one is. Absent: made on the command line or with kubectl.',
      }),
  })
  .meta(validations(...immutable({ required: ['owner', 'role', 'sha256'], optional: ['issuedBy'] })));

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
    { name: 'Expires', type: 'date', jsonPath: '.spec.expirationTime', description: 'When it stops working.' },
    { name: 'Disabled', type: 'boolean', jsonPath: '.spec.disabled', description: 'Whether it has been switched off.', priority: 1 },
    { name: 'Issued-By', type: 'string', jsonPath: '.spec.issuedBy.name', description: 'The key that made it.', priority: 1 },
    ageColumn,
  ],
  selectableFields: ['.spec.owner'],
};

export const apiKeys = resourceOf<ApiKey>(apiKeyDefinition);
