import { usageRecords } from '../../../src/resources/usage-record.ts';
import { chat, modelKey, RelayScene } from '../../support/models/relay-scene.ts';

let scene: RelayScene;
beforeEach(async () => {
  scene = await RelayScene.start();
});
afterEach(() => scene[Symbol.asyncDispose]());

it('sends the bytes of a call with the key of the platform in place of the token', async () => {
  const alice = scene.conversation();
  const response = await chat(alice, { temperature: 0.5 });
  expect(response.status).toBe(200);
  expect(await response.json()).toMatchObject({ usage: { prompt_tokens: 10 } });
  const figures = await scene.metrics.registry.metrics();
  expect(figures).toContain('model_calls_total{api="openai-chat",outcome="answered"} 1');
  expect(figures).toContain('model_first_byte_seconds_count{api="openai-chat"} 1');
  expect(figures).toContain('model_tokens_total{kind="input"} 10');
  const [call] = scene.provider.calls;
  expect(call?.path).toBe('/v1/chat/completions');
  expect(call?.headers.authorization).toBe(`Bearer ${modelKey}`);
  expect(call?.bytes.toString()).toBe(
    JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }], temperature: 0.5 }),
  );
});

it('refuses in the shape of the API once the budget is used up', async () => {
  scene.budget(0.01);
  const alice = scene.conversation();
  let last: Response | undefined;
  for (let index = 0; index < 40; index++) {
    last = await chat(alice, { max_tokens: 100 });
    if (last.status !== 200) break;
    await last.text();
  }
  expect(last?.status).toBe(402);
  expect(await last?.json()).toEqual({
    error: {
      message: expect.stringMatching(/^The budget of \$0\.01 is used up/) as string,
      type: 'insufficient_quota',
      code: 'budget_exhausted',
      param: null,
    },
  });
  expect(scene.provider.chargedNanos).toBeLessThanOrEqual(10_000_000);
});

it.each([
  ['99999999', 'USD'],
  ['99999999.000000001', 'USD'],
  ['1.5', 'Tokens'],
])('serves where a person has edited a raise to %s %s', async (raised, currency) => {
  scene.budget(100_000, { currency });
  expect((await chat(scene.conversation(), { max_tokens: 20 })).status).toBe(200);
  await scene.close();
  for (const record of await scene.records()) {
    const accounts = record.status?.accounts?.map((account) => ({ ...account, raised }));
    expect(accounts).toHaveLength(1);
    const status = { ...record.status, accounts };
    await scene.client.updateStatus(usageRecords, { ...record, status });
  }
  const { client, provider } = scene;
  await using other = await RelayScene.start({ client, provider });
  other.budget(100_000, { currency });
  expect((await chat(other.conversation(), { max_tokens: 20 })).status).toBe(200);
});
