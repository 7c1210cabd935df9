import { useServer } from './support/server.ts';

const server = useServer();
const query = { dryRun: 'All' };

it('creates nothing, and answers as if', async () => {
  const { status, body } = await server().post(server().widgets(), server().widget('d1'), {
    query,
  });
  expect(status).toBe(201);
  expect(body).toMatchObject({
    metadata: { name: 'd1', generation: 1, uid: expect.any(String) as unknown },
    spec: { size: 5 },
  });
  expect(body.metadata).not.toHaveProperty('resourceVersion');
  expect((await server().get(server().widgets('d1'))).status).toBe(404);
});

it('replaces nothing', async () => {
  const { body: made } = await server().post(server().widgets(), server().widget('d2'));
  const { status, body } = await server().put(
    server().widgets('d2'),
    { ...made, spec: { ...made.spec, size: 7 } },
    { query },
  );
  expect([status, body.spec['size'], body.metadata.generation]).toEqual([200, 7, 2]);
  expect((await server().get(server().widgets('d2'))).body).toEqual(made);
});

it('patches nothing', async () => {
  const { body: made } = await server().post(server().widgets(), server().widget('d3'));
  const patched = await server().mergePatch(
    server().widgets('d3'),
    { spec: { size: 7 } },
    { query },
  );
  expect([patched.status, patched.body.spec['size']]).toEqual([200, 7]);
  const scaled = await server().mergePatch(
    server().widgets('d3', 'scale'),
    { spec: { replicas: 7 } },
    { query },
  );
  expect([scaled.status, scaled.body.spec]).toEqual([200, { replicas: 7 }]);
  expect((await server().get(server().widgets('d3'))).body).toEqual(made);
});

it('deletes nothing', async () => {
  const { body: made } = await server().post(server().widgets(), server().widget('d4'));
  const asked = await server().delete(server().widgets('d4'), undefined, { query });
  expect(asked.status).toBe(200);
  const answer = await server().delete(server().widgets('d4'), { dryRun: ['All'] });
  expect(answer.status).toBe(200);
  expect((await server().get(server().widgets('d4'))).body).toEqual(made);
});

it('refuses what would be refused', async () => {
  await server().post(server().widgets(), server().widget('d5'));
  expect((await server().post(server().widgets(), server().widget('d5'), { query })).status).toBe(
    409,
  );
  expect(
    (await server().post(server().widgets(), server().widget('d6', { size: 0 }), { query })).status,
  ).toBe(422);
  expect((await server().delete(server().widgets('absent'), undefined, { query })).status).toBe(
    404,
  );
});

it('knows no other word', async () => {
  const { status, body } = await server().post(server().widgets(), server().widget('d7'), {
    query: { dryRun: 'Some' },
  });
  expect([status, body.reason]).toEqual([422, 'Invalid']);
  expect(body.message).toContain('dryRun: Unsupported value: ["Some"]: supported values: "All"');
});
