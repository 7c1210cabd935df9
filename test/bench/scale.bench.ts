import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isTrue } from '../../src/resources/conditions.ts';
import { conversations, type Conversation } from '../../src/resources/conversation.ts';
import { apiVersion } from '../../src/resources/group.ts';
import { pods } from '@conversation-operator/kube/core';
import { SandboxCondition, sandboxes, type Sandbox } from '../../src/resources/sandbox.ts';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/free-port.ts';
import { inParallel, latencies, namespace, openApiServer, startApiServer } from './api-server.ts';
import { startChild } from './child.ts';
import { percentile, report } from './figure.ts';
import { createDefaults, startOperator } from './operator-program.ts';

/**
 * A full installation: conversations start at a steady rate, with the built operator and pods that
 * run as soon as they are there, until there are `total`. Each owner may run a few at once, so that
 * the quota pauses an older sandbox for most of the starts. Then other operators take over. At the
 * end, what the embedded API server alone takes for ten times as many conversations.
 */
const total = 10_000;
const running = 1_000;
const perSecond = 30;
const owners = 20;
const storedTotal = 100_000;
const nodeName = 'bench-node';

const aConversation = (index: number) => ({
  apiVersion,
  kind: conversations.kind,
  // A UUID of version 4.
  metadata: { name: `00000000000040008000${index.toString(16).padStart(12, '0')}`, namespace },
  spec: { owner: `owner-${index % owners}`, templateName: 'default' },
});

