import { TestGateway } from '../../support/gateway/test-gateway.ts';

interface Operation {
  readonly operationId: string;
  readonly parameters: readonly {
    readonly name: string;
    readonly in: string;
    readonly required: boolean;
    readonly schema: object;
  }[];
  readonly responses: Readonly<
    Record<
      string,
      {
        readonly headers: Readonly<Record<string, unknown>>;
        readonly content: Readonly<Record<string, unknown>>;
      }
    >
  >;
  readonly security?: readonly unknown[];
}
interface Document {
  readonly openapi: string;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly schemas: Readonly<
      Record<
        string,
        {
          readonly properties?: Readonly<Record<string, unknown>>;
          readonly required?: readonly string[];
        }
      >
    >;
  };
}

describe('the OpenAPI document', () => {
  let gateway: TestGateway;
  let document: Document;
  let text: string;
  beforeAll(async () => {
    gateway = await TestGateway.start({ publicUrl: 'https://agents.example' });
    const answer = await gateway.get('/openapi.json', { key: null });
    ({ text } = answer);
    document = answer.json as Document;
  });
  afterAll(() => gateway.stop());

  const operations = () =>
    Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.values(methods).map((operation) => ({ path, ...operation })),
    );

  it('is of version 3.1 and names the public address', () => {
    expect(document).toMatchObject({
      openapi: '3.1.0',
      servers: [{ url: 'https://agents.example' }],
    });
  });

  it('holds every route, each with an id of its own', () => {
    const ids = operations().map(({ operationId }) => operationId);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.sort()).toEqual(gateway.gateway.routes.map(({ operationId }) => operationId).sort());
  });

  it('declares each parameter of a path, and no other', () => {
    for (const { path, parameters } of operations()) {
      const declared = parameters
        .filter((parameter) => parameter.in === 'path')
        .map(({ name }) => name);
      expect(declared).toEqual([...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name));
    }
  });

  it('has no reference that leads nowhere', () => {
    const references = [...text.matchAll(/"\$ref":"([^"]+)"/g)].map(
      ([, reference]) => reference ?? '',
    );
    expect(references.length).toBeGreaterThan(20);
    for (const reference of references)
      expect(document).toHaveProperty(reference.replace('#/', '').split('/'));
  });

  it('closes every object of a body, but those that clients fill with settings of agents', () => {
    const { schemas } = document.components as { readonly schemas: Record<string, unknown> };
    const openIn = (schema: unknown, path: string): readonly string[] => {
      if (typeof schema !== 'object' || schema === null) return [];
      if ('$ref' in schema)
        return openIn(schemas[String(schema.$ref).split('/').at(-1) ?? ''], path);
      const isOpen =
        'properties' in schema &&
        !('additionalProperties' in schema && schema.additionalProperties === false);
      return [
        ...(isOpen ? [path] : []),
        ...Object.entries(schema).flatMap(([name, inner]) => openIn(inner, `${path}.${name}`)),
      ];
    };
    const open = operations().flatMap(({ operationId, ...operation }) =>
      openIn('requestBody' in operation ? operation.requestBody : {}, operationId),
    );
    const names = open.map((path) => path.replace(/\.content.*?\.schema/, ''));
    expect(new Set(names.map((path) => path.replace(/\.(anyOf\.\d|properties)/g, '')))).toEqual(
      new Set([
        ...['saveSettings.agent_settings_diff', 'saveSettings.agent_settings_diff.llm'],
        ...['updateSettings.agent_settings_diff', 'updateSettings.agent_settings_diff.llm'],
        'dropAnalyticsEvents',
      ]),
    );
  });

  it('says which fields are needed, and what the limits are', () => {
    expect(document.components.schemas['StartRequest']?.required).toEqual(['initial_message']);
    expect(document.components.schemas['Conversation']?.required).toContain(
      'sandbox_status_reason',
    );
    const search = operations().find(({ operationId }) => operationId === 'searchConversations');
    expect(search?.parameters.find(({ name }) => name === 'limit')).toMatchObject({
      required: false,
      schema: { type: 'integer', minimum: 1, maximum: 100, default: 100 },
    });
  });

  it('asks for a key everywhere but at the open endpoints', () => {
    const open = operations().filter(({ security }) => security?.length === 0);
    expect(open.map(({ path }) => path).sort()).toEqual([
      '/',
      '/account',
      '/alive',
      '/api/v1/shared/{token}/conversation',
      '/api/v1/shared/{token}/events/count',
      '/api/v1/shared/{token}/events/search',
      '/api/v1/shared/{token}/file',
      '/api/v1/shared/{token}/files',
      '/api/v1/shared/{token}/git/changes',
      '/api/v1/shared/{token}/git/diff',
      '/api/v1/shared/{token}/timeline',
      '/c/{id}',
      '/conversations/{id}',
      '/device',
      '/device',
      '/docs',
      '/health',
      '/login',
      '/login',
      '/login/{issuer}',
      '/logout',
      '/oauth/callback/{issuer}',
      '/oauth/device/authorize',
      '/oauth/device/token',
      '/openapi.json',
      '/operate',
      '/ready',
      '/server_info',
      '/shared/{token}',
      '/usage',
    ]);
    // The page for signing in shows a refusal itself.
    for (const { path, responses, security } of operations())
      expect([path, '401' in responses]).toEqual([
        path,
        security?.length !== 0 || path === '/login',
      ]);
  });

  it('says on every operation with a key what limits and overload answer, and with which headers', () => {
    for (const { responses, security } of operations()) {
      for (const { headers } of Object.values(responses))
        expect(headers).toHaveProperty('X-Request-Id');
      if (security !== undefined) continue;
      expect(responses['401']?.headers).toHaveProperty('WWW-Authenticate');
      for (const status of ['429', '503'])
        expect(responses[status]?.headers).toHaveProperty('Retry-After');
      expect(responses['429']?.headers).toHaveProperty('RateLimit');
    }
  });

  it('distinguishes pages from JSON', () => {
    const pages = operations().filter(
      ({ responses }) => 'text/html' in (responses['200']?.content ?? {}),
    );
    expect(pages.map(({ path }) => path).sort()).toEqual([
      '/',
      '/account',
      '/c/{id}',
      '/conversations/{id}',
      '/device',
      '/device',
      '/docs',
      '/login',
      '/logout',
      '/operate',
      '/shared/{token}',
      '/usage',
    ]);
  });

  it('says nothing that belongs to zod alone', () => {
    expect(text).not.toMatch(/"\$schema"|"\$id"|"\$defs"/);
  });
});
