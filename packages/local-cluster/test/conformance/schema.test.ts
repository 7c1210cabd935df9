import { causesOf } from './support/document.ts';
import { useServer } from './support/server.ts';

const server = useServer();

const create = (spec: object, query = {}) =>
  server().post(
    server().widgets(),
    { ...server().widget('', spec), metadata: { generateName: 's-' } },
    { query },
  );

describe('defaults', () => {
  it('fill what is not sent, inside defaults and lists too', async () => {
    const { body } = await create({ ports: [{ port: 1 }, { port: 2, protocol: 'UDP' }] });
    expect(body.spec).toEqual({
      color: 'green',
      size: 5,
      replicas: 1,
      min: 0,
      max: 10,
      enabled: true,
      nested: { level: 3 },
      ports: [
        { port: 1, protocol: 'TCP' },
        { port: 2, protocol: 'UDP' },
      ],
    });
  });

  it.each([
    ['take the place of null', { size: null }, { size: 5 }],
    ['leave what is false or empty', { enabled: false, tags: [] }, { enabled: false, tags: [] }],
    ['fill an empty object', { nested: {} }, { nested: { level: 3 } }],
    [
      'fill an object beside what it holds',
      { nested: { note: 'n' } },
      { nested: { level: 3, note: 'n' } },
    ],
    [
      'fill what a list item leaves null',
      { ports: [{ port: 1, protocol: null }] },
      { ports: [{ port: 1, protocol: 'TCP' }] },
    ],
  ])('%s', async (_, spec, expected) => {
    const { status, body } = await create(spec);
    expect(status).toBe(201);
    expect(body.spec).toMatchObject(expected);
  });

  it('come back when a patch takes the value away', async () => {
    const { body: made } = await create({ size: 9 });
    const { body } = await server().mergePatch(server().widgets(made.metadata.name), {
      spec: { size: null },
    });
    expect(body).toMatchObject({ spec: { size: 5 }, metadata: { generation: 2 } });
  });
});

describe('null', () => {
  it('is dropped where the schema forbids it and there is no default', async () => {
    const { status, body } = await create({ label: null, open: null });
    expect(status).toBe(201);
    expect(Object.keys(body.spec)).not.toEqual(expect.arrayContaining(['label']));
    expect(Object.keys(body.spec)).not.toEqual(expect.arrayContaining(['open']));
  });
});

describe('unknown fields', () => {
  it('are dropped', async () => {
    const { status, body } = await create({
      bogus: 1,
      nested: { bogus: 2 },
      ports: [{ port: 1, bogus: 3 }],
      box: { c: 'c' },
    });
    expect(status).toBe(201);
    expect(JSON.stringify(body.spec)).not.toContain('bogus');
    expect(body.spec).toMatchObject({ box: {} });
  });

  it('are kept where the schema says so, but not inside what it knows', async () => {
    const { body } = await create({
      open: { any: { thing: [1, 'two', null] }, known: { a: 'a', b: 'b' } },
    });
    expect(body.spec).toMatchObject({
      open: { any: { thing: [1, 'two', null] }, known: { a: 'a' } },
    });
    expect(body.spec['open']).not.toHaveProperty('known.b');
  });

  it('of the object itself are dropped', async () => {
    const { body } = await server().post(server().widgets(), {
      ...server().widget('stray'),
      extra: { a: 1 },
    });
    expect(body).not.toHaveProperty('extra');
  });

  it('of metadata are dropped', async () => {
    const { status, body } = await server().post(
      server().widgets(),
      server().widget('stray-meta', {}, { bogus: 'x' }),
    );
    expect(status).toBe(201);
    expect(body.metadata).not.toHaveProperty('bogus');
  });
});

const value = (field: string, shown: string, text: string) =>
  `${field}: FieldValueInvalid: Invalid value: ${shown}: ${text}`;
const type = (field: string, shown: string, wanted: string) =>
  `${field}: FieldValueTypeInvalid: Invalid value: "${shown}": ${field} in body must be of type ${wanted}: "${shown}"`;

