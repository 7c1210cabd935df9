import { createServer, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { eventually } from '../../support/eventually.ts';
import { askModel, maxOf, type Access } from '../../support/models/agent-call.ts';
import type { Behaviour } from '../../support/models/charging-provider.ts';
import { modelKey, RelayScene } from '../../support/models/relay-scene.ts';

let scene: RelayScene;
let alice: Access;
beforeEach(async () => {
  scene = await RelayScene.start({ limits: { idleMs: 1_000, totalMs: 3_000 } });
  scene.budget(1);
  alice = scene.conversation();
});
afterEach(() => scene[Symbol.asyncDispose]());

/** A refusal that the relay passes on at once: it would wait with others, and ask again. */
const json = { 'content-type': 'application/json', 'x-should-retry': 'false' };
const ask = (behaviour: Behaviour, isStream = false) => {
  scene.provider.behave = () => ({ inputTokens: 0, ...behaviour });
  return askModel(alice, 'chat', { isStream, fields: maxOf('chat', 50) });
};
const answering = (status: number): Behaviour => ({
  respond: (response) => void response.writeHead(status, json).end(`{"error":"${modelKey}"}`),
});

/** The failures in the record of the namespace, once the relay is closed. */
async function counted() {
  await scene.close();
  const [record] = (await scene.records()).filter(({ spec }) => spec.scope === 'Namespace');
  expect(JSON.stringify(record ?? {})).not.toContain(modelKey);
  return (record?.status?.upstreams ?? []).map(({ host, kind, countOfLastDay, message }) =>
    [host, kind, countOfLastDay, message].join(' '),
  );
}

it.each<[string, Behaviour, string, string]>([
  ['redirects', { fault: 'redirect' }, 'Redirect', 'The provider redirects with status 307.'],
  [
    'closes the connection',
    { fault: 'reset' },
    'Broken',
    'The provider has closed the connection without an answer.',
  ],
  [
    'answers with a web page',
    { fault: 'html' },
    'WebPage',
    'The provider answers with a web page.',
  ],
  [
    'refuses the key',
    answering(401),
    'KeyRefused',
    'The provider refuses the key of the platform (status 401).',
  ],
  [
    'wants to be paid',
    answering(402),
    'KeyRefused',
    'The provider refuses the key of the platform (status 402).',
  ],
  [
    'limits the rate',
    answering(429),
    'RateLimited',
    'The provider limits the rate of calls (status 429).',
  ],
  ['is overloaded', answering(529), 'ServerError', 'The provider answers with status 529.'],
  [
    'answers 200 with an error',
    answering(200),
    'ServerError',
    'The provider answers with an error in place of an answer.',
  ],
  ['hangs', { fault: 'hang' }, 'TimedOut', 'The provider has not answered in time.'],
])('a provider that %s is counted once', async (_name, behaviour, kind, message) => {
  await ask(behaviour);
  const { host } = new URL(scene.provider.url);
  expect(await counted()).toEqual([`${host} ${kind} 1 ${message}`]);
  const { values } = await scene.metrics.providerFailures.get();
  expect(values.filter(({ value }) => value > 0)).toMatchObject([{ labels: { kind }, value: 1 }]);
});

it.each<[string, Behaviour, string]>([
  [
    'breaks off',
    { parts: 3, partMs: 50, breaksAfter: 2 },
    'Broken 1 An answer of the provider has broken off.',
  ],
  [
    'stops in between',
    {
      respond: (response) =>
        void response.writeHead(200, { 'content-type': 'text/event-stream' }).write(': hello\n\n'),
    },
    'TimedOut 1 An answer of the provider has taken too long.',
  ],
])('a stream that %s is counted once', async (_name, behaviour, expected) => {
  await ask(behaviour, true);
  const { host } = new URL(scene.provider.url);
  expect(await counted()).toEqual([`${host} ${expected}`]);
});

it('a provider without a server is counted with the code of the error', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  const baseUrl = `http://user:secret@127.0.0.1:${port}/v1`;
  scene.template({ agent: { port: 8000, workingDir: '/', model: 'openai/m', baseUrl } });
  await ask({});
  await ask({});
  expect(await counted()).toEqual([
    `127.0.0.1:${port} Unreachable 2 The provider can not be reached (ECONNREFUSED).`,
  ]);
});

it.each<[string, number]>([
  ['a bad request', 400],
  ['an unknown model', 404],
  ['success', 200],
])('%s is no failure of the provider', async (_name, status) => {
  await ask(status === 200 ? {} : answering(status));
  expect(await counted()).toEqual([]);
});

it('an agent that leaves is no failure of the provider', async () => {
  const left = new AbortController();
  scene.provider.behave = () => ({ fault: 'hang' });
  const answer = askModel(alice, 'chat', { fields: maxOf('chat', 50), signal: left.signal });
  await eventually('the call', () => scene.provider.calls.length === 1);
  left.abort();
  await expect(answer).rejects.toThrow();
  await eventually('its end', () => scene.provider.left.length === 1);
  expect(await counted()).toEqual([]);
});

it('two replicas add up in one record', async () => {
  await using other = await RelayScene.start({ client: scene.client, provider: scene.provider });
  other.budget(1);
  const bob = other.conversation(2, { owner: 'bob' });
  await ask(answering(503));
  await askModel(bob, 'chat', { fields: maxOf('chat', 50) });
  await ask(answering(503));
  await other.close();
  const { host } = new URL(scene.provider.url);
  expect(await counted()).toEqual([`${host} ServerError 3 The provider answers with status 503.`]);
});
