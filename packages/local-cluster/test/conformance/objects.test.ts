import { exceptions } from './exceptions.ts';
import { causesOf } from './support/document.ts';
import { useServer } from './support/server.ts';

const server = useServer();
const map = (name: string, data: object = { a: '1' }, metadata: object = {}) => ({
  metadata: { name, ...metadata },
  data,
});

describe('creating', () => {
  it('answers 201 with the object as it is stored', async () => {
    const { status, body } = await server().post(server().widgets(), server().widget('made'));
    expect(status).toBe(201);
    expect(body).toMatchObject({
      apiVersion: `${server().widgetGroup}/v1`,
      kind: 'Widget',
      metadata: {
        name: 'made',
        namespace: server().namespace,
        generation: 1,
        uid: expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/) as unknown,
        resourceVersion: expect.stringMatching(/^[1-9][0-9]*$/) as unknown,
        creationTimestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/) as unknown,
      },
      spec: { color: 'green', size: 5, replicas: 1 },
    });
    const read = await server().get(server().widgets('made'));
    expect(read.body).toEqual(body);
  });

  exceptions.managedFields.it('notes who made the object', async () => {
    const { body } = await server().post(server().widgets(), server().widget('signed'));
    expect(body.metadata.managedFields).toMatchObject([
      {
        manager: 'conformance',
        operation: 'Update',
        apiVersion: `${server().widgetGroup}/v1`,
        fieldsType: 'FieldsV1',
      },
    ]);
  });

  it('refuses a name that is taken', async () => {
    await server().post(server().core('configmaps'), map('taken'));
    const { status, body } = await server().post(server().core('configmaps'), map('taken'));
    expect(status).toBe(409);
    expect(body).toEqual({
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message: 'configmaps "taken" already exists',
      reason: 'AlreadyExists',
      details: { name: 'taken', kind: 'configmaps' },
      code: 409,
    });
  });

  it('says the group of a custom kind in what it refuses', async () => {
    await server().post(server().widgets(), server().widget('taken'));
    const { body } = await server().post(server().widgets(), server().widget('taken'));
    expect(body).toMatchObject({
      message: `widgets.${server().widgetGroup} "taken" already exists`,
      details: { name: 'taken', group: server().widgetGroup, kind: 'widgets' },
    });
  });

  it('makes a name from generateName', async () => {
    const { status, body } = await server().post(server().core('configmaps'), {
      metadata: { generateName: 'made-' },
    });
    expect(status).toBe(201);
    expect(body.metadata.name).toMatch(/^made-[bcdfghjklmnpqrstvwxz2456789]{5}$/);
    expect(body.metadata).toMatchObject({ generateName: 'made-' });
  });

  it('prefers a name to generateName', async () => {
    const { body } = await server().post(
      server().core('configmaps'),
      map('given', {}, { generateName: 'made-' }),
    );
    expect(body.metadata).toMatchObject({ name: 'given', generateName: 'made-' });
  });

  it('shortens a generateName that is too long', async () => {
    const { status, body } = await server().post(server().core('configmaps'), {
      metadata: { generateName: 'x'.repeat(200) },
    });
    expect(status).toBe(201);
    expect(body.metadata.name).toHaveLength(63);
  });

  it('needs a name', async () => {
    const { status, body } = await server().post(server().core('configmaps'), { metadata: {} });
    expect(status).toBe(422);
    expect(body).toMatchObject({
      reason: 'Invalid',
      message:
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
      details: {
        kind: 'ConfigMap',
        causes: [{ reason: 'FieldValueRequired', field: 'metadata.name' }],
      },
    });
  });

  it('says of a custom kind the same', async () => {
    const { status, body } = await server().post(server().widgets(), {
      ...server().widget('x'),
      metadata: {},
    });
    expect(status).toBe(422);
    expect(causesOf(body)).toContain(
      'metadata.name: FieldValueRequired: Required value: name or generateName is required',
    );
    expect(body.details).toMatchObject({ group: server().widgetGroup, kind: 'Widget' });
  });

  it('sets what only a server sets, whatever was sent', async () => {
    const { status, body } = await server().post(
      server().core('configmaps'),
      map(
        'pushy',
        {},
        {
          uid: '11111111-1111-4111-8111-111111111111',
          creationTimestamp: '2001-01-01T00:00:00Z',
          deletionTimestamp: '2001-01-01T00:00:00Z',
          deletionGracePeriodSeconds: 5,
          selfLink: '/somewhere',
        },
      ),
    );
    expect(status).toBe(201);
    expect(body.metadata.uid).not.toBe('11111111-1111-4111-8111-111111111111');
    expect(body.metadata.creationTimestamp).not.toBe('2001-01-01T00:00:00Z');
    for (const field of ['deletionTimestamp', 'deletionGracePeriodSeconds', 'selfLink']) {
      expect(body.metadata).not.toHaveProperty(field);
    }
  });

  it('keeps a status out of a kind that has the subresource', async () => {
    const { body } = await server().post(server().widgets(), {
      ...server().widget('stateless'),
      status: { ready: true },
    });
    expect(body).not.toHaveProperty('status');
  });

  it.each([
    [
      'a resourceVersion',
      { resourceVersion: '5' },
      500,
      'resourceVersion should not be set on objects to be created',
    ],
    [
      'another namespace',
      { namespace: 'elsewhere' },
      400,
      'the namespace of the provided object does not match the namespace sent on the request',
    ],
  ])('refuses %s', async (_, metadata, code, message) => {
    const { status, body } = await server().post(
      server().core('configmaps'),
      map('odd', {}, metadata),
    );
    expect([status, body.message]).toEqual([code, message]);
  });

  it('refuses an object in a namespace that is not there', async () => {
    const { status, body } = await server().post(
      '/api/v1/namespaces/nowhere/configmaps',
      map('lost'),
    );
    expect(status).toBe(404);
    expect(body).toMatchObject({
      message: 'namespaces "nowhere" not found',
      reason: 'NotFound',
      details: { name: 'nowhere', kind: 'namespaces' },
    });
  });

  it('wants objects of namespaced kinds in a namespace', async () => {
    const { status } = await server().post('/api/v1/configmaps', map('lost'));
    expect(status).toBe(405);
  });

  it.each([
    [
      'another kind',
      { apiVersion: 'v1', kind: 'Secret' },
      400,
      /Secret in version "v1" cannot be handled as a ConfigMap/,
    ],
    [
      'a kind that does not exist',
      { apiVersion: 'v1', kind: 'Konfig' },
      400,
      /Konfig in version "v1" cannot be handled as a ConfigMap/,
    ],
  ])('refuses an object of %s', async (_, typed, code, message) => {
    const { status, body } = await server().post(server().core('configmaps'), {
      ...typed,
      ...map('typed'),
    });
    expect(status).toBe(code);
    expect(body.message).toMatch(message);
  });

  it('refuses a custom object of another kind', async () => {
    const { status, body } = await server().post(server().widgets(), {
      ...server().widget('typed'),
      kind: 'Gadget',
    });
    expect([status, causesOf(body)[0]]).toEqual([
      422,
      'kind: FieldValueInvalid: Invalid value: "Gadget": must be Widget',
    ]);
  });

  it('refuses a custom object of another version', async () => {
    const { status, body } = await server().post(server().widgets(), {
      ...server().widget('typed'),
      apiVersion: 'example.com/v9',
    });
    expect([status, body.message]).toEqual([
      400,
      `the API version in the data (example.com/v9) does not match the expected API version (${server().widgetGroup}/v1)`,
    ]);
  });

  it.each([
    ['nothing', '', 400],
    ['half an object', '{"metadata":', 400],
    ['a list', '[]', 400],
    ['a number', '5', 400],
  ])('refuses %s as a body', async (_, text, code) => {
    const { status, body } = await server().post(server().core('configmaps'), text);
    expect([status, body.reason]).toEqual([code, 'BadRequest']);
  });

  it('refuses a body in a format that it does not read', async () => {
    const { status, body } = await server().post(server().core('configmaps'), 'x', {
      contentType: 'text/plain',
    });
    expect([status, body.reason]).toEqual([415, 'UnsupportedMediaType']);
  });

  it('refuses to answer in a format that it does not write', async () => {
    const { status } = await server().get(server().core('configmaps'), { accept: 'text/csv' });
    expect(status).toBe(406);
  });
});