describe('values', () => {
  it.each<[string, object, string]>([
    ['a number for a text', { label: 5 }, type('spec.label', 'integer', 'string')],
    ['a text for a number', { size: 'five' }, type('spec.size', 'string', 'integer')],
    ['a fraction for an integer', { size: 5.5 }, type('spec.size', 'number', 'integer')],
    ['a text for a boolean', { enabled: 'yes' }, type('spec.enabled', 'string', 'boolean')],
    ['an object for a list', { tags: {} }, type('spec.tags', 'object', 'array')],
    ['a list for an object', { nested: [] }, type('spec.nested', 'array', 'object')],
    [
      'a text for an item that is an object',
      { ports: ['http'] },
      type('spec.ports[0]', 'string', 'object'),
    ],
    [
      'too little',
      { size: 0 },
      value('spec.size', '0', 'spec.size in body should be greater than or equal to 1'),
    ],
    [
      'too much',
      { size: 101 },
      value('spec.size', '101', 'spec.size in body should be less than or equal to 100'),
    ],
    [
      'a short text',
      { label: 'a' },
      value('spec.label', '"a"', 'spec.label in body should be at least 2 chars long'),
    ],
    [
      'a long text',
      { label: 'abcdefghijk' },
      'spec.label: FieldValueTooLong: Too long: may not be more than 10 bytes',
    ],
    [
      'another pattern',
      { label: 'AB' },
      value('spec.label', '"AB"', "spec.label in body should match '^[a-z]+$'"),
    ],
    [
      'no member',
      { color: 'pink' },
      'spec.color: FieldValueNotSupported: Unsupported value: "pink": supported values: "red", "green", "blue"',
    ],
    ['no date', { since: 'yesterday' }, type('spec.since', 'yesterday', 'date-time')],
    // The scale subresource's own check, hence the other form of the path.
    [
      'more replicas than int32 has',
      { replicas: 3_000_000_000 },
      value('.spec.replicas', '3000000000', 'should be less than or equal to 2147483647'),
    ],
    ['a boolean for a port', { port: true }, type('spec.port', 'boolean', 'integer,string')],
    [
      'too many items',
      { tags: ['a', 'b', 'c', 'd', 'e'] },
      'spec.tags: FieldValueTooMany: Too many: 5: must have at most 4 items',
    ],
    [
      'too few items',
      { steps: [] },
      value('spec.steps', '0', 'spec.steps in body should have at least 1 items'),
    ],
    [
      'too many members',
      { attributes: { a: '', b: '', c: '', d: '' } },
      'spec.attributes: FieldValueTooMany: Too many: 4: must have at most 3 items',
    ],
    [
      'a long member',
      { attributes: { a: '123456' } },
      'spec.attributes.a: FieldValueTooLong: Too long: may not be more than 5 bytes',
    ],
    [
      'a member of another type',
      { attributes: { a: 1 } },
      type('spec.attributes.a', 'integer', 'string'),
    ],
    [
      'the same key twice in a map',
      { ports: [{ port: 1 }, { port: 1 }] },
      'spec.ports[1]: FieldValueDuplicate: Duplicate value: {"port":1,"protocol":"TCP"}',
    ],
    [
      'an item without what it needs',
      { ports: [{ name: 'x' }] },
      'spec.ports[0].port: FieldValueRequired: Required value',
    ],
    [
      'no quantity',
      { quantity: '5' },
      value('spec.quantity', '"5"', "spec.quantity in body should match '^[0-9]+[KMG]i$'"),
    ],
  ])('are refused: %s', async (_, spec, cause) => {
    const { status, body } = await create(spec);
    expect([status, body.reason]).toEqual([422, 'Invalid']);
    expect(causesOf(body)).toContain(cause);
  });

  it.each<[string, object]>([
    ['the least', { size: 1 }],
    ['the most', { size: 100 }],
    ['an integer written as a fraction', { size: 7.0 }],
    ['characters, not bytes, up to the length', { secret: 'ü'.repeat(100) }],
    ['a date with an offset', { since: '2026-01-01T10:00:00.5+01:00' }],
    ['a port by number', { port: 80 }],
    ['a port by name', { port: 'http' }],
    ['a quantity', { quantity: '5Gi' }],
    ['a number as a quantity', { quantity: 5 }],
    [
      'two ports that differ in the protocol',
      { ports: [{ port: 1 }, { port: 1, protocol: 'UDP' }] },
    ],
    ['an empty map', { attributes: {} }],
    ['anything in an open object', { open: { x: [{ y: null }] } }],
  ])('are taken: %s', async (_, spec) => {
    const { status } = await create(spec);
    expect(status).toBe(201);
  });

  it('need a kind', async () => {
    const { status, body } = await server().post(server().widgets(), {
      metadata: { name: 'kindless' },
      spec: { color: 'red' },
    });
    expect([status, body.reason]).toEqual([400, 'BadRequest']);
    expect(body.message).toContain('the object provided is unrecognized (must be of type Widget)');
  });

  it('that are required must be there', async () => {
    const { body } = await server().post(server().widgets(), {
      ...server().widget('empty'),
      spec: {},
    });
    expect(body.message).toContain('spec.color: Required value');
    const { body: none } = await server().post(server().widgets(), {
      ...server().widget('empty'),
      spec: undefined,
    });
    expect(causesOf(none)).toContain('spec: FieldValueRequired: Required value');
  });

  it('are all reported at once', async () => {
    const { body } = await create({ size: 0, label: 'A', color: 'pink' });
    expect(causesOf(body).map((cause) => cause.split(':')[0])).toEqual(
      expect.arrayContaining(['spec.size', 'spec.label', 'spec.color']),
    );
  });

  it('are named in the message, in brackets when there are several', async () => {
    const size =
      'spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1';
    const one = await server().post(server().widgets(), server().widget('wrong', { size: 0 }));
    expect(one.body.message).toBe(`Widget.${server().widgetGroup} "wrong" is invalid: ${size}`);
    const two = await server().post(
      server().widgets(),
      server().widget('wrong', { size: 0, weight: -1 }),
    );
    expect(two.body.message).toMatch(
      /^Widget\.\S+ "wrong" is invalid: \[spec\.\w+: .*, spec\.\w+: .*\]$/,
    );
  });
});

