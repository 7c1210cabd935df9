import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseAmount } from '../../../src/budget/money.ts';
import { usageRecords } from '../../../src/resources/usage-record.ts';
import { runApiServer } from '../../support/api-server.ts';
import { runBuilt } from '../../support/built-program.ts';
import { eventually } from '../../support/eventually.ts';
import { freePort } from '../../support/free-port.ts';
import { ChargingProvider } from '../../support/models/charging-provider.ts';
import { RelayReplicas } from '../../support/models/relay-replicas.ts';
import { chat, modelKey } from '../../support/models/relay-scene.ts';

const prices = { inputPerMillion: 1, outputPerMillion: 10 };

/** The status of a GET; undefined while nobody listens. */
const statusOf = async (url: string): Promise<number | undefined> => {
  const response = await fetch(url).catch(() => undefined);
  await response?.text();
  return response?.status;
};

it('relays serve models and nothing else, and give back at their end what they hold of a budget', async () => {
  await using provider = await ChargingProvider.start(prices);
  const options = { replicas: 2, providerUrl: provider.url, ...prices, budget: 1 };
  await using up = await RelayReplicas.start(options);
  const places = await up.conversation(1, 'alice');
  for (const place of places) {
    const response = await chat(place, { max_tokens: 100 });
    expect(response.status).toBe(200);
    await response.text();
  }
  expect(provider.calls.map(({ headers }) => headers.authorization)).toEqual(
    places.map(() => `Bearer ${modelKey}`),
  );
  const { origin, pathname } = new URL(places[0]?.baseUrl ?? '');
  for (const folder of ['git', 'mcp', 'secrets', 'webhooks'])
    expect([folder, await statusOf(`${origin}${pathname.replace('/models/', `/${folder}/`)}`)]) //
      .toEqual([folder, 404]);
  const holders = async () => {
    const { items } = await up.client.list(usageRecords, { namespace: 'default' });
    const accounts = items.flatMap(({ status }) => status?.accounts ?? []);
    return { accounts, count: accounts.flatMap((account) => account.holders ?? []).length };
  };
  await eventually('both relays to hold a share', async () => (await holders()).count === 2);
  await up.stopReplica(0);
  expect((await holders()).count).toBe(1);
  await up.stopReplica(1);
  const { accounts, count } = await holders();
  expect(count).toBe(0);
  expect(accounts.map(({ unit, spent }) => parseAmount(spent, unit))).toEqual([
    provider.chargedNanos,
  ]);
}, 120_000);

describe('without an agent', () => {
  let stack: AsyncDisposableStack;
  beforeEach(() => (stack = new AsyncDisposableStack()));
  afterEach(() => stack.disposeAsync());

  /** A built command with an API server of its own, and a folder with the key of a model. */
  const run = async (command: 'gateway' | 'relay', env: Readonly<Record<string, string>>) => {
    const api = await runApiServer();
    stack.defer(() => api.close());
    const [port, metricsPort] = [await freePort(), await freePort()];
    const ports = { AGENT_SIDE_PORT: String(port), METRICS_PORT: String(metricsPort) };
    const built = runBuilt(command, { api, stack, env: { ...ports, ...env } });
    const [url, metricsUrl] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${metricsPort}`];
    await eventually('it is ready', async () => (await statusOf(`${metricsUrl}/ready`)) === 200);
    return { ...built, url, metricsUrl };
  };

  it('a relay that ends is not ready, and answers for the time of its drain', async () => {
    const { stop, process, url, metricsUrl } = await run('relay', { DRAIN_SECONDS: '2' });
    const ended = stop();
    await eventually('not ready', async () => (await statusOf(`${metricsUrl}/ready`)) === 503);
    expect(await statusOf(`${url}/alive`)).toBe(200);
    expect(process.exitCode).toBeNull();
    expect(await ended).toMatchObject({ code: 0 });
    expect(await statusOf(`${url}/alive`)).toBeUndefined();
  });

  it.each([
    ['true', 401],
    ['false', 404],
  ])('a gateway with MODEL_RELAY=%s answers a call of a model with %i', async (value, status) => {
    const folder = mkdtempSync(join(tmpdir(), 'model-keys-'));
    stack.defer(() => rmSync(folder, { recursive: true }));
    writeFileSync(join(folder, 'openai'), modelKey);
    // Without the relay the gateway does not even read the folder.
    const keys = value === 'true' ? folder : join(folder, 'missing');
    const { url } = await run('gateway', { MODEL_RELAY: value, AGENT_CREDENTIALS_DIR: keys });
    expect(await statusOf(`${url}/models/sbx/${'0'.repeat(32)}/v1/models`)).toBe(status);
    expect(await statusOf(`${url}/secrets/sbx/names`)).toBe(403);
  });

  it.each([
    [{ AGENT_SIDE_PORT: '70000' }, 'AGENT_SIDE_PORT: must be a whole number from 0 to 65535'],
    [{ DRAIN_SECONDS: '16' }, 'DRAIN_SECONDS: must be a number of seconds from 0 to 15'],
    [{ MODELS_PRICES: '{' }, 'MODELS_PRICES: must be a JSON or YAML list of prices'],
    [{ AGENT_CREDENTIALS_DIR: '/missing' }, 'AGENT_CREDENTIALS_DIR: /missing'],
  ])('a relay names a setting that is wrong: %j', async (env, message) => {
    const api = await runApiServer();
    stack.defer(() => api.close());
    const { process, log } = runBuilt('relay', { api, stack, env });
    expect((await once(process, 'exit'))[0]).toBe(1);
    expect(log()).toContain(message);
  });
});
