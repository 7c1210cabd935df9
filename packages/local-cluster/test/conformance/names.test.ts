import { causesOf } from './support/document.ts';
import { useServer } from './support/server.ts';

const server = useServer();

const subdomain =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const label =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const qualified =
  "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const labelValue =
  "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

const invalid = (field: string, value: string, text: string) =>
  `${field}: FieldValueInvalid: Invalid value: ${JSON.stringify(value)}: ${text}`;

describe('names', () => {
  it.each([['a'], ['0'], ['a.b'], ['a-b.c-d'], ['x'.repeat(253)]])('%s is one', async (name) => {
    const { status } = await server().post(server().widgets(), server().widget(name));
    expect(status).toBe(201);
  });

  it.each([
    ['UPPER', subdomain],
    ['under_score', subdomain],
    ['-dash', subdomain],
    ['dash-', subdomain],
    ['a..b', subdomain],
    ['a b', subdomain],
    ['ä', subdomain],
    ['x'.repeat(254), 'must be no more than 253 characters'],
  ])('%s is none', async (name, text) => {
    const { status, body } = await server().post(server().widgets(), server().widget(name));
    expect([status, causesOf(body)]).toEqual([422, [invalid('metadata.name', name, text)]]);
    const builtin = await server().post(server().core('configmaps'), { metadata: { name } });
    expect([builtin.status, causesOf(builtin.body)]).toEqual([
      422,
      [invalid('metadata.name', name, text)],
    ]);
  });

  it.each([
    ['Upper', label],
    ['a.b', 'must not contain dots'],
    ['x'.repeat(64), 'must be no more than 63 characters'],
  ])('%s is none for a namespace', async (name, text) => {
    const { status, body } = await server().post('/api/v1/namespaces', { metadata: { name } });
    expect([status, causesOf(body)[0]]).toEqual([422, invalid('metadata.name', name, text)]);
  });

  it.each([
    ['UPPER-', subdomain],
    ['under_', subdomain],
  ])('%s is none to begin with', async (generateName, text) => {
    const { status, body } = await server().post(server().widgets(), {
      ...server().widget('x'),
      metadata: { generateName },
    });
    expect(status).toBe(422);
    expect(causesOf(body)[0]).toBe(invalid('metadata.generateName', generateName, text));
  });
});

describe('labels', () => {
  it.each([
    ['a', ''],
    ['a.b/c_D', 'x.y_z-0'],
    ['x'.repeat(63), 'y'.repeat(63)],
    [`${'x'.repeat(63)}.example.com/a`, 'b'],
  ])('may be %s=%s', async (key, value) => {
    const { status } = await server().post(server().core('configmaps'), {
      metadata: { generateName: 'l-', labels: { [key]: value } },
    });
    expect(status).toBe(201);
  });

  it.each([
    ['-a', 'b', 'metadata.labels', '-a', qualified],
    ['a b', 'b', 'metadata.labels', 'a b', qualified],
    ['/a', 'b', 'metadata.labels', '/a', 'prefix part must be non-empty'],
    ['a/', 'b', 'metadata.labels', 'a/', 'name part must be non-empty'],
    ['A.b/c', 'b', 'metadata.labels', 'A.b/c', `prefix part ${subdomain}`],
    [
      'a/b/c',
      'b',
      'metadata.labels',
      'a/b/c',
      `a qualified name must ${qualified.slice('name part must '.length)} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
    ],
    [
      'x'.repeat(64),
      'b',
      'metadata.labels',
      'x'.repeat(64),
      'name part must be no more than 63 characters',
    ],
    ['a', '-b', 'metadata.labels', '-b', labelValue],
    ['a', 'b c', 'metadata.labels', 'b c', labelValue],
    ['a', 'b/c', 'metadata.labels', 'b/c', labelValue],
    ['a', 'x'.repeat(64), 'metadata.labels', 'x'.repeat(64), 'must be no more than 63 characters'],
  ])('may not be %s=%s', async (key, value, field, wrong, text) => {
    for (const [path, object] of [
      [server().core('configmaps'), {}],
      [server().widgets(), server().widget('x')],
    ] as const) {
      const { status, body } = await server().post(path, {
        ...object,
        metadata: { generateName: 'l-', labels: { [key]: value } },
      });
      expect(status).toBe(422);
      expect(causesOf(body).join('\n')).toContain(invalid(field, wrong, text));
    }
  });

  it('are texts', async () => {
    const { status, body } = await server().post(server().core('configmaps'), {
      metadata: { name: 'l', labels: { a: 5 } },
    });
    expect([status, body.reason]).toEqual([400, 'BadRequest']);
    expect(body.message).toContain('metadata.labels');
  });
});

describe('annotations', () => {
  it('hold any text, up to 256 KiB together', async () => {
    const annotate = (bytes: number) =>
      server().post(server().core('configmaps'), {
        metadata: {
          generateName: 'a-',
          annotations: { 'a/b': 'ü /'.repeat(2), long: 'x'.repeat(bytes) },
        },
      });
    expect((await annotate(262_000)).status).toBe(201);
    const { status, body } = await annotate(262_144);
    expect([status, causesOf(body)]).toEqual([
      422,
      ['metadata.annotations: FieldValueTooLong: Too long: may not be more than 262144 bytes'],
    ]);
  });

  it('have qualified names, in upper case as well', async () => {
    const { status } = await server().post(server().core('configmaps'), {
      metadata: { generateName: 'a-', annotations: { 'Example.COM/A': '' } },
    });
    expect(status).toBe(201);
    const { body } = await server().post(server().core('configmaps'), {
      metadata: { generateName: 'a-', annotations: { 'a b': '' } },
    });
    expect(causesOf(body)).toEqual([invalid('metadata.annotations', 'a b', qualified)]);
  });
});

describe('finalizers', () => {
  it('have qualified names', async () => {
    const { status, body } = await server().post(server().core('configmaps'), {
      metadata: { name: 'f', finalizers: ['a b'] },
    });
    expect(status).toBe(422);
    expect(causesOf(body)[0]).toBe(invalid('metadata.finalizers', 'a b', qualified));
  });
});

describe('owner references', () => {
  const owner = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    name: 'owner',
    uid: '11111111-1111-4111-8111-111111111111',
  };
  it.each([
    [
      'without a version',
      { ...owner, apiVersion: '' },
      'metadata.ownerReferences.apiVersion: FieldValueInvalid: Invalid value: "": version must not be empty',
    ],
    [
      'without a kind',
      { ...owner, kind: '' },
      'metadata.ownerReferences.kind: FieldValueInvalid: Invalid value: "": must not be empty',
    ],
    [
      'without a name',
      { ...owner, name: '' },
      'metadata.ownerReferences.name: FieldValueInvalid: Invalid value: "": must not be empty',
    ],
    [
      'without a uid',
      { ...owner, uid: '' },
      'metadata.ownerReferences.uid: FieldValueInvalid: Invalid value: "": must not be empty',
    ],
  ])('are refused %s', async (_, reference, cause) => {
    const { status, body } = await server().post(server().core('configmaps'), {
      metadata: { name: 'o', ownerReferences: [reference] },
    });
    expect(status).toBe(422);
    expect(causesOf(body)).toContain(cause);
  });
});