describe('rules', () => {
  it.each<[string, object, string]>([
    ['a rule with a path', { min: 11 }, value('spec.min', '"object"', 'min must not exceed max')],
    [
      'a rule of list items',
      { ports: [{ port: 1 }, { port: 2, protocol: 'ICMP' }] },
      'spec.ports[1]: FieldValueInvalid: Invalid value: "object": has no ports',
    ],
  ])('refuse by %s', async (_, spec, cause) => {
    const { status, body } = await create(spec);
    expect([status, body.reason]).toEqual([422, 'Invalid']);
    expect(causesOf(body)).toContain(cause);
  });

  it('on changes are not asked at creation, and refuse later', async () => {
    const { body: made } = await create({});
    const { status, body } = await server().mergePatch(server().widgets(made.metadata.name), {
      spec: { color: 'blue' },
    });
    expect(status).toBe(422);
    expect(causesOf(body)).toEqual([value('spec.color', '"object"', 'color is immutable')]);
    expect(
      (
        await server().mergePatch(server().widgets(made.metadata.name), {
          spec: { color: 'green', size: 6 },
        })
      ).status,
    ).toBe(200);
  });

  it.each([
    ['of the wrong type', { size: 'five' }],
    ['too long', { label: 'abcdefghijk' }],
    ['missing', { color: undefined }],
    ['not among those allowed', { color: 'pink' }],
    ['too many', { tags: ['a', 'b', 'c', 'd', 'e'] }],
  ])('are not asked about an object in which something is %s', async (_, spec) => {
    const { body } = await create({ min: 11, ...spec });
    expect(causesOf(body).join('\n')).not.toContain('min must not exceed max');
    expect(causesOf(body).join('\n')).toContain(
      'some validation rules were not checked because the object was invalid; correct the existing errors to complete validation',
    );
  });
});

