/* oxlint-disable
   @typescript-eslint/no-unsafe-assignment,
   @typescript-eslint/no-unsafe-member-access,
   @typescript-eslint/no-unsafe-return,
   @typescript-eslint/no-unsafe-call
   -- answers are JSON of every shape; a wrong guess fails the test */
import {
  aConversation,
  aPod,
  coreInDefault,
  group,
  inDefault,
  Plane,
  type Body,
} from '../../../../test/support/plane.ts';

let plane: Plane;
beforeEach(async () => {
  plane = await new Plane().start();
});
afterEach(() => plane.close());

const conversations = inDefault('conversations');
const pods = coreInDefault('pods');

describe('creating', () => {
  it('fills in what the server decides, and defaults', async () => {
    const { status, body } = await plane.post(
      conversations,
      aConversation('a', {}, { uid: 'mine', creationTimestamp: null }),
    );
    expect(status).toBe(201);
    expect(body).toEqual({
      apiVersion: 'conversation-operator.dev/v1alpha1',
      kind: 'Conversation',
      metadata: {
        name: 'a',
        namespace: 'default',
        uid: expect.stringMatching(
          /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
        ) as string,
        resourceVersion: expect.stringMatching(/^\d+$/) as string,
        generation: 1,
        creationTimestamp: '2030-01-01T00:00:00Z',
      },
      spec: { owner: 'alice', templateName: 'default' },
    });
    expect((await plane.get(inDefault('conversations', 'a'))).body).toEqual(body);
  });

  it('drops a status where there is a subresource for it', async () => {
    expect(
      (await plane.post(conversations, { ...aConversation('a'), status: { title: 'x' } })).body
        .status,
    ).toBeUndefined();
    expect(
      (await plane.post(pods, { ...aPod('p'), status: { phase: 'Running' } })).body.status,
    ).toEqual({ phase: 'Pending', qosClass: 'BestEffort' });
  });

  it('makes a name of generateName', async () => {
    const { body } = await plane.post(pods, aPod('', { generateName: 'p-' }));
    expect(body.metadata).toMatchObject({
      name: expect.stringMatching(/^p-[a-z0-9]{5}$/) as string,
      generateName: 'p-',
    });
  });

  it.each<[string, string, Body, number, string]>([
    [
      'no name',
      pods,
      aPod(''),
      422,
      'Pod "" is invalid: metadata.name: Required value: name or generateName is required',
    ],
    ['a name that is none', pods, aPod('A'), 422, 'a lowercase RFC 1123 subdomain'],
    ['a label that is none', pods, aPod('a', { labels: { 'a b': 'c' } }), 422, 'metadata.labels'],
    [
      'a pod without containers',
      pods,
      { metadata: { name: 'p' }, spec: {} },
      422,
      'spec.containers: Required value',
    ],
    [
      'a field of the wrong type',
      pods,
      { metadata: { name: 'p' }, spec: { containers: 'x' } },
      400,
      'cannot be handled as a Pod',
    ],
    [
      'another kind',
      pods,
      { ...aPod('p'), kind: 'Service' },
      400,
      'does not match the expected API version',
    ],
    [
      'another namespace',
      pods,
      aPod('p', { namespace: 'other' }),
      400,
      'the namespace of the provided object does not match',
    ],
    [
      'a version',
      pods,
      aPod('p', { resourceVersion: '1' }),
      500,
      'resourceVersion should not be set',
    ],
    [
      'a namespace that is not there',
      '/api/v1/namespaces/nowhere/pods',
      aPod('p'),
      404,
      'namespaces "nowhere" not found',
    ],
    [
      'a value that the schema refuses',
      conversations,
      aConversation('a', { owner: '' }),
      422,
      'Conversation.conversation-operator.dev "a" is invalid',
    ],
    ['what is no JSON', pods, '{', 400, 'error decoding the body'],
    [
      'an unknown field, strictly',
      `${conversations}?fieldValidation=Strict`,
      aConversation('a', { x: 1 }),
      400,
      'strict decoding error: unknown field "spec.x"',
    ],
    [
      'a kind that is not served',
      '/api/v1/namespaces/default/deployments',
      {},
      404,
      'could not find the requested resource',
    ],
  ])('refuses %s', async (_, path, body, status, message) => {
    const answer = await plane.post(path, body);
    expect(answer.status).toBe(status);
    expect(answer.body).toMatchObject({
      kind: 'Status',
      status: 'Failure',
      code: status,
      message: expect.stringContaining(message) as string,
    });
  });

  it('says what is wrong field by field', async () => {
    const { body } = await plane.post(conversations, { ...aConversation('a'), spec: {} });
    const unchecked =
      'Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation';
    expect(body).toMatchObject({
      reason: 'Invalid',
      message: `Conversation.conversation-operator.dev "a" is invalid: [spec.owner: Required value, <nil>: ${unchecked}]`,
      details: {
        name: 'a',
        group: 'conversation-operator.dev',
        kind: 'Conversation',
        causes: [
          { reason: 'FieldValueRequired', message: 'Required value', field: 'spec.owner' },
          { reason: 'FieldValueInvalid', message: unchecked, field: '<nil>' },
        ],
      },
    });
  });

  it('warns of unknown fields and drops them', async () => {
    const { body, headers } = await plane.post(conversations, aConversation('a', { x: 1 }));
    expect(headers['warning']).toBe(String.raw`299 - "unknown field \"spec.x\""`);
    expect(body.spec.x).toBeUndefined();
  });

  it('a second time is refused', async () => {
    await plane.post(conversations, aConversation('a'));
    const { status, body } = await plane.post(conversations, aConversation('a'));
    expect(status).toBe(409);
    expect(body).toMatchObject({
      reason: 'AlreadyExists',
      message: 'conversations.conversation-operator.dev "a" already exists',
    });
  });

  it('dry does everything but store', async () => {
    const { status, body } = await plane.post(`${conversations}?dryRun=All`, aConversation('a'));
    expect([status, body.spec.templateName]).toEqual([201, 'default']);
    expect((await plane.get(inDefault('conversations', 'a'))).status).toBe(404);
  });

  it('fills a pod with the defaults of Kubernetes', async () => {
    const { body } = await plane.post(pods, {
      metadata: { name: 'p' },
      spec: {
        containers: [{ name: 'a', image: 'a:1', resources: { limits: { cpu: 1 } }, env: null }],
      },
    });
    expect(body.spec).toMatchObject({ restartPolicy: 'Always', terminationGracePeriodSeconds: 30 });
    expect(body.spec.containers[0]).toMatchObject({
      imagePullPolicy: 'IfNotPresent',
      resources: { limits: { cpu: '1' }, requests: { cpu: '1' } },
    });
    expect(body.status.qosClass).toBe('Burstable');
  });
});

