import { TwoOwners } from '../support/gateway/two-owners.ts';
import { fuzz } from './fuzz.ts';
import { LeakWatch } from './leak-watch.ts';

const seed = 5;
const requests = 3500;
/**
 * Operations that redirect without the web UI or an identity provider, that need a code, or a path
 * of the working folder of the one conversation that is shared.
 */
const otherwise: readonly string[] = [
  ...['conversationPage', 'logout', 'redeemDevice', 'answerDevice'],
  ...['listSharedFiles', 'readSharedFile', 'listSharedChanges', 'getSharedDiff'],
];

describe('requests made from /openapi.json', () => {
  let world: TwoOwners;
  beforeAll(async () => {
    world = await TwoOwners.start();
  });
  afterAll(() => world.stop());

  it(`are answered as it says: ${requests} with seed ${seed}`, async () => {
    const leaks = new LeakWatch(world);
    const report = await fuzz(world, { requests, seed, watch: leaks.watch });
    await leaks.finish();
    expect(leaks.leaks).toEqual([]);
    expect([...leaks.shown].sort()).toEqual(['key', 'session_api_key', 'value of a secret']);
    expect(report.failures.join('\n\n')).toBe('');
    expect(report.requests).toBe(requests);
    // Each operation that can succeed has succeeded once, so the requests are no mere noise.
    const able = world.gateway.routes.filter(
      ({ operationId, responses: answers }) =>
        !otherwise.includes(operationId) &&
        Object.keys(answers).some((status) => Number(status) < 300),
    );
    const silent = able.filter(
      ({ operationId }) =>
        ![...(report.seen.get(operationId) ?? [])].some((status) => status < 300),
    );
    expect(silent.map(({ operationId }) => operationId)).toEqual([]);
    for (const status of [200, 201, 400, 401, 404, 405, 409, 415, 422])
      expect([...report.statuses.keys()]).toContain(status);
  }, 600_000);
});
