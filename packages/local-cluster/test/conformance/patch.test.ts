import { causesOf } from './support/document.ts';
import { useServer } from './support/server.ts';

const server = useServer();
const pod = {
  containers: [
    { name: 'a', image: 'a:1', env: [{ name: 'X', value: '1' }] },
    { name: 'b', image: 'b:1' },
  ],
};

describe('merge patch', () => {
  it('merges objects, replaces lists and takes away what is null', async () => {
    await server().post(
      server().widgets(),
      server().widget(
        'm1',
        { tags: ['a', 'b'], attributes: { x: '1', y: '2' } },
        { labels: { l: '1' } },
      ),
    );
    const { status, body } = await server().mergePatch(server().widgets('m1'), {
      metadata: { labels: { m: '2' } },
      spec: { tags: ['c'], attributes: { x: null, z: '3' } },
    });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      metadata: { labels: { l: '1', m: '2' }, generation: 2 },
      spec: { tags: ['c'], attributes: { y: '2', z: '3' } },
    });
    expect(body.spec['attributes']).not.toHaveProperty('x');
  });

  it('changes nothing, not even the version, when it says what is so', async () => {
    const { body: made } = await server().post(server().widgets(), server().widget('m2'));
    const { body } = await server().mergePatch(server().widgets('m2'), { spec: { size: 5 } });
    expect(body.metadata.resourceVersion).toBe(made.metadata.resourceVersion);
  });

  it('holds to a version that it names', async () => {
    const { body: made } = await server().post(server().widgets(), server().widget('m3'));
    const { resourceVersion } = made.metadata;
    await server().mergePatch(server().widgets('m3'), { spec: { size: 6 } });
    const { status, body } = await server().mergePatch(server().widgets('m3'), {
      metadata: { resourceVersion },
      spec: { size: 7 },
    });
    expect([status, body.reason]).toEqual([409, 'Conflict']);
  });

  it('refuses the uid of another object, as a change of the field', async () => {
    await server().post(server().widgets(), server().widget('m-uid'));
    const uid = '11111111-1111-4111-8111-111111111111';
    const { status, body } = await server().mergePatch(server().widgets('m-uid'), {
      metadata: { uid },
      spec: { size: 7 },
    });
    expect([status, body.reason]).toEqual([422, 'Invalid']);
    expect(body.message).toContain(`metadata.uid: Invalid value: "${uid}": field is immutable`);
    expect(new Set(causesOf(body))).toEqual(
      new Set([`metadata.uid: FieldValueInvalid: Invalid value: "${uid}": field is immutable`]),
    );
  });

  it('reports another version before another uid', async () => {
    const { body: made } = await server().post(server().widgets(), server().widget('m-both'));
    const { resourceVersion } = made.metadata;
    await server().mergePatch(server().widgets('m-both'), { spec: { size: 6 } });
    const { status, body } = await server().mergePatch(server().widgets('m-both'), {
      metadata: { resourceVersion, uid: '11111111-1111-4111-8111-111111111111' },
      spec: { size: 7 },
    });
    expect([status, body.reason]).toEqual([409, 'Conflict']);
  });

  it('needs the object', async () => {
    const { status, body } = await server().mergePatch(server().widgets('absent'), {
      spec: { size: 6 },
    });
    expect([status, body.message]).toEqual([
      404,
      `widgets.${server().widgetGroup} "absent" not found`,
    ]);
  });

  it('can not rename', async () => {
    await server().post(server().widgets(), server().widget('m4'));
    const { status, body } = await server().mergePatch(server().widgets('m4'), {
      metadata: { name: 'm5' },
    });
    expect([status, body.message]).toEqual([
      400,
      'the name of the object (m5) does not match the name on the URL (m4)',
    ]);
  });

  it.each([
    ['no JSON', '{"a":', 400],
    ['a list', '[]', 400],
    ['a text', '"x"', 400],
  ])('may not be %s', async (_, text, code) => {
    await server().post(server().widgets(), server().widget('m6'));
    const { status } = await server().mergePatch(server().widgets('m6'), text);
    expect(status).toBe(code);
  });

  it('works on built-in kinds', async () => {
    await server().post(server().core('configmaps'), {
      metadata: { name: 'm7' },
      data: { a: '1', b: '2' },
    });
    const { body } = await server().mergePatch(server().core('configmaps', 'm7'), {
      data: { a: null, c: '3' },
    });
    expect(body).toMatchObject({ data: { b: '2', c: '3' } });
  });
});

