import { crds } from '../../support/crds.ts';
import type { ApiObject } from '../../../packages/local-cluster/src/api/api-object.ts';
import { customResource } from '../../../packages/local-cluster/src/registry/custom-resource.ts';
import type { Schema } from '../../../packages/local-cluster/src/schema/structural-schema.ts';
import { TestGateway } from '../../support/gateway/test-gateway.ts';
import { maxSecretBytes } from '../../../src/resources/owner-settings.ts';
import { openApproval } from '../../support/gateway/open-approval.ts';

const schemas = new Map(
  crds().map((definition) => {
    const { plural, schema } = customResource(definition as unknown as ApiObject);
    return [plural, schema];
  }),
);

/** Returns the schema of a field; `[]` is the item of a list, `{}` the value of a map. */
function fieldSchema(path: string): Schema {
  const [plural = '', ...keys] = path.split('.');
  return keys.reduce<Schema>(
    (schema, key) => {
      const name = key.replace(/(\[\]|\{\})$/, '');
      const field = schema.properties?.[name] ?? {};
      if (key.endsWith('[]')) return field.items ?? {};
      if (key.endsWith('{}'))
        return typeof field.additionalProperties === 'object' ? field.additionalProperties : {};
      return field;
    },
    schemas.get(plural) ?? {},
  );
}

const bounds = ['maxLength', 'maxItems'] as const;

function boundOf(path: string): number {
  const schema = fieldSchema(path);
  const [bound] = bounds.flatMap((name) => schema[name] ?? []);
  if (bound === undefined) throw new Error(`${path} has no bound`);
  return bound;
}

type Body = Readonly<Record<string, unknown>>;
/** A request whose field has a size, about a conversation. */
type Request = (size: number, id: string) => readonly [method: string, path: string, body: Body];
interface Row {
  readonly field: string;
  /** The field of the request, as an error names it. */
  readonly path: string;
  readonly request: Request;
  /** The bound where the CRD has a pattern, or a bound of the sealed text. */
  readonly bound?: number;
}

const text = (size: number) => 'x'.repeat(size);
const list = <T>(size: number, item: (index: number) => T) =>
  Array.from({ length: size }, (_, index) => item(index));
const record = <T>(size: number, value: T) =>
  Object.fromEntries(list(size, (index) => [`n${index}`, value]));

const textPart = { type: 'text', text: 'Hello' };
const images = (image_urls: readonly string[]) => ({ type: 'image', image_urls });

const starting =
  (body: (size: number) => Body): Request =>
  (size) => [
    'POST',
    '/api/v1/app-conversations',
    { initial_message: { content: [textPart] }, ...body(size) },
  ];
const startingWith = (content: (size: number) => readonly unknown[]) =>
  starting((size) => ({ initial_message: { content: content(size) } }));
const sending =
  (content: (size: number) => readonly unknown[]): Request =>
  (size, id) => [
    'POST',
    `/api/v1/app-conversations/${id}/send-message`,
    { content: content(size) },
  ];
const to =
  (method: string, path: string, body: (size: number) => Body): Request =>
  (size, id) => [method, path.replace('{id}', id), body(size)];
const saving = (body: (size: number) => Body) => to('POST', '/api/v1/settings', body);
const savingServer = (body: (size: number) => Body) =>
  saving((size) => ({ mcp_config: { docs: body(size) } }));
const startingLegacy = (body: (size: number) => Body) => to('POST', '/api/conversations', body);

const conversationRow = (field: string, path: string, request: Request, bound?: number): Row => ({
  field: `conversations.spec.${field}`,
  path: `body.${path}`,
  request,
  ...(bound === undefined ? {} : { bound }),
});
const settingsRow = (field: string, path: string, request: Request, bound?: number): Row => ({
  ...conversationRow(field, path, request, bound),
  field: `ownersettings.spec.${field}`,
});
const keyRow = (field: string, path: string, request: Request): Row => ({
  ...conversationRow(field, path, request),
  field: `apikeys.spec.${field}`,
});

