import { setTimeout as wait } from 'node:timers/promises';
import { ChargingProvider } from '../../support/models/charging-provider.ts';
import { RelayReplicas } from '../../support/models/relay-replicas.ts';
import { chat } from '../../support/models/relay-scene.ts';

// In full: RUNS=20 npm test -- test/integration/models/budget-crowd
const runs = Number(process.env['RUNS'] ?? 1);
const crowd = 100;
const replicas = 3;
const prices = { inputPerMillion: 1, outputPerMillion: 10 };
const oneDollar = 1_000_000_000;
/** How long one replica after the other is killed. */
const stormMs = 30_000;
/** How long the agents have after that until all of them know that the budget is used up. */
const calmMs = 120_000;

type Access = Awaited<ReturnType<RelayReplicas['conversation']>>;

/** Calls the model until the budget is used up. Resolves with the statuses of all answers. */
async function statusesOf(access: Access, index: number, until: number): Promise<number[]> {
  const statuses: number[] = [];
  for (let turn = index; performance.now() < until; turn++) {
    const place = access[turn % access.length];
    if (place === undefined) throw new Error('there is no replica');
    try {
      const body = { max_tokens: 50 + (turn % 7) * 100, stream: turn % 2 === 0 };
      const response = await chat(place, body);
      statuses.push(response.status);
      await response.text();
    } catch {
      // The replica was killed, or the provider has broken the answer off.
    }
    const last = statuses.at(-1);
    if (last === 402) return statuses;
    await wait(last === 200 ? 0 : 200);
  }
  throw new Error(`the budget has never ended: ${statuses.slice(-5).join(' ')}`);
}

it.each(Array.from({ length: runs }, (_, run) => run + 1))(
  `holds a budget of $1 for ${crowd} conversations while one of ${replicas} replicas is killed each second, and the API server is away for 20 s: run %i`,
  async () => {
    await using provider = await ChargingProvider.start(prices);
    // Some answers break off, and some have no usage.
    provider.behave = (_call, index) => ({
      firstByteMs: 20,
      outputTokens: 20 + (index % 31),
      partMs: 5,
      ...(index % 17 === 0 ? { breaksAfter: 1 } : {}),
      ...(index % 23 === 0 ? { usage: null } : {}),
    });
    await using up = await RelayReplicas.start({
      replicas,
      providerUrl: provider.url,
      ...prices,
      budget: 1,
    });
    const places: Access[] = [];
    for (let index = 1; index <= crowd; index++) places.push(await up.conversation(index, 'alice'));
    const began = performance.now();
    let kills = 0;
    const storm = async (): Promise<void> => {
      for (; performance.now() < began + stormMs; kills++) {
        await wait(1_000);
        await up.killReplica(kills % replicas);
        await up.startReplica(kills % replicas);
      }
    };
    const outage = async (): Promise<void> => {
      await wait(3_000);
      up.pauseApiServer(true);
      await wait(20_000);
      up.pauseApiServer(false);
    };
    const until = began + stormMs + calmMs;
    const [statuses] = await Promise.all([
      Promise.all(places.map((access, index) => statusesOf(access, index, until))),
      storm(),
      outage(),
    ]);
    expect(provider.chargedNanos).toBeLessThanOrEqual(oneDollar);
    expect(provider.calls.length).toBeGreaterThan(crowd);
    expect(kills).toBeGreaterThan(5);
    // 401 or 403 would end a run for good.
    expect(new Set(statuses.flat())).toEqual(new Set([200, 402, 429]));
  },
  stormMs + calmMs + 180_000,
);

it('lets one conversation alone use nine tenths of the budget at least', async () => {
  await using provider = await ChargingProvider.start(prices);
  await using up = await RelayReplicas.start({
    replicas,
    providerUrl: provider.url,
    ...prices,
    budget: 1,
  });
  provider.behave = ({ maxTokens = 0 }) => ({ outputTokens: Math.min(1_000, maxTokens) });
  const access = await up.conversation(1, 'alice');
  let last: number | undefined;
  for (let turn = 0; last !== 402; turn++) {
    const place = access[turn % access.length];
    if (place === undefined) throw new Error('there is no replica');
    const response = await chat(place, { max_tokens: 1_100 });
    await response.text();
    last = response.status;
    if (last === 429) await wait(200);
  }
  expect(provider.chargedNanos).toBeLessThanOrEqual(oneDollar);
  expect(provider.chargedNanos).toBeGreaterThanOrEqual(0.9 * oneDollar);
}, 400_000);