describe('updating', () => {
  const path = inDefault('conversations', 'a');
  let created: Body;
  beforeEach(async () => {
    created = (await plane.post(conversations, aConversation('a', { title: 'old' }))).body;
  });

  it('counts generations of the spec alone', async () => {
    const { body: titled } = await plane.merge(path, { spec: { title: 'new' } });
    expect(titled.metadata.generation).toBe(2);
    const { body: labelled } = await plane.merge(path, { metadata: { labels: { a: 'b' } } });
    expect(labelled.metadata.generation).toBe(2);
    const { body: reported } = await plane.merge(inDefault('conversations', 'a', 'status'), {
      status: { title: 't' },
      spec: { title: 'ignored' },
    });
    expect(reported).toMatchObject({
      metadata: { generation: 2 },
      spec: { title: 'new' },
      status: { title: 't' },
    });
  });

  it('of the main resource leaves the status', async () => {
    await plane.merge(inDefault('conversations', 'a', 'status'), { status: { title: 't' } });
    const { body } = await plane.merge(path, {
      status: { title: 'other' },
      spec: { title: 'new' },
    });
    expect(body.status).toEqual({ title: 't' });
  });

  it('that changes nothing makes no new version', async () => {
    const { body } = await plane.put(path, created);
    expect(body.metadata.resourceVersion).toBe(created.metadata.resourceVersion);
  });

  it('from an old version is a conflict', async () => {
    await plane.merge(path, { spec: { title: 'new' } });
    const { status, body } = await plane.put(path, created);
    expect(status).toBe(409);
    expect(body).toMatchObject({
      reason: 'Conflict',
      message:
        'Operation cannot be fulfilled on conversations.conversation-operator.dev "a": the object has been modified; please apply your changes to the latest version and try again',
    });
    expect(
      (
        await plane.merge(path, {
          metadata: { resourceVersion: created.metadata.resourceVersion },
          spec: { title: 'x' },
        })
      ).status,
    ).toBe(409);
  });

  it.each<[string, (object: Body) => Body, number]>([
    [
      'another uid',
      (object) => ({ ...object, metadata: { ...object.metadata, uid: 'other' } }),
      409,
    ],
    ['another name', (object) => ({ ...object, metadata: { ...object.metadata, name: 'b' } }), 400],
    [
      'no version of a custom resource',
      (object) => ({ ...object, metadata: { ...object.metadata, resourceVersion: undefined } }),
      422,
    ],
    [
      'what must not change',
      (object) => ({ ...object, spec: { ...object.spec, owner: 'bob' } }),
      422,
    ],
  ])('refuses %s', async (_, change, status) => {
    expect((await plane.put(path, change(created))).status).toBe(status);
  });

  it('keeps what the server decides', async () => {
    const { body } = await plane.merge(path, {
      metadata: {
        creationTimestamp: '2000-01-01T00:00:00Z',
        generation: 7,
        deletionTimestamp: '2000-01-01T00:00:00Z',
      },
    });
    expect(body).toEqual(created);
  });

  it('takes a JSON patch', async () => {
    const patch = (operations: Body) =>
      plane.call('PATCH', path, operations, { 'content-type': 'application/json-patch+json' });
    expect(
      (await patch([{ op: 'replace', path: '/spec/title', value: 'new' }])).body.spec.title,
    ).toBe('new');
    expect((await patch([{ op: 'test', path: '/spec/title', value: 'old' }])).status).toBe(422);
  });

  it('takes a strategic merge patch of built-in kinds only', async () => {
    const strategic = { 'content-type': 'application/strategic-merge-patch+json' };
    await plane.post(pods, aPod('p'));
    const { body } = await plane.call(
      'PATCH',
      coreInDefault('pods', 'p'),
      { spec: { containers: [{ name: 'agent', image: 'agent:2' }] } },
      strategic,
    );
    expect(body.spec.containers).toMatchObject([
      { name: 'agent', image: 'agent:2', terminationMessagePolicy: 'File' },
    ]);
    expect((await plane.call('PATCH', path, {}, strategic)).status).toBe(415);
  });

  it('of a pod refuses another command', async () => {
    await plane.post(pods, aPod('p'));
    expect(
      (
        await plane.merge(coreInDefault('pods', 'p'), {
          spec: { containers: [{ name: 'agent', image: 'agent:1', command: ['x'] }] },
        })
      ).status,
    ).toBe(422);
  });
});