describe('reading', () => {
  it('says of an object that is not there that it is not found', async () => {
    const { status, body } = await server().get(server().core('configmaps', 'absent'));
    expect(status).toBe(404);
    expect(body).toEqual({
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message: 'configmaps "absent" not found',
      reason: 'NotFound',
      details: { name: 'absent', kind: 'configmaps' },
      code: 404,
    });
  });

  it.each([
    ['a group', () => '/apis/absent.example.com/v1/things'],
    ['a version', () => '/apis/conversation-operator.dev/v9/sandboxes'],
    ['a plural of a custom group', () => '/apis/conversation-operator.dev/v1alpha1/sandpits'],
  ])('says of %s that is not there that nothing is there', async (_, path) => {
    const { status, text } = await server().get(path());
    expect([status, text.trim()]).toEqual([404, '404 page not found']);
  });

  it('says of a plural of a built-in group that the resource is not found', async () => {
    const { status, body } = await server().get(server().core('konfigs'));
    expect([status, body.message]).toEqual([
      404,
      'the server could not find the requested resource',
    ]);
  });

  it('knows no subresource that a kind does not have', async () => {
    const { status } = await server().get(`${server().core('configmaps', 'x')}/scale`);
    expect(status).toBe(404);
  });

  it('answers JSON by default', async () => {
    const { headers } = await server().get(server().core('configmaps'), { accept: '*/*' });
    expect(headers['content-type']).toBe('application/json');
  });
});

