import type { z } from 'zod';
import { apiKeyDefinition } from './api-key.ts';
import { conversationDefinition } from './conversation.ts';
import { conversationQuotaDefinition } from './conversation-quota.ts';
import { handoverDefinition } from './handover.ts';
import { ageColumn, group, version, type CustomResourceDefinition } from './group.ts';
import { ownerSettingsDefinition } from './owner-settings.ts';
import { sandboxDefinition } from './sandbox.ts';
import { shareDefinition } from './share.ts';
import { sandboxPoolDefinition } from './sandbox-pool.ts';
import { sandboxTemplateDefinition } from './sandbox-template.ts';
import { jsonSchemaOf } from './schema.ts';
import { usageRecordDefinition } from './usage-record.ts';

/** Every kind of this group, in the order of the documentation. */
export const definitions: readonly CustomResourceDefinition[] = [
  conversationDefinition,
  sandboxDefinition,
  sandboxTemplateDefinition,
  sandboxPoolDefinition,
  conversationQuotaDefinition,
  apiKeyDefinition,
  ownerSettingsDefinition,
  shareDefinition,
  handoverDefinition,
  usageRecordDefinition,
];

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** Whether a keyword of zod's JSON schema has no effect, or causes a warning of Kubernetes. */
const isSuperfluous = (key: string, value: Json): boolean =>
  // zod adds a pattern as well, which has the same effect.
  (key === 'format' && value === 'starts_with') ||
  // zod adds the range of safe integers of JavaScript to every integer.
  ((key === 'minimum' || key === 'maximum') && Math.abs(Number(value)) === Number.MAX_SAFE_INTEGER);

function structural(node: Json): Json {
  if (Array.isArray(node)) return (node as readonly Json[]).map(structural);
  if (typeof node !== 'object' || node === null) return node;
  const entries = Object.entries(node as Readonly<Record<string, Json>>)
    .filter(([key, value]) => !isSuperfluous(key, value))
    .map(([key, value]) => [key, structural(value)]);
  return Object.fromEntries(entries) as Json;
}

const openApiOf = (schema: z.ZodType, description: string): Json => ({
  description,
  ...(structural(jsonSchemaOf(schema) as unknown as Json) as Readonly<Record<string, Json>>),
});

/** The CustomResourceDefinition (apiextensions.k8s.io/v1) of one kind. */
export function crdOf(definition: CustomResourceDefinition) {
  const { kind, plural, shortNames, selectableFields, scale } = definition;
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: {
        kind,
        listKind: `${kind}List`,
        plural,
        singular: kind.toLowerCase(),
        shortNames: [...shortNames],
        categories: ['agents'],
      },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          additionalPrinterColumns: [...definition.printerColumns, ageColumn],
          ...(selectableFields.length > 0
            ? { selectableFields: selectableFields.map((jsonPath) => ({ jsonPath })) }
            : {}),
          subresources: { status: {}, ...(scale ? { scale } : {}) },
          schema: {
            openAPIV3Schema: {
              type: 'object',
              description: definition.description,
              required: ['spec'],
              properties: {
                apiVersion: { type: 'string' },
                kind: { type: 'string' },
                metadata: { type: 'object' },
                spec: openApiOf(definition.spec, `The desired state of the ${kind}.`),
                status: openApiOf(definition.status, `The observed state of the ${kind}.`),
              },
            },
          },
        },
      ],
    },
  };
}
