import { conversations } from '../../../src/resources/conversation.ts';
import { eventually } from '../../support/eventually.ts';
import { apiNames, askModel, maxOf, type AgentAnswer } from '../../support/models/agent-call.ts';
import type { ChargingProvider, Behaviour } from '../../support/models/charging-provider.ts';
import { modelKey, RelayScene, type RelaySceneOptions } from '../../support/models/relay-scene.ts';
import { aStoredConversation } from '../../support/builders.ts';

let scene: RelayScene;
const start = async (options: RelaySceneOptions = {}): Promise<void> => {
  scene = await RelayScene.start(options);
  scene.budget(1);
};
afterEach(async () => {
  await scene[Symbol.asyncDispose]();
  expect(scene.provider.underWay).toBe(0);
});

const refusal = '{"error": {"message":"Too many tokens"} }';
const limited = (headers: Readonly<Record<string, string>>): Behaviour => ({
  inputTokens: 0,
  respond: (response) =>
    void response.writeHead(429, { 'content-type': 'application/json', ...headers }).end(refusal),
});
const agentOf = (owner: string, index: number) => scene.conversation(index, { owner });
type Agent = ReturnType<typeof agentOf>;
const ask = (agent: Agent, signal?: AbortSignal): Promise<AgentAnswer> =>
  askModel(agent, 'chat', { fields: maxOf('chat', 50), ...(signal && { signal }) });

/** The owners of calls in the order in which the provider got them, by a field of their bodies. */
const ownersOf = (provider: ChargingProvider): readonly unknown[] =>
  provider.calls.map(({ body }) => body['user']);
const askAs = (agent: Agent, owner: string): Promise<AgentAnswer> =>
  askModel(agent, 'chat', { fields: { ...maxOf('chat', 50), user: owner } });

/** Fails unless each reservation was settled, and exactly what the provider charges was spent. */
const expectNothingLeaked = async (): Promise<void> => {
  expect(await scene.spentInAll()).toBe(scene.provider.chargedNanos);
};

it('two owners get their answers in turn while the provider limits the key, and nothing is charged twice', async () => {
  await start();
  const served: unknown[] = [];
  let freeAtMs = 0;
  // The provider takes one call each 60 ms.
  scene.provider.behave = ({ body }) => {
    const nowMs = performance.now();
    if (nowMs < freeAtMs) return limited({ 'retry-after-ms': '100' });
    freeAtMs = nowMs + 60;
    served.push(body['user']);
    return {};
  };
  const [alice, bob] = [agentOf('alice', 1), agentOf('bob', 2)];
  const answers = await Promise.all([
    ...Array.from({ length: 8 }, () => askAs(alice, 'alice')),
    ...Array.from({ length: 3 }, () => askAs(bob, 'bob')),
  ]);
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
  // The unit test of the key has the exact order, which here depends on the load of the machine.
  expect(served.indexOf('bob')).toBeLessThan(served.lastIndexOf('alice'));
  expect(scene.provider.calls.length).toBeLessThan(60);
  expect(scene.provider.chargedNanos).toBe(
    11 * scene.provider.nanosOf({ input: 10, cached: 0, output: 50 }),
  );
  const figures = await scene.metrics.registry.metrics();
  expect(figures).toMatch(/model_wait_seconds_count\{reason="RateLimit"\} [1-9]/);
  await expectNothingLeaked();
});

it('agents get the refusal of their provider once they have waited too long, with a time', async () => {
  await start({ maxWaitMs: 600 });
  scene.provider.behave = () => limited({ 'retry-after-ms': '250', 'x-request-id': 'r1' });
  const alice = agentOf('alice', 1);
  for (const api of apiNames) {
    const before = scene.provider.calls.length;
    const got = await askModel(alice, api, { fields: maxOf(api, 50) });
    expect(got).toMatchObject({ status: 429, text: refusal });
    expect(got.headers).toMatchObject({ 'retry-after': '1', 'x-request-id': 'r1' });
    expect(got.headers['retry-after-ms']).toBeUndefined();
    expect(scene.provider.calls.length - before).toBeLessThan(4);
  }
  expect(await scene.spentInAll()).toBe(0);
});

it('a refusal that repeats the key is passed on without it', async () => {
  await start({ maxWaitMs: 1 });
  scene.provider.behave = () => ({
    inputTokens: 0,
    respond: (response) => void response.writeHead(429).end(`the key ${modelKey} is slow`),
  });
  expect(await ask(agentOf('alice', 1))).toMatchObject({
    status: 429,
    text: 'the key <redacted> is slow',
  });
});

