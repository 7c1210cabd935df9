import type { Principal } from '../auth/key-ring.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { type Route, endpoints } from '../http/route.ts';
import { searchPage, sortedBy } from '../paging/keyset.ts';
import { refuseTooMany, idQuery, pageQuery } from '../http/fields.ts';
import { z } from 'zod';
import { agentKinds, defaultAgentKind } from '../../resources/agent-settings.ts';
import { agentContainerOf, type SandboxTemplate } from '../../resources/sandbox-template.ts';
import { findCondition } from '../../resources/conditions.ts';
import { plainText } from '../../resources/plain-text.ts';
import { nullableText, pageSchema, timestampSchema, wireTime } from '../presenters/schemas.ts';

const maxReasonCharacters = 500;

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
  agent: z
    .object({
      kind: z.enum(agentKinds),
      name: z.string().describe('Name of an agent of the Agent Client Protocol; else its kind.'),
      asks: z
        .boolean()
        .describe(
          'Whether the agent may ask a person before it acts, where a start says nothing else.',
        ),
    })
    .describe('Agent of the sandboxes.'),
  default_model: nullableText.describe(
    'The model of starts that name none; null: that of the agent.',
  ),
  allowed_models: z
    .array(z.string())
    .nullable()
    .describe('Models that a start may name besides; * matches any text. Null: no list.'),
  invalid_reason: nullableText.describe(
    'Why no sandbox can be made of it; null where it is valid.',
  ),
});
export const sandboxSpecList = z.array(sandboxSpecSchema.nullable());
export const sandboxSpecPage = pageSchema(sandboxSpecSchema);
export type SandboxSpecRecord = z.output<typeof sandboxSpecSchema>;

export function presentSandboxSpec(template: SandboxTemplate): z.output<typeof sandboxSpecSchema> {
  const { spec, metadata, status } = template;
  const valid = findCondition(status?.conditions, 'Valid');
  const container = agentContainerOf(template);
  const command = [...(container?.command ?? []), ...(container?.args ?? [])];
  const { kind = defaultAgentKind, acp } = spec.agent;
  // Without this field, an agent of the Agent Client Protocol uses its own mode and may ask.
  const { confirmationPolicy = kind === 'acp' ? 'ConfirmRisky' : 'NeverConfirm' } = spec.agent;
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
    agent: { kind, name: acp?.agent ?? kind, asks: confirmationPolicy !== 'NeverConfirm' },
    default_model: spec.agent.model ?? null,
    allowed_models: spec.agent.allowedModels === undefined ? null : [...spec.agent.allowedModels],
    invalid_reason:
      valid?.status === 'False' ? plainText(valid.message, maxReasonCharacters) : null,
  };
}

/** Whether the key of a request may start sandboxes of a template. */
const isFor =
  ({ chain: { templates } }: Principal) =>
  ({ metadata: { name } }: SandboxTemplate): boolean =>
    templates?.includes(name) !== false;

const base = '/api/v1/sandbox-specs';
const { get } = endpoints('sandbox specs');

export const sandboxSpecRoutes = ({
  lookup,
}: {
  readonly lookup: ResourceLookup;
}): readonly Route[] => [
  get(`${base}/search`, 'searchSandboxSpecs', {
    summary: 'What sandboxes can be made from with this key, by name',
    query: pageQuery,
    responses: { 200: sandboxSpecPage },
    handle: ({ principal, query }) => {
      const { items, next_page_id } = searchPage(
        sortedBy(lookup.templates().filter(isFor(principal)), ({ metadata: { name } }) => ({
          key: name,
          id: name,
        })),
        { order: 'sandbox-specs', descending: false, ...query },
      );
      return { json: { items: items.map(presentSandboxSpec), next_page_id } };
    },
  }),
  get(base, 'getSandboxSpecs', {
    summary: 'Sandbox specs by id, in the order asked; null for unknown ones',
    query: idQuery,
    responses: { 200: sandboxSpecList },
    problems: ['too-many-ids'],
    handle: async ({ principal, query }) => {
      refuseTooMany(query.id);
      const found = await Promise.all(query.id.map((id) => lookup.template(id)));
      const isOwn = isFor(principal);
      const shown = (template: SandboxTemplate | undefined) =>
        template !== undefined && isOwn(template) ? presentSandboxSpec(template) : null;
      return { json: found.map(shown) };
    },
  }),
];
