import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { SandboxKeys } from '../../src/agent/keys.ts';
import { issueKey } from '../../src/gateway/auth/key.ts';
import type { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { conversations } from '../../src/resources/conversation.ts';
import { apiVersion } from '../../src/resources/group.ts';
import { sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import { runApiServer, type RunningApiServer } from '../support/api-server.ts';
import { runBuilt } from '../support/built-program.ts';
import { eventually } from '../support/eventually.ts';
import { StubAgent } from '../support/gateway/stub-agent.ts';
import { saying } from '../support/installation.ts';
import { LoadBalancer } from '../support/load-balancer.ts';
import { sessionKeyFor } from '../support/session-key.ts';
import { SteadyLoad, type Answered } from '../support/steady-load.ts';

const namespace = 'default';
const owner = 'alice';
const masterKey = 'k'.repeat(32);
/** Time in which also a busy balancer sees that a gateway takes no new connections. */
const drainSeconds = 5;

let stack: AsyncDisposableStack;
let api: RunningApiServer;
let client: HttpKubeClient;
let agent: StubAgent;
let balancer: LoadBalancer;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  api = await runApiServer();
  stack.defer(() => api.close());
  ({ client } = api);
  agent = await StubAgent.start();
  stack.defer(() => agent.stop());
  balancer = await LoadBalancer.start();
  stack.defer(() => balancer.stop());
});
afterEach(() => stack.disposeAsync());

async function startGateway() {
  const env = {
    DRAIN_SECONDS: String(drainSeconds),
    RATE_LIMIT_READS: '0',
    RATE_LIMIT_WRITES: '0',
    OVERLOAD_DELAY_MS: '0',
  };
  const { log, stop } = runBuilt('gateway', { api, stack, env });
  const listens = () => /"port":(\d+)/.exec(log())?.[1];
  return { port: Number(await eventually('the gateway listens', listens)), stop };
}

async function addSandbox(name: string): Promise<Sandbox> {
  const spec = { owner, templateName: 'default', replicas: 1 };
  await client.create(sandboxes, {
    apiVersion,
    kind: 'Sandbox',
    metadata: { namespace, name },
    spec,
  });
  return client.mergePatch(
    sandboxes,
    namespace,
    name,
    { status: agent.status },
    { subresource: 'status' },
  );
}

const isOk = ({ status, text }: Answered): string | undefined =>
  status === 200 ? undefined : `${status} ${text}`;

it('gateways are replaced one after the other under load, and no request fails', async () => {
  const { key, resource } = await issueKey({ client, namespace, owner });
  const sessionKey = sessionKeyFor(await addSandbox('sbx-1'), {
    apiKey: key,
    apiKeys: [resource],
    keys: new SandboxKeys([Buffer.from(masterKey)]),
  });
  // Some of the agent's answers take as long as a client's next requests do.
  agent.answer = (request, response) => {
    const answer = () => response.setHeader('content-length', 2).end('{}');
    if (request.url === '/slow') setTimeout(answer, 300);
    else answer();
  };
  let [one, other] = await Promise.all([startGateway(), startGateway()]);
  balancer.backends = [one.port, other.port];
  await eventually('both are ready', () => balancer.ready.length === 2);

  const load = new SteadyLoad(balancer.port);
  const headers = { authorization: `Bearer ${key}` };
  const base = '/api/v1/app-conversations';
  const body = JSON.stringify(saying('Hello.'));
  const idempotencyKeys = new Set<string>();
  const start = (path: string) => {
    const idempotencyKey = randomUUID();
    idempotencyKeys.add(idempotencyKey);
    return {
      method: 'POST',
      path,
      headers: { ...headers, 'idempotency-key': idempotencyKey },
      body,
    };
  };
  const read = (path: string) => () => ({ method: 'GET', path, headers });
  for (const path of ['search?limit=10', 'start-tasks/search?limit=10', 'count'])
    load.ask('read', read(`${base}/${path}`), isOk);
  for (let count = 0; count < 2; count++) load.ask('start', () => start(base), isOk);
  // No operator works on these starts, so a stream lasts as long as its gateway.
  for (let count = 0; count < 4; count++) {
    load.ask(
      'stream',
      () => start(`${base}/stream-start`),
      ({ status, text }) => {
        const tasks = JSON.parse(text) as { status: string }[];
        return status === 200 && tasks[0]?.status === 'WORKING' ? undefined : `${status} ${text}`;
      },
    );
  }
  const proxied = (path: string) => () => ({
    method: 'GET',
    path: `/sandboxes/sbx-1/AGENT_SERVER${path}`,
    headers: { 'x-session-api-key': sessionKey },
  });
  for (const path of ['/quick', '/quick', '/slow', '/slow'])
    load.ask('proxied', proxied(path), isOk);
  for (let count = 0; count < 4; count++) {
    load.talk('socket', '/sandboxes/sbx-1/AGENT_SERVER/sockets/x', {
      'x-session-api-key': sessionKey,
    });
  }

  for (let turn = 0; turn < 2; turn++) {
    await delay(300);
    const stopped = one.stop();
    const next = await startGateway();
    expect(await stopped).toMatchObject({ code: 0 });
    balancer.backends = [other.port, next.port];
    await eventually('the new one is ready', () => balancer.ready.length === 2);
    [one, other] = [other, next];
  }
  await delay(300);
  expect(load.failures).toEqual([]);
  // Open connections end with their gateway.
  const stopped = load.stop();
  const codes = await Promise.all([one.stop(), other.stop()]);
  await stopped;
  expect(codes).toMatchObject([{ code: 0 }, { code: 0 }]);
  expect(load.failures).toEqual([]);
  for (const name of ['read', 'start', 'stream', 'proxied', 'socket'])
    expect(load.count(name)).toBeGreaterThan(4);
  expect(load.lastAnswers).toBeGreaterThan(4);
  const { items } = await client.list(conversations, { namespace });
  expect(items).toHaveLength(idempotencyKeys.size);
});
