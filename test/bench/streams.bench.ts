import { setPriority } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { issueKey } from '../../src/gateway/auth/key.ts';
import { conversations } from '../../src/resources/conversation.ts';
import { apiVersion } from '../../src/resources/group.ts';
import { newUuid } from '@conversation-operator/base/uuid';
import { inParallel, startApiServer, namespace } from './api-server.ts';
import { startChild } from './child.ts';
import { percentile, report } from './figure.ts';
import { startGateway } from './gateway-process.ts';
import { load } from './http-load.ts';
import { addTemplate } from './population.ts';

/**
 * 500 open streams of two owners while conversations of these change: what the streams take of the
 * gateway's memory, and what they cost the reads of another owner, by its own figures without them.
 */
const streamCount = 500;
const owners = ['alice', 'mallory'];
const keysPerOwner = 5;
const stored = Number(process.env['OBJECTS'] ?? 1000);
const changesPerSecond = 30;
const phaseMs = 12_000;
const rounds = Number(process.env['ROUNDS'] ?? 3);
const politePriority = 19;
/** As the chart gives it. */
const memoryMiB = 512;

await using stack = new AsyncDisposableStack();
const server = await startApiServer('memory');
stack.defer(() => server.close());
const { client } = server;
await addTemplate(client);

async function addConversations(owner: string, count: number): Promise<readonly string[]> {
  const ids = Array.from({ length: count }, (_, index) => newUuid(Date.now() + index));
  await inParallel(count, 16, async (index) => {
    const id = ids[index] ?? '';
    await client.create(conversations, {
      apiVersion,
      kind: 'Conversation',
      metadata: { namespace, name: id },
      spec: {
        owner,
        templateName: 'default',
        title: `The ${index}th`,
        initialMessage: {
          role: 'user',
          content: [{ type: 'text', text: 'Say hello.' }],
          run: true,
        },
      },
    });
    const time = '2026-03-01T12:00:04Z';
    const status = {
      start: { status: 'READY' as const, transitions: [{ status: 'READY' as const, time }] },
      sandboxStatus: 'PAUSED' as const,
    };
    await client.mergePatch(conversations, namespace, id, { status }, { subresource: 'status' });
  });
  return ids;
}

const changing: string[] = [];
const keys: string[] = [];
for (const owner of owners) {
  changing.push(...(await addConversations(owner, stored)));
  for (let index = 0; index < keysPerOwner; index++)
    keys.push((await issueKey({ client, namespace, owner })).key);
}
const own = await addConversations('bob', 50);
const { key } = await issueKey({ client, namespace, owner: 'bob' });
const gateway = await startGateway(server, {}, { memoryMiB });
stack.defer(() => gateway.close());

const over = new AbortController();
let changes = 0;
/** Changes conversations of the owners with streams, as an operator does. */
const change = (async () => {
  const began = performance.now();
  while (!over.signal.aborted) {
    for (const due = ((performance.now() - began) * changesPerSecond) / 1000; changes < due;) {
      const id = changing[(changes * 7919) % changing.length] ?? '';
      changes += 1;
      const status = { title: `Change ${changes}` };
      await client.mergePatch(conversations, namespace, id, { status }, { subresource: 'status' });
    }
    await delay(5);
  }
})();
stack.defer(async () => {
  over.abort();
  await change;
});

const base = '/api/v1/app-conversations';
const reading = (turn: number): string =>
  `GET ${turn % 2 === 0 ? `${base}/search?limit=20` : `${base}?ids=${own[turn % own.length] ?? ''}`} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n\r\n`;
const measure = async (into: number[]) => {
  const { latencies } = await load({
    port: gateway.port,
    request: reading,
    connections: 1,
    durationMs: phaseMs,
    pauseMs: 5,
  });
  into.push(...latencies);
};

const [alone, beside]: [number[], number[]] = [[], []];
const opened: number[] = [];
/** Growth of the memory in each round. */
const memory: number[] = [];
let [sent, processorShare] = [0, 0];
await measure([]);
const before = gateway.memoryMiB();
for (let round = 0; round < rounds; round++) {
  await measure(alone);
  const began = performance.now();
  await using clients = new AsyncDisposableStack();
  const readers = startChild('stream-clients.ts', [
    String(gateway.port),
    String(streamCount / keys.length),
    ...keys,
  ]);
  setPriority(readers.pid, politePriority);
  clients.defer(() => readers.close());
  await readers.line();
  opened.push(performance.now() - began);
  let maxMiB = 0;
  const sampling = setInterval(() => {
    maxMiB = Math.max(maxMiB, gateway.memoryMiB());
  }, 250);
  const secondsBefore = gateway.processorSeconds();
  await measure(beside);
  processorShare = Math.max(
    processorShare,
    ((gateway.processorSeconds() - secondsBefore) * 1000) / phaseMs,
  );
  clearInterval(sampling);
  memory.push(maxMiB);
  sent = Number(await readers.line());
  await clients.disposeAsync();
  await delay(2000);
}

const [without, withThem] = [alone, beside].map((times) => percentile(times, 0.99));
report({
  what: `${streamCount} streams, all have ${stored} conversations`,
  value: Math.max(...opened),
  unit: 'ms',
});
report({ what: 'events of conversations in a round', value: sent, unit: '' });
report({
  what: 'processor of the gateway meanwhile, with the reads',
  value: processorShare,
  unit: 'cores',
});
report({
  what: 'memory with the streams beyond that without',
  value: (memory[0] ?? NaN) - before,
  unit: 'MiB',
  target: { atMost: 80 },
});
report({
  what: `memory beyond that, all streams opened ${rounds} times`,
  value: Math.max(...memory) - before,
  unit: 'MiB',
});
report({ what: 'reads of another owner without streams, p99', value: without ?? NaN, unit: 'ms' });
report({ what: 'reads of another owner beside them, p99', value: withThem ?? NaN, unit: 'ms' });
report({
  what: 'p99 beside them and without',
  value: (withThem ?? NaN) / (without ?? NaN),
  unit: 'times',
  target: { atMost: 2 },
});