async function startMany(): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), 'bench-'));
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  const server = await openApiServer();
  stack.defer(() => server.close());
  const { client } = server;
  const agentPort = await freePort();
  const node = startChild('fake-node.ts', [server.kubeconfig, nodeName, String(agentPort)]);
  stack.defer(() => node.close());
  await node.line();
  await createDefaults(server, { name: nodeName, agentPort }, running / owners);
  writeFileSync(join(folder, 'master'), randomBytes(32));
  const first = await startOperator(server, folder);
  stack.defer(() => first.stop());

  const created = new Map<string, number>();
  const readyAt = new Map<string, number>();
  let wanted = Infinity;
  const stop = new AbortController();
  stack.defer(() => stop.abort());
  /** Resolves once `wanted` conversations have started. */
  const watch = async () => {
    const { resourceVersion } = await client.list(conversations, { namespace });
    const options = { namespace, resourceVersion, timeoutSeconds: 3600, signal: stop.signal };
    for await (const event of client.watch(conversations, options)) {
      if (event.type === 'BOOKMARK') continue;
      const { metadata, status }: Conversation = event.object;
      if (status?.start?.status === 'ERROR') throw new Error(JSON.stringify(status.start));
      if (status?.start?.status !== 'READY' || readyAt.has(metadata.name)) continue;
      readyAt.set(metadata.name, performance.now());
      if (readyAt.size >= wanted) return;
    }
  };
  /** Starts the conversations from the one number to the other, and waits until all are READY. */
  async function start(from: number, to: number, rate: number): Promise<readonly number[]> {
    readyAt.clear();
    wanted = to - from;
    const watching = watch();
    watching.catch(() => undefined);
    await delay(200);
    const began = performance.now();
    const creating: Promise<unknown>[] = [];
    for (let index = from; index < to; index++) {
      const waitMs = began + ((index - from) * 1000) / rate - performance.now();
      if (waitMs > 0) await delay(waitMs);
      const conversation = aConversation(index);
      created.set(conversation.metadata.name, performance.now());
      creating.push(client.create(conversations, conversation));
    }
    await Promise.all(creating);
    await Promise.race([
      watching,
      delay(120_000, undefined, { signal: stop.signal }).then(
        () => Promise.reject(new Error(`${readyAt.size} of ${wanted} are READY`)),
        () => undefined,
      ),
    ]);
    tookMs = performance.now() - began;
    return [...readyAt].map(([name, at]) => at - (created.get(name) ?? at));
  }
  let tookMs = 0;

  await start(0, running, perSecond);
  const before = { processor: first.processorMs(), requests: await first.requests() };
  const times = await start(running, total, perSecond);
  const count = total - running;
  report({
    what: `on ${server.name}: starts a second, of ${perSecond} for 5 minutes`,
    value: (count * 1000) / tookMs,
    unit: '/s',
    target: { atLeast: perSecond * 0.97 },
  });
  const perStart = (spent: number) => spent / count;
  const processor = perStart(first.processorMs() - before.processor);
  const requests = perStart((await first.requests()) - before.requests);
  report({
    what: 'creation of a conversation to READY, p50',
    value: percentile(times, 0.5),
    unit: 'ms',
  });
  report({
    what: 'creation of a conversation to READY, p99',
    value: percentile(times, 0.99),
    unit: 'ms',
  });
  report({
    what: 'processor of the operator for a start and a pause',
    value: processor,
    unit: 'ms',
  });
  report({ what: 'requests of the operator for both', value: requests, unit: '' });
  await delay(5_000);
  const active = (await client.list(pods, { namespace })).items.length;
  report({
    what: `sandboxes that run, of ${running} allowed`,
    value: active,
    unit: '',
    target: { atMost: running },
  });
  report({
    what: `memory of the operator with ${total.toLocaleString('en')} conversations`,
    value: first.residentMiB(),
    unit: 'MiB',
  });

  let next = total;
  /** Creates a conversation; returns the time at which its sandbox was admitted. */
  async function decision(): Promise<number> {
    const conversation = aConversation(next++);
    const { resourceVersion } = await client.list(sandboxes, { namespace });
    const { uid } = (await client.create(conversations, conversation)).metadata;
    const options = { namespace, resourceVersion, timeoutSeconds: 60, signal: stop.signal };
    for await (const event of client.watch(sandboxes, options)) {
      if (event.type === 'BOOKMARK') continue;
      const { metadata, status }: Sandbox = event.object;
      if (!metadata.ownerReferences?.some((owner) => owner.uid === uid)) continue;
      if (isTrue(status?.conditions, SandboxCondition.admitted)) return performance.now();
    }
    throw new Error('no decision within a minute');
  }

  await first.stop();
  let began = performance.now();
  const deciding = decision();
  const second = await startOperator(server, folder);
  stack.defer(() => second.stop());
  report({
    what: 'restart of the only operator: its first decision, from its launch',
    value: (await deciding) - began,
    unit: 'ms',
    target: { atMost: 3000 },
  });
  const third = await startOperator(server, folder);
  stack.defer(() => third.stop());
  await eventually('the caches of the standby are filled', () => third.isReady());
  began = performance.now();
  const stopping = second.stop();
  report({
    what: 'SIGTERM of the leader: first decision of the standby',
    value: (await decision()) - began,
    unit: 'ms',
    target: { atMost: 2000 },
  });
  await stopping;
  const fourth = await startOperator(server, folder);
  stack.defer(() => fourth.stop());
  await eventually('the caches of the standby are filled', () => fourth.isReady());
  began = performance.now();
  await third.stop('SIGKILL');
  report({
    what: 'SIGKILL of the leader: first decision of the standby',
    value: (await decision()) - began,
    unit: 'ms',
  });
}

async function storeMany(): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const server = await startApiServer('file');
  stack.defer(() => server.close());
  const { client } = server;
  const began = performance.now();
  await inParallel(storedTotal, 64, (index) => client.create(conversations, aConversation(index)));
  report({
    what: `creations a second of ${storedTotal.toLocaleString('en')} conversations, embedded, on SQLite`,
    value: (storedTotal * 1000) / (performance.now() - began),
    unit: '/s',
  });
  const listing = performance.now();
  const { items } = await client.list(conversations, { namespace });
  if (items.length !== storedTotal) throw new Error(`${items.length} are listed`);
  report({ what: 'list of all of them', value: performance.now() - listing, unit: 'ms' });
  const times = await latencies(1000, (index) =>
    client.mergePatch(conversations, namespace, aConversation(index).metadata.name, {
      metadata: { annotations: { at: String(index) } },
    }),
  );
  report({ what: 'patch of one of them, p99', value: percentile(times, 0.99), unit: 'ms' });
}

await startMany();
await storeMany();