describe('JSON patch', () => {
  it.each<[string, readonly object[], object]>([
    ['adds', [{ op: 'add', path: '/spec/label', value: 'abc' }], { label: 'abc' }],
    [
      'adds to the end of a list',
      [{ op: 'add', path: '/spec/tags/-', value: 'z' }],
      { tags: ['a', 'b', 'z'] },
    ],
    [
      'adds before an item',
      [{ op: 'add', path: '/spec/tags/0', value: 'z' }],
      { tags: ['z', 'a', 'b'] },
    ],
    ['removes', [{ op: 'remove', path: '/spec/tags/0' }], { tags: ['b'] }],
    ['replaces', [{ op: 'replace', path: '/spec/size', value: 9 }], { size: 9 }],
    ['moves', [{ op: 'move', from: '/spec/tags/0', path: '/spec/tags/1' }], { tags: ['b', 'a'] }],
    ['copies', [{ op: 'copy', from: '/spec/size', path: '/spec/max' }], { max: 5 }],
    [
      'tests and continues',
      [
        { op: 'test', path: '/spec/size', value: 5 },
        { op: 'replace', path: '/spec/size', value: 6 },
      ],
      { size: 6 },
    ],
    [
      'escapes slashes',
      [{ op: 'add', path: '/spec/attributes/a~1b', value: 'x' }],
      { attributes: { 'a/b': 'x' } },
    ],
  ])('%s', async (what, operations, expected) => {
    const name = what.replaceAll(' ', '-');
    await server().post(
      server().widgets(),
      server().widget(name, { tags: ['a', 'b'], attributes: {} }),
    );
    const { status, body } = await server().jsonPatch(server().widgets(name), operations);
    expect(status).toBe(200);
    expect(body.spec).toMatchObject(expected);
  });

  it.each<[string, readonly object[]]>([
    ['a test that fails', [{ op: 'test', path: '/spec/size', value: 4 }]],
    ['the removal of what is not there', [{ op: 'remove', path: '/spec/nothing' }]],
    ['an index beyond the end', [{ op: 'add', path: '/spec/tags/9', value: 'x' }]],
    ['a parent that is not there', [{ op: 'add', path: '/spec/box/a', value: 'x' }]],
    ['an unknown operation', [{ op: 'jump', path: '/spec/size' }]],
  ])('refuses %s', async (_, operations) => {
    const { body: made } = await server().post(server().widgets(), {
      ...server().widget('', { tags: ['a'] }),
      metadata: { generateName: 'j-' },
    });
    const { status, body } = await server().jsonPatch(
      server().widgets(made.metadata.name),
      operations,
    );
    expect([status, body.reason, body.message]).toEqual([
      422,
      'Invalid',
      'the server rejected our request due to an error in our request',
    ]);
    expect((await server().get(server().widgets(made.metadata.name))).body).toEqual(made);
  });

  it('replaces what is not there', async () => {
    await server().post(server().widgets(), server().widget('j2'));
    const { status, body } = await server().jsonPatch(server().widgets('j2'), [
      { op: 'replace', path: '/spec/label', value: 'abc' },
    ]);
    expect([status, body.spec['label']]).toEqual([200, 'abc']);
  });

  it('is a list', async () => {
    await server().post(server().widgets(), server().widget('j1'));
    const { status, body } = await server().jsonPatch(server().widgets('j1'), { op: 'add' });
    expect([status, body.reason]).toEqual([400, 'BadRequest']);
  });
});

describe('strategic merge patch', () => {
  it('merges the lists of built-in kinds by their keys', async () => {
    await server().post(server().core('pods'), { metadata: { name: 'p1' }, spec: pod });
    const { status, body } = await server().strategicPatch(server().core('pods', 'p1'), {
      spec: { containers: [{ name: 'b', image: 'b:2' }] },
    });
    expect(status).toBe(200);
    expect(body.spec['containers']).toMatchObject([
      { name: 'a', image: 'a:1' },
      { name: 'b', image: 'b:2' },
    ]);
  });

  it('takes away an item that it says so of', async () => {
    await server().post(server().core('configmaps'), {
      metadata: {
        name: 'p2',
        finalizers: ['a.b/x', 'a.b/y'],
        ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'q', uid: 'u1' }],
      },
    });
    const { body } = await server().strategicPatch(server().core('configmaps', 'p2'), {
      metadata: {
        '$deleteFromPrimitiveList/finalizers': ['a.b/x'],
        ownerReferences: [{ uid: 'u1', $patch: 'delete' }],
      },
    });
    expect(body.metadata.finalizers).toEqual(['a.b/y']);
    expect(body.metadata).not.toHaveProperty('ownerReferences');
    await server().strategicPatch(server().core('configmaps', 'p2'), {
      metadata: { finalizers: null },
    });
  });

  it('is not for custom kinds', async () => {
    await server().post(server().widgets(), server().widget('p3'));
    const { status, body } = await server().strategicPatch(server().widgets('p3'), {
      spec: { size: 6 },
    });
    expect([status, body.reason]).toEqual([415, 'UnsupportedMediaType']);
    // A real server also names application/apply-patch+yaml.
    expect(body.message).toMatch(
      /^the body of the request was in an unknown format - accepted media types include: application\/json-patch\+json, application\/merge-patch\+json/,
    );
  });
});

it('refuses a patch of no known format', async () => {
  await server().post(server().core('configmaps'), { metadata: { name: 'unknown' } });
  const { status } = await server().send('PATCH', server().core('configmaps', 'unknown'), {
    body: {},
    contentType: 'application/json',
  });
  expect(status).toBe(415);
});
