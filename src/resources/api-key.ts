import { z } from 'zod';
import {
  ageColumn,
  resourceOf,
  type CustomObject,
  type CustomResourceDefinition,
} from './group.ts';
import { immutable, objectName, ownerName, timestamp, validations } from './schema.ts';

export const apiKeyRoles = ['user', 'admin'] as const;

export const apiKeySpecSchema = z
  .object({
    owner: ownerName().meta({ description: 'Owner whose conversations the key opens.' }),
    role: z
      .enum(apiKeyRoles)
      .default('user')
      .meta({ description: 'user, or admin: also lists and revokes the keys of other owners.' }),
    sha256: z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .meta({ description: 'SHA-256 of the key, in hex. The key itself is stored nowhere.' }),
    description: z
      .string()
      .max(200)
      .optional()
      .meta({ description: 'Purpose of the key, for people.' }),
    expirationTime: timestamp()
      .optional()
      .meta({ description: 'Time from which the key is invalid. Absent: never.' }),
    disabled: z.boolean().optional().meta({ description: 'True: the key is invalid.' }),
    issuedBy: z
      .object({
        name: objectName().meta({ description: 'Name of the ApiKey.' }),
        uid: z.string().min(1).max(64).meta({ description: 'UID of the ApiKey.' }),
      })
      .optional()
      .meta({
        description:
          'Key that created this one over REST. This key is valid only as long as that one is. Absent: created on the command line or with kubectl.',
      }),
  })
  .meta(
    validations(...immutable({ required: ['owner', 'role', 'sha256'], optional: ['issuedBy'] })),
  );

export const apiKeyStatusSchema = z.object({
  lastUsedTime: timestamp().optional().meta({
    description:
      'Time at which the key was last used. Written by the gateway, at most once an hour.',
  }),
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
    { name: 'Owner', type: 'string', jsonPath: '.spec.owner', description: 'Owner of the key.' },
    { name: 'Role', type: 'string', jsonPath: '.spec.role', description: 'user or admin.' },
    {
      name: 'Description',
      type: 'string',
      jsonPath: '.spec.description',
      description: 'Purpose of the key.',
    },
    {
      name: 'Expires',
      type: 'date',
      jsonPath: '.spec.expirationTime',
      description: 'Time from which the key is invalid.',
    },
    {
      name: 'Disabled',
      type: 'boolean',
      jsonPath: '.spec.disabled',
      description: 'Whether the key is disabled.',
      priority: 1,
    },
    {
      name: 'Issued-By',
      type: 'string',
      jsonPath: '.spec.issuedBy.name',
      description: 'Key that created this one.',
      priority: 1,
    },
    ageColumn,
  ],
  selectableFields: ['.spec.owner'],
};

export const apiKeys = resourceOf<ApiKey>(apiKeyDefinition);