const rows: readonly Row[] = [
  conversationRow(
    'title',
    'title',
    starting((size) => ({ title: text(size) })),
  ),
  conversationRow(
    'title',
    'title',
    to('PATCH', '/api/v1/app-conversations/{id}', (size) => ({ title: text(size) })),
  ),
  conversationRow(
    'tags{}',
    'tags.t',
    to('PATCH', '/api/v1/app-conversations/{id}', (size) => ({ tags: { t: text(size) } })),
  ),
  conversationRow(
    'trigger',
    'trigger',
    starting((size) => ({ trigger: text(size) })),
  ),
  conversationRow(
    'agent.type',
    'agent_type',
    starting((size) => ({ agent_type: text(size) })),
  ),
  conversationRow(
    'agent.model',
    'llm_model',
    starting((size) => ({ llm_model: text(size) })),
  ),
  conversationRow(
    'agent.systemMessageSuffix',
    'system_message_suffix',
    starting((size) => ({ system_message_suffix: text(size) })),
  ),
  conversationRow(
    'agent.systemMessageSuffix',
    'conversation_instructions',
    startingLegacy((size) => ({ conversation_instructions: text(size) })),
  ),
  conversationRow(
    'agent.tools',
    'tools',
    starting((size) => ({ tools: list(size, (index) => `tool${index}`) })),
  ),
  conversationRow(
    'agent.tools[]',
    'tools[0]',
    starting((size) => ({ tools: [text(size)] })),
  ),
  conversationRow(
    'repository.name',
    'selected_repository',
    starting((size) => ({ selected_repository: `a/${text(size - 2)}` })),
  ),
  conversationRow(
    'repository.branch',
    'selected_branch',
    starting((size) => ({ selected_repository: 'a/b', selected_branch: text(size) })),
  ),
  conversationRow(
    'prNumbers',
    'pr_number',
    starting((size) => ({ pr_number: list(size, (index) => index + 1) })),
  ),
  conversationRow(
    'secrets',
    'secrets',
    starting((size) => ({ secrets: record(size, 'v') })),
  ),
  conversationRow(
    'secrets[].sealed',
    'secrets.NAME',
    starting((size) => ({ secrets: { NAME: text(size) } })),
    maxSecretBytes,
  ),
  ...(
    [
      ['initialMessage', 'initial_message.', startingWith],
      ['messages[]', '', sending],
    ] as const
  ).flatMap(([field, path, requestOf]) => [
    conversationRow(
      `${field}.content`,
      `${path}content`,
      requestOf((size) => list(size, () => textPart)),
    ),
    conversationRow(
      `${field}.content[].text`,
      `${path}content`,
      requestOf((size) => [{ type: 'text', text: text(size) }]),
    ),
    conversationRow(
      `${field}.content[].imageUrls`,
      `${path}content[0].image_urls`,
      requestOf((size) => [images(list(size, () => 'data:'))]),
    ),
    conversationRow(
      `${field}.content[].imageUrls[]`,
      `${path}content[0].image_urls[0]`,
      requestOf((size) => [images([text(size)])]),
    ),
  ]),
  conversationRow(
    'initialMessage.content[].text',
    'initial_user_msg',
    startingLegacy((size) => ({ initial_user_msg: text(size) })),
  ),
  conversationRow(
    'initialMessage.content[].imageUrls',
    'image_urls',
    startingLegacy((size) => ({ image_urls: list(size, () => 'data:') })),
  ),
  conversationRow(
    'initialMessage.content[].imageUrls[]',
    'image_urls[0]',
    startingLegacy((size) => ({ image_urls: [text(size)] })),
  ),
  {
    field: 'conversations.spec.approvals[].reason',
    path: 'body',
    request: to('POST', `/api/v1/app-conversations/{id}/approvals/${openApproval.id}`, (size) => ({
      decision: 'reject',
      reason: text(size),
    })),
  },
  settingsRow(
    'secrets[].name',
    'name',
    to('POST', '/api/v1/secrets', (size) => ({ name: text(size), value: 'v' })),
    128,
  ),
  settingsRow(
    'secrets[].description',
    'description',
    to('POST', '/api/v1/secrets', (size) => ({ name: 'A', value: 'v', description: text(size) })),
  ),
  settingsRow(
    'secrets[].sealed',
    'value',
    to('POST', '/api/v1/secrets', (size) => ({ name: 'B', value: text(size) })),
    maxSecretBytes,
  ),
  settingsRow(
    'model',
    'llm_model',
    saving((size) => ({ llm_model: text(size) })),
  ),
  settingsRow(
    'git.name',
    'git_user_name',
    saving((size) => ({ git_user_name: text(size), git_user_email: 'a@example.com' })),
  ),
  settingsRow(
    'git.email',
    'git_user_email',
    saving((size) => ({ git_user_name: 'A', git_user_email: text(size) })),
  ),
  settingsRow(
    'mcpServers',
    'mcp_config',
    saving((size) => ({ mcp_config: record(size, { command: 'docs' }) })),
  ),
  settingsRow(
    'mcpServers[].name',
    'mcp_config.',
    saving((size) => ({ mcp_config: { [text(size)]: { command: 'docs' } } })),
  ),
  settingsRow(
    'mcpServers[].url',
    'mcp_config.docs.url',
    savingServer((size) => ({ url: `https://docs/${text(size - 13)}` })),
  ),
  settingsRow(
    'mcpServers[].command',
    'mcp_config.docs.command',
    savingServer((size) => ({ url: null, command: text(size) })),
  ),
  settingsRow(
    'mcpServers[].args',
    'mcp_config.docs.args',
    savingServer((size) => ({ command: 'docs', args: list(size, () => 'x') })),
  ),
  settingsRow(
    'mcpServers[].args[]',
    'mcp_config.docs.args[0]',
    savingServer((size) => ({ command: 'docs', args: [text(size)] })),
  ),
  settingsRow(
    'mcpServers[].sealed',
    'mcp_config.docs.env',
    savingServer((size) => ({ command: 'docs', env: { A: text(size - '{"A":""}'.length) } })),
    maxSecretBytes,
  ),
  keyRow(
    'description',
    'name',
    to('POST', '/api/keys', (size) => ({ name: text(size) })),
  ),
  keyRow(
    'owner',
    'owner',
    to('POST', '/api/keys', (size) => ({ name: 'key', owner: text(size) })),
  ),
];

