import { z } from 'zod';
import { apiKeys } from '../../../src/resources/api-key.ts';
import { eventually } from '../../support/eventually.ts';
import { TwoOwners } from '../../support/gateway/two-owners.ts';

const issued = z.object({ id: z.string(), key: z.string() });

it('an API server deletes the keys that a revoked key has made, and those that they have made', async () => {
  const world = await TwoOwners.start();
  try {
    const send = async (method: string, target: string, key: string, body?: object) => {
      const json = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
      const headers = {
        authorization: `Bearer ${key}`,
        ...(json === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': String(json.length) }),
      };
      const got = await world.send({
        method,
        target,
        headers,
        ...(json === undefined ? {} : { body: json }),
      });
      expect(got?.status).toBeLessThan(300);
      return JSON.parse(got?.body.toString() ?? 'null') as unknown;
    };
    const create = async (key: string) =>
      issued.parse(await send('POST', '/api/keys', key, { name: 'made' }));
    const child = await create(world.keys.alice);
    const grandchild = await create((await create(child.key)).key);
    const names = async () =>
      (await world.client.list(apiKeys)).items.map(({ metadata }) => metadata.name);
    expect(await names()).toHaveLength(5);
    await send('DELETE', `/api/keys/${child.id}`, world.keys.alice);
    await eventually('three are gone', async () => (await names()).length === 2);
    const got = await world.send({
      method: 'GET',
      target: '/api/keys',
      headers: { authorization: `Bearer ${grandchild.key}` },
    });
    expect(got?.status).toBe(401);
  } finally {
    await world.stop();
  }
});