describe('deleting', () => {
  it('answers with a Status for most kinds', async () => {
    const { body: made } = await server().post(server().core('configmaps'), map('goes'));
    const { status, body } = await server().delete(server().core('configmaps', 'goes'));
    expect(status).toBe(200);
    expect(body).toEqual({
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Success',
      details: { name: 'goes', kind: 'configmaps', uid: made.metadata.uid },
    });
    expect((await server().get(server().core('configmaps', 'goes'))).status).toBe(404);
  });

  it('says the group of a custom kind', async () => {
    const { body: made } = await server().post(server().widgets(), server().widget('goes'));
    const { body } = await server().delete(server().widgets('goes'));
    expect(body).toMatchObject({
      status: 'Success',
      details: {
        name: 'goes',
        group: server().widgetGroup,
        kind: 'widgets',
        uid: made.metadata.uid,
      },
    });
  });

  it('says of what is gone that it is not found', async () => {
    const { status, body } = await server().delete(server().core('configmaps', 'absent'));
    expect([status, body.reason]).toEqual([404, 'NotFound']);
  });

  it('holds to the uid asked for', async () => {
    const { body: made } = await server().post(server().core('configmaps'), map('precise'));
    const path = server().core('configmaps', 'precise');
    const wrong = await server().delete(path, {
      preconditions: { uid: '11111111-1111-4111-8111-111111111111' },
    });
    expect([wrong.status, wrong.body.reason]).toEqual([409, 'Conflict']);
    expect(wrong.body.message).toBe(
      `Operation cannot be fulfilled on ConfigMap "precise": the UID in the precondition (11111111-1111-4111-8111-111111111111) does not match the UID in record (${made.metadata.uid}). The object might have been deleted and then recreated`,
    );
    const right = await server().delete(path, { preconditions: { uid: made.metadata.uid } });
    expect(right.status).toBe(200);
  });

  it('holds to the version asked for', async () => {
    const { body: made } = await server().post(server().core('configmaps'), map('timely'));
    const path = server().core('configmaps', 'timely');
    const { body: changed } = await server().mergePatch(path, { data: { b: '2' } });
    const wrong = await server().delete(path, {
      preconditions: { resourceVersion: made.metadata.resourceVersion },
    });
    expect([wrong.status, wrong.body.message]).toEqual([
      409,
      `Operation cannot be fulfilled on ConfigMap "timely": the ResourceVersion in the precondition (${made.metadata.resourceVersion}) does not match the ResourceVersion in record (${changed.metadata.resourceVersion}). The object might have been modified`,
    ]);
    const right = await server().delete(path, {
      preconditions: { resourceVersion: changed.metadata.resourceVersion },
    });
    expect(right.status).toBe(200);
  });

  it('gives a new object of the same name a new uid', async () => {
    const { body: first } = await server().post(server().core('configmaps'), map('again'));
    await server().delete(server().core('configmaps', 'again'));
    const { body: second } = await server().post(server().core('configmaps'), map('again'));
    expect(second.metadata.uid).not.toBe(first.metadata.uid);
    expect(Number(second.metadata.resourceVersion)).toBeGreaterThan(
      Number(first.metadata.resourceVersion),
    );
  });

  it.each([['a propagation policy that does not exist', { propagationPolicy: 'Sideways' }, 422]])(
    'refuses %s',
    async (_, options, code) => {
      await server().post(server().core('configmaps'), map('stays'));
      const { status } = await server().delete(server().core('configmaps', 'stays'), options);
      expect(status).toBe(code);
    },
  );
});