it('a call whose turn does not come is refused in the shape of its API', async () => {
  await start({ maxWaitMs: 100, keyLimits: [{ credential: 'platform', calls: 1 }] });
  scene.provider.behave = () => ({ firstByteMs: 1_000 });
  const first = ask(agentOf('alice', 1));
  await eventually('the first call', () => scene.provider.underWay === 1, 5_000);
  const got = await ask(agentOf('bob', 2));
  expect(got.status).toBe(429);
  expect(got.headers['retry-after']).toBe('10');
  expect(JSON.parse(got.text)).toMatchObject({
    error: {
      type: 'rate_limit_error',
      message: expect.stringContaining('The limits of the key of the model') as string,
    },
  });
  expect((await first).status).toBe(200);
  await expectNothingLeaked();
});

it('a call that waits holds nothing of a budget, and is forgotten when its agent leaves', async () => {
  await start();
  scene.provider.behave = () => limited({ 'retry-after': '30' });
  const [alice, bob] = [agentOf('alice', 1), agentOf('bob', 2)];
  const leaving = new AbortController();
  const calls = [ask(alice, leaving.signal), ask(bob, leaving.signal)];
  const failures = Promise.allSettled(calls);
  const isFree = () => scene.reservations.every(({ settled }) => settled === 1);
  await eventually('the refusal', () => scene.reservations.length > 0 && isFree(), 5_000);
  leaving.abort();
  expect((await failures).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  expect(scene.provider.calls.length).toBeLessThanOrEqual(2);
  await expectNothingLeaked();
});

it('large calls that wait for one model do not hold up those of another one', async () => {
  scene = await RelayScene.start();
  const { url: baseUrl } = scene.provider;
  scene.template({
    agent: {
      port: 8000,
      workingDir: '/workspace',
      model: 'openai/m',
      allowedModels: ['openai/*'],
      baseUrl: `${baseUrl}/v1`,
      credential: 'platform',
    },
  });
  scene.provider.behave = ({ body }) =>
    body['model'] === 'm' ? limited({ 'retry-after': '30' }) : {};
  const content = 'a'.repeat(8_000_000);
  const fields = { ...maxOf('chat', 50), messages: [{ role: 'user', content }] };
  const owners = ['alice', 'bob', 'carol', 'dave', 'erin'];
  const leaving = new AbortController();
  const large = Array.from({ length: 20 }, (_, index) =>
    askModel(agentOf(owners[index % 5] ?? '', 10 + index), 'chat', {
      fields,
      signal: leaving.signal,
    }).then(({ status }) => status),
  );
  const refused = large.map((status) => status.catch(() => undefined));
  expect(await Promise.race(refused)).toBe(429);
  const small = { ...maxOf('chat', 50), model: 'other' };
  const signal = AbortSignal.timeout(10_000);
  expect(await askModel(agentOf('frank', 1), 'chat', { fields: small, signal })).toMatchObject({
    status: 200,
  });
  leaving.abort();
  await Promise.all(refused);
}, 30_000);

it('the calls at once of a key and of each owner keep to its limits, in turn', async () => {
  await start({ keyLimits: [{ credential: 'platform', calls: 2, perOwner: { calls: 1 } }] });
  scene.provider.behave = () => ({ firstByteMs: 20 });
  const [alice, bob] = [agentOf('alice', 1), agentOf('bob', 2)];
  const answers = await Promise.all([
    ...Array.from({ length: 6 }, () => askAs(alice, 'alice')),
    askAs(bob, 'bob'),
  ]);
  expect(answers.every(({ status }) => status === 200)).toBe(true);
  expect(scene.provider.peakUnderWay).toBe(2);
  expect(ownersOf(scene.provider).slice(0, 3)).toContain('bob');
  await expectNothingLeaked();
});

it('the tokens of an answer count for the next call', async () => {
  await start({ keyLimits: [{ credential: 'platform', tokensPerMinute: 6_000 }], maxWaitMs: 200 });
  scene.provider.behave = () => ({ inputTokens: 20_000 });
  const alice = agentOf('alice', 1);
  expect((await ask(alice)).status).toBe(200);
  const second = await ask(alice);
  expect(second.status).toBe(429);
  expect(Number(second.headers['retry-after'])).toBeGreaterThan(50);
  await expectNothingLeaked();
});

it('the conversation says why its call waits, and for how long', async () => {
  await start();
  scene.provider.behave = (_call, index) => (index === 0 ? limited({ 'retry-after': '12' }) : {});
  const alice = agentOf('alice', 1);
  const { metadata, spec } = alice.conversation;
  scene.client.put(
    conversations,
    aStoredConversation({ name: metadata.name, spec: { owner: spec.owner } }),
  );
  const leaving = new AbortController();
  const beganMs = Date.now();
  const failure = ask(alice, leaving.signal).catch((error: unknown) => error);
  const stored = async () =>
    (await scene.client.get(conversations, 'default', metadata.name)).status?.modelWait;
  await eventually('the wait', async () => (await stored()) !== undefined, 5_000);
  const { until = '', reason } = (await stored()) ?? {};
  expect(reason).toBe('RateLimit');
  expect(Math.abs(Date.parse(until) - beganMs - 12_000)).toBeLessThan(5_000);
  leaving.abort();
  await failure;
  await expectNothingLeaked();
});