describe("the product's kinds", () => {
  const object = (kind: string, spec: object) => ({
    apiVersion: 'conversation-operator.dev/v1alpha1',
    kind,
    metadata: { generateName: 'p-' },
    spec,
  });
  const sandbox = (spec: object) => object('Sandbox', { owner: 'alice', ...spec });

  it('have their defaults', async () => {
    const { status, body } = await server().post(server().product('sandboxes'), sandbox({}));
    expect([status, body.spec]).toEqual([
      201,
      { owner: 'alice', templateName: 'default', replicas: 1 },
    ]);
  });

  it('hold their immutable fields', async () => {
    const { body: made } = await server().post(server().product('sandboxes'), sandbox({}));
    const { status, body } = await server().mergePatch(
      server().product('sandboxes', made.metadata.name),
      { spec: { owner: 'bob' } },
    );
    expect(status).toBe(422);
    expect(causesOf(body)).toEqual([
      value('spec.owner', '"object"', 'owner is immutable, except along a handover'),
      value('spec.handovers', '"object"', 'handovers grows by one with each change of the owner'),
    ]);
  });

  it.each<[string, object]>([
    ['sandboxName', { sandboxName: 'one' }],
    ['repository', { repository: { name: 'a/b' } }],
    ['initialMessage', { initialMessage: { content: [{ type: 'text', text: 'hi' }] } }],
    ['parent', { parent: 'one' }],
  ])('keep the %s that a conversation did not have from coming', async (field, spec) => {
    const { body: made } = await server().post(
      server().product('conversations'),
      object('Conversation', { owner: 'alice' }),
    );
    const { status, body } = await server().mergePatch(
      server().product('conversations', made.metadata.name),
      { spec },
    );
    expect(status).toBe(422);
    expect(body.message).toContain(`${field} is immutable`);
  });

  it('hold rules across fields', async () => {
    const { status, body } = await server().post(
      server().product('conversationquotas'),
      object('ConversationQuota', { scope: 'Namespace', owner: 'alice', limit: 1 }),
    );
    expect(status).toBe(422);
    expect(body.message).toContain('owner goes with scope Owner only');
  });

  it.each<[string, object]>([
    ['owner', { owner: 'bob' }],
    ['role', { role: 'admin' }],
    ['sha256', { sha256: '1'.repeat(64) }],
    ['issuedBy', { issuedBy: { name: 'other', uid: 'u' } }],
    ['issuedBy', { issuedBy: null }],
  ])('keep the %s of a key as it is', async (field, change) => {
    const spec = { owner: 'alice', sha256: '0'.repeat(64), issuedBy: { name: 'one', uid: 'u' } };
    const { status: created, body: made } = await server().post(
      server().product('apikeys'),
      object('ApiKey', spec),
    );
    expect([created, made.spec]).toEqual([201, { ...spec, role: 'user' }]);
    const { status, body } = await server().mergePatch(
      server().product('apikeys', made.metadata.name),
      { spec: change },
    );
    expect(status).toBe(422);
    expect(body.message).toContain(`${field} is immutable`);
    const disabled = await server().mergePatch(server().product('apikeys', made.metadata.name), {
      spec: { disabled: true },
    });
    expect(disabled.status).toBe(200);
  });

  const template = (agent: object) =>
    object('SandboxTemplate', {
      podTemplate: { spec: { containers: [{ name: 'agent' }] } },
      agent,
    });

  it.each<[string, object, string]>([
    [
      'a credential whose model says where it goes',
      { model: 'openai/m', credential: 'openai' },
      'credential needs baseUrl',
    ],
    [
      'a credential that goes to any provider',
      { model: 'openai/m', credential: 'openai', allowedModels: ['openai/*', '*/m'] },
      'each pattern must name the provider',
    ],
    [
      'a model that is a URL',
      { model: 'huggingface/https://models.example' },
      'model must be a name',
    ],
    ['a model that leads elsewhere', { model: 'openai/../m' }, 'model must be a name'],
    ['a model with white space', { model: 'openai/m x' }, 'model must be a name'],
    ['a pattern that is none', { allowedModels: ['openai/[a-z]'] }, 'allowedModels'],
    [
      'too many patterns',
      { allowedModels: Array.from({ length: 65 }, (_, index) => `m${index}`) },
      'allowedModels',
    ],
  ])('refuse a template with %s', async (_, agent, message) => {
    const { status, body } = await server().post(
      server().product('sandboxtemplates'),
      template(agent),
    );
    expect(status).toBe(422);
    expect(body.message).toContain(message);
  });

  it.each<[string, object]>([
    [
      'a credential and an address',
      { model: 'openai/m', credential: 'openai', baseUrl: 'https://models.example/v1' },
    ],
    [
      'a credential and models',
      { model: 'anthropic/m', credential: 'anthropic', allowedModels: ['anthropic/claude-*'] },
    ],
    [
      'a credential and names of models',
      { model: 'gpt-5', credential: 'openai', allowedModels: ['gpt-5-mini'] },
    ],
    [
      'a credential, an address and any model',
      {
        model: 'openai/m',
        credential: 'openai',
        baseUrl: 'https://models.example/v1',
        allowedModels: ['*'],
      },
    ],
    [
      'a credential and its own model alone',
      { model: 'vertex_ai/claude-sonnet@20250514', credential: 'vertex', allowedModels: [] },
    ],
  ])('take a template with %s', async (_, agent) => {
    const { status, body } = await server().post(
      server().product('sandboxtemplates'),
      template(agent),
    );
    expect([status, body.spec['agent']]).toEqual([201, { workingDir: '/workspace', ...agent }]);
  });

  it.each<[string, string, string, object]>([
    ['a sandbox with two replicas', 'sandboxes', 'Sandbox', { owner: 'a', replicas: 2 }],
    ['a sandbox without an owner', 'sandboxes', 'Sandbox', {}],
    [
      'a sandbox of a template with a bad name',
      'sandboxes',
      'Sandbox',
      { owner: 'a', templateName: 'A' },
    ],
    ['a key that is no hash', 'apikeys', 'ApiKey', { owner: 'a', sha256: 'x' }],
    [
      'a quota below zero',
      'conversationquotas',
      'ConversationQuota',
      { scope: 'Owner', limit: -1 },
    ],
    [
      'a quota of an unknown scope',
      'conversationquotas',
      'ConversationQuota',
      { scope: 'World', limit: 1 },
    ],
  ])('refuse %s', async (_, plural, kind, spec) => {
    const { status } = await server().post(server().product(plural), object(kind, spec));
    expect(status).toBe(422);
  });
});