/** Fields that no request sets to its own text or list, or whose bound another test reaches. */
const others: readonly string[] = [
  ...['owner', 'sandboxName', 'templateName', 'parent'].map((name) => `conversations.spec.${name}`),
  ...['name', 'to'].map((name) => `conversations.spec.handover.${name}`),
  ...['messages', 'messages[].id'].map((name) => `conversations.spec.${name}`),
  ...['', '[].id', '[].option', '[].by'].map((name) => `conversations.spec.approvals${name}`),
  ...['owner', 'secrets', 'secrets[].updatedTime'].map((name) => `ownersettings.spec.${name}`),
  ...['expirationTime', 'issuedBy.name', 'issuedBy.uid'].map((name) => `apikeys.spec.${name}`),
  ...['scopes', 'notBefore', 'templates', 'templates[]'].map((name) => `apikeys.spec.${name}`),
  'apikeys.spec.serviceAccount',
  ...['issuer', 'subject', 'name', 'groups', 'groups[]'].map(
    (name) => `apikeys.spec.person.${name}`,
  ),
  ...['owner', 'conversation.name', 'conversation.uid', 'subject.name', 'createdBy'].map(
    (name) => `shares.spec.${name}`,
  ),
  ...['expirationTime', 'issuedBy.name', 'issuedBy.uid'].map((name) => `shares.spec.${name}`),
  ...['program', 'address'].map((name) => `apikeys.spec.device.${name}`),
];

function boundedIn(schema: Schema, path: string): readonly string[] {
  const { properties = {}, items, additionalProperties: values } = schema;
  return [
    ...(bounds.some((name) => schema[name] !== undefined) ? [path] : []),
    ...Object.entries(properties).flatMap(([key, field]) => boundedIn(field, `${path}.${key}`)),
    ...(items === undefined ? [] : boundedIn(items, `${path}[]`)),
    ...(typeof values === 'object' ? boundedIn(values, `${path}{}`) : []),
  ];
}

it.each(['conversations.spec', 'ownersettings.spec', 'apikeys.spec', 'shares.spec'])(
  'every bound in %s is reached by a request here, or listed as none of a request',
  (path) => {
    const known = new Set([...rows.map(({ field }) => field), ...others]);
    expect(boundedIn(fieldSchema(path), path).filter((field) => !known.has(field))).toEqual([]);
  },
);

describe('a field that the gateway stores', () => {
  let gateway: TestGateway;
  let rowCount = 0;
  beforeAll(async () => {
    gateway = await TestGateway.start();
  });
  afterAll(() => gateway.stop());

  it.each(rows)(
    '$field is accepted up to its bound, and refused beyond it as $path',
    async ({ field, path, request, bound = boundOf(field) }) => {
      const id = String(++rowCount).padStart(32, '0');
      const owner = `owner-${id}`;
      const key = await gateway.issueKey(owner, 'admin');
      const start = { status: 'READY' as const, transitions: [] };
      const sandboxName = `sbx-${id}`;
      const { metadata } = await gateway.addSandbox(sandboxName, { owner });
      const status = { start, approval: openApproval, sandboxName, sandboxUID: metadata.uid };
      await gateway.addConversation(id, { spec: { owner }, status });
      const send = (size: number) => {
        const [method, target, body] = request(size, id);
        return gateway.send(method, target, { key, body });
      };
      expect(Math.floor((await send(bound)).status / 100)).toBe(2);
      expect(await send(bound + 1)).toMatchObject({
        status: 422,
        json: {
          code: 'invalid-request',
          errors: [{ path: expect.stringContaining(path) as string }],
        },
      });
    },
  );
});