describe('scaling', () => {
  it('reads and writes the replicas that the definition names', async () => {
    await plane.post(inDefault('sandboxes'), { ...aConversation('s'), kind: 'Sandbox' });
    const path = inDefault('sandboxes', 's', 'scale');
    const { body } = await plane.get(path);
    expect(body).toMatchObject({
      kind: 'Scale',
      apiVersion: 'autoscaling/v1',
      spec: { replicas: 1 },
      status: { replicas: 0 },
    });
    expect((await plane.put(path, { ...body, spec: { replicas: 0 } })).body.spec.replicas).toBe(0);
    expect((await plane.get(inDefault('sandboxes', 's'))).body).toMatchObject({
      spec: { replicas: 0 },
      metadata: { generation: 2 },
    });
    expect((await plane.merge(path, { spec: { replicas: 1 } })).body.spec.replicas).toBe(1);
    expect((await plane.merge(path, { spec: { replicas: 2 } })).status).toBe(422);
    expect((await plane.put(path, body)).status).toBe(409);
  });
});

describe('definitions', () => {
  const crd = (name: string, schema: object) => ({
    metadata: { name: `${name}.example.com` },
    spec: {
      group: 'example.com',
      scope: 'Cluster',
      names: { kind: 'Thing', plural: name },
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: 'object', ...schema } },
        },
      ],
    },
  });
  const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';

  it('are served at once, and say so', async () => {
    const { body } = await plane.post(
      definitions,
      crd('things', { 'x-kubernetes-preserve-unknown-fields': true }),
    );
    expect(body.status.conditions).toMatchObject([
      { type: 'NamesAccepted' },
      { type: 'Established', status: 'True' },
    ]);
    const { status, body: thing } = await plane.post('/apis/example.com/v1/things', {
      apiVersion: 'example.com/v1',
      kind: 'Thing',
      metadata: { name: 'a' },
      anything: { goes: 1 },
      status: { kept: true },
    });
    expect([status, thing.anything, thing.status]).toEqual([201, { goes: 1 }, { kept: true }]);
  });

  it('take their objects with them', async () => {
    await plane.post(definitions, crd('things', {}));
    await plane.post('/apis/example.com/v1/things', {
      apiVersion: 'example.com/v1',
      kind: 'Thing',
      metadata: { name: 'a' },
    });
    await plane.remove(`${definitions}/things.example.com`);
    await plane.clock.advance(10);
    expect((await plane.get(`${definitions}/things.example.com`)).status).toBe(404);
    expect((await plane.get('/apis/example.com/v1/things')).status).toBe(404);
    await plane.post(definitions, crd('things', {}));
    expect((await plane.get('/apis/example.com/v1/things')).body.items).toEqual([]);
  });

  it.each([
    ['with another name', { ...crd('things', {}), metadata: { name: 'other' } }],
    [
      'without a scope',
      { ...crd('things', {}), spec: { ...crd('things', {}).spec, scope: undefined } },
    ],
  ])('%s are refused', async (_, definition) => {
    expect((await plane.post(definitions, definition)).status).toBe(422);
  });

  it('of the product can be applied again without a change', async () => {
    const before = plane.plane.revision;
    await plane.start();
    expect(plane.plane.revision).toBe(before);
    expect((await plane.get(`${group}/conversations`)).status).toBe(200);
  });
});
