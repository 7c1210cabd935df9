import { useServer } from './support/server.ts';

const server = useServer();
const widget = () => ({
  ...server().widget('', { bogus: 1, nested: { wrong: 2 } }),
  metadata: { generateName: 'v-' },
});
const map = { metadata: { generateName: 'v-' }, data: { a: 'b' }, bogus: 1 };

describe('fieldValidation', () => {
  it('Strict refuses unknown fields of a custom kind', async () => {
    const { status, body } = await server().post(server().widgets(), widget(), {
      query: { fieldValidation: 'Strict' },
    });
    expect([status, body.reason]).toEqual([400, 'BadRequest']);
    expect(body.message).toBe(
      `Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.bogus", unknown field "spec.nested.wrong"`,
    );
  });

  it('Strict refuses unknown fields of a built-in kind', async () => {
    const { status, body } = await server().post(server().core('configmaps'), map, {
      query: { fieldValidation: 'Strict' },
    });
    expect([status, body.message]).toEqual([
      400,
      'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "bogus"',
    ]);
  });

  it.each([['Warn'], ['']])('%s drops them and says so', async (fieldValidation) => {
    const query = fieldValidation === '' ? {} : { fieldValidation };
    const custom = await server().post(server().widgets(), widget(), { query });
    expect([custom.status, custom.warnings]).toEqual([
      201,
      ['unknown field "spec.bogus"', 'unknown field "spec.nested.wrong"'],
    ]);
    const builtin = await server().post(server().core('configmaps'), map, { query });
    expect([builtin.status, builtin.warnings]).toEqual([201, ['unknown field "bogus"']]);
  });

  it('Ignore drops them silently', async () => {
    const { status, warnings } = await server().post(server().widgets(), widget(), {
      query: { fieldValidation: 'Ignore' },
    });
    expect([status, warnings]).toEqual([201, []]);
  });

  it('knows no other word', async () => {
    const { status, body } = await server().post(server().widgets(), widget(), {
      query: { fieldValidation: 'Loose' },
    });
    expect([status, body.reason]).toEqual([422, 'Invalid']);
    expect(body.message).toContain(
      'fieldValidation: Unsupported value: "Loose": supported values: "", "Ignore", "Strict", "Warn"',
    );
  });

  it('holds for updates', async () => {
    const { body: made } = await server().post(server().widgets(), server().widget('changed'));
    const sent = { ...made, spec: { ...made.spec, bogus: 1 } };
    const strict = await server().put(server().widgets('changed'), sent, {
      query: { fieldValidation: 'Strict' },
    });
    expect([strict.status, strict.body.message]).toEqual([
      400,
      'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.bogus"',
    ]);
    const warned = await server().put(server().widgets('changed'), sent);
    expect([warned.status, warned.warnings]).toEqual([200, ['unknown field "spec.bogus"']]);
  });

  it('holds for patches', async () => {
    await server().post(server().widgets(), server().widget('patched'));
    const patch = { spec: { bogus: 1 } };
    const strict = await server().mergePatch(server().widgets('patched'), patch, {
      query: { fieldValidation: 'Strict' },
    });
    expect([strict.status, strict.body.reason]).toEqual([422, 'Invalid']);
    expect(strict.body.message).toContain('unknown field "spec.bogus"');
    const warned = await server().mergePatch(server().widgets('patched'), patch);
    expect([warned.status, warned.warnings]).toEqual([200, ['unknown field "spec.bogus"']]);
  });
});
