import { useServer } from './support/server.ts';

const server = useServer();
const mebibyte = 1_048_576;

describe('sizes', () => {
  it('of a ConfigMap may be 1 MiB', async () => {
    const { status } = await server().post(server().core('configmaps'), {
      metadata: { name: 'large' },
      data: { a: 'x'.repeat(mebibyte) },
    });
    expect(status).toBe(201);
  });

  it('of a ConfigMap may not be more', async () => {
    const { status, body } = await server().post(server().core('configmaps'), {
      metadata: { name: 'larger' },
      data: { a: 'x'.repeat(mebibyte + 1) },
    });
    expect([status, body.message]).toEqual([
      422,
      'ConfigMap "larger" is invalid: []: Too long: may not be more than 1048576 bytes',
    ]);
  });

  it('of a Secret may not be more', async () => {
    const data = { a: Buffer.from('x'.repeat(mebibyte + 1)).toString('base64') };
    const { status, body } = await server().post(server().core('secrets'), {
      metadata: { name: 'larger' },
      data,
    });
    expect([status, body.message]).toEqual([
      422,
      'Secret "larger" is invalid: data: Too long: may not be more than 1048576 bytes',
    ]);
  });

  it('of a custom object may be 1 MiB', async () => {
    const { status } = await server().post(
      server().widgets(),
      server().widget('large', { open: { a: 'x'.repeat(mebibyte) } }),
    );
    expect(status).toBe(201);
  });

  it('of a request may not be more than 3 MiB', async () => {
    const { status, body } = await server().post(server().core('configmaps'), {
      metadata: { name: 'huge' },
      data: { a: 'x'.repeat(3 * mebibyte) },
    });
    expect([status, body.reason]).toEqual([413, 'RequestEntityTooLarge']);
    expect(body.message).toBe('Request entity too large: limit is 3145728');
    // The connection is fit for what comes next, or closed: never one answer for another.
    expect((await server().get(server().core('configmaps', 'absent'))).status).toBe(404);
  });

  it('of a JSON patch may be 10 000 operations', async () => {
    await server().post(server().widgets(), server().widget('patched'));
    const operations = Array.from({ length: 10_001 }, () => ({
      op: 'test',
      path: '/spec/size',
      value: 5,
    }));
    const { status, body } = await server().jsonPatch(server().widgets('patched'), operations);
    expect([status, body.reason]).toEqual([413, 'RequestEntityTooLarge']);
    expect(body.message).toBe(
      'Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001',
    );
  });

  it('of names in data are limited', async () => {
    const { status, body } = await server().post(server().core('configmaps'), {
      metadata: { name: 'keys' },
      data: { 'a b': '' },
    });
    expect(status).toBe(422);
    expect(body.message).toContain(
      `data[a b]: Invalid value: "a b": a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')`,
    );
  });

  it('nested too deep are refused', async () => {
    const depth = 12_000;
    const text = `{"apiVersion":"${server().widgetGroup}/v1","kind":"Widget","metadata":{"name":"deep"},"spec":{"color":"red","open":${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}}}`;
    const { status } = await server().post(server().widgets(), text);
    expect(status).toBe(400);
  });
});
