import { randomUUID } from 'node:crypto';
import { setPriority } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import { issueKey } from '../../src/gateway/auth/key.ts';
import { conversations } from '../../src/resources/conversation.ts';
import { conversationQuotas } from '../../src/resources/conversation-quota.ts';
import { apiVersion } from '../../src/resources/group.ts';
import { newUuid } from '@conversation-operator/base/uuid';
import { inParallel, startApiServer, namespace } from './api-server.ts';
import { startChild } from './child.ts';
import { percentile, report } from './figure.ts';
import { startGateway } from './gateway-process.ts';
import { load } from './http-load.ts';
import type { Attack } from './neighbour-attack.ts';
import { addSandbox, addTemplate, sessionKeyIn } from './population.ts';

/**
 * One owner does its worst with ten keys while another one reads and starts: what that costs the
 * other one, by its own figures a moment before and after. The gateway has the settings and the
 * memory that the chart gives it.
 */
const stored = Number(process.env['OBJECTS'] ?? 1000);
const storedTextLength = Number(process.env['TEXT'] ?? 32_768);
const memoryMiB = 512;
const phaseMs = 12_000;
const rounds = Number(process.env['ROUNDS'] ?? 3);
const politePriority = 19;
const attackMs = 20_000;
const limits = {
  RATE_LIMIT_READS: '1000',
  RATE_LIMIT_WRITES: '100',
  RATE_LIMIT_FAILED_KEYS: '120',
  MAX_CONNECTIONS: '5000',
  MAX_CONNECTIONS_PER_ADDRESS: '1000',
  MAX_REQUESTS: '2000',
  OVERLOAD_DELAY_MS: '500',
  PROXY_CONNECTIONS_PER_SANDBOX: '256',
};

await using stack = new AsyncDisposableStack();
const server = await startApiServer('memory');
stack.defer(() => server.close());
const { client } = server;
await addTemplate(client);
const agents = startChild('neighbour-agents.ts');
stack.defer(() => agents.close());
// Both represent other machines: they are to take as little as possible of the gateway's own
// machine.
setPriority(agents.pid, politePriority);
const agentPort = Number(await agents.line());

const keysOf = (owner: string, count: number) =>
  Promise.all(
    Array.from({ length: count }, async () => (await issueKey({ client, namespace, owner })).key),
  );
const [key = ''] = await keysOf('bob', 1);
const keys = await keysOf('mallory', 10);
await client.create(conversationQuotas, {
  apiVersion,
  kind: 'ConversationQuota',
  metadata: { namespace, name: 'default' },
  spec: {
    scope: 'Owner',
    limit: 10,
    onExceeded: 'PauseOldest',
    minActiveSeconds: 0,
    autoResume: 'All',
    maxConversations: stored + 5_000,
    maxStoredBytes: (stored + 500) * storedTextLength * 2,
    maxSandboxes: stored + 5_000,
  },
});

/** Adds conversations whose start is over, each in one of these sandboxes. */
async function addConversations(
  owner: string,
  count: number,
  text: string,
  sandboxNames: readonly string[],
): Promise<readonly string[]> {
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
        initialMessage: { role: 'user', content: [{ type: 'text', text }], run: true },
      },
    });
    const time = '2026-03-01T12:00:04Z';
    const status = {
      start: { status: 'READY' as const, transitions: [{ status: 'READY' as const, time }] },
      sandboxName: sandboxNames[index % sandboxNames.length] ?? '',
      sandboxStatus: 'RUNNING' as const,
      executionStatus: 'running' as const,
    };
    await client.mergePatch(conversations, namespace, id, { status }, { subresource: 'status' });
  });
  return ids;
}

const sandboxNames = Array.from({ length: 6 }, (_, index) => `sbx-mallory-${index}`);
const sandboxes = await Promise.all(
  sandboxNames.map(async (name) => {
    const sandbox = await addSandbox(client, name, '127.0.0.1', agentPort, 'mallory');
    return { name, sessionKey: await sessionKeyIn(client, sandbox, keys[0] ?? '') };
  }),
);
await addSandbox(client, 'sbx-bob', '127.0.0.1', agentPort, 'bob');
const ids = await addConversations('mallory', stored, 'x'.repeat(storedTextLength), sandboxNames);
const own = await addConversations('bob', 50, 'Say hello.', ['sbx-bob']);

const gateway = await startGateway(server, limits, { memoryMiB });
stack.defer(() => gateway.close());
const { port } = gateway;

const head = (line: string) =>
  `${line} HTTP/1.1\r\nHost: gateway.example\r\nAuthorization: Bearer ${key}\r\nAccept: application/json\r\n`;
const base = '/api/v1/app-conversations';
const reading = (turn: number): string =>
  `${head(turn % 2 === 0 ? `GET ${base}/search?limit=20` : `GET ${base}?ids=${own[turn % own.length] ?? ''}`)}\r\n`;
const starting = (): string => {
  const body = JSON.stringify({
    title: randomUUID(),
    initial_message: { content: [{ type: 'text', text: 'Say hello.' }] },
  });
  return `${head(`POST ${base}`)}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
};

interface Times {
  readonly reads: number[];
  readonly starts: number[];
  /** The answers other than success, or `closed`. */
  readonly refused: string[];
}
const nothing = (): Times => ({ reads: [], starts: [], refused: [] });

/** Reads and starts of another owner, one by one, with little pauses as clients make them. */
async function measure(into: Times): Promise<void> {
  const until = performance.now() + phaseMs;
  const repeat = async (
    kind: 'reads' | 'starts',
    request: (turn: number) => string,
    pauseMs: number,
  ) => {
    while (performance.now() < until) {
      const onRefusal = (answer: string) =>
        void into.refused.push(answer.slice(0, answer.indexOf('\r\n')));
      const durationMs = until - performance.now();
      const { latencies } = await load({
        port,
        request,
        connections: 1,
        durationMs,
        pauseMs,
        onRefusal,
      });
      into[kind].push(...latencies);
    }
  };
  await Promise.all([repeat('reads', reading, 10), repeat('starts', starting, 50)]);
}

const attack = { port, keys, conversations: ids, sandboxes } satisfies Attack;
const alone = nothing();
const beside = nothing();
let answered = '';
await measure(nothing());
for (let round = 0; round < rounds; round++) {
  await measure(alone);
  const attacker = startChild('neighbour-attack.ts', [JSON.stringify(attack)]);
  setPriority(attacker.pid, politePriority);
  await using ending = new AsyncDisposableStack();
  ending.defer(() => attacker.close());
  const listening = (async () => {
    for (;;) answered = await attacker.line();
  })().catch(() => undefined);
  await delay(attackMs - phaseMs);
  await measure(beside);
  await ending.disposeAsync();
  await listening;
  // Every connection of the attack is closed in this time.
  await delay(3000);
}

for (const kind of ['reads', 'starts'] as const) {
  const [before, during] = [alone[kind], beside[kind]].map((times) => percentile(times, 0.99));
  report({ what: `${kind}, alone, p99`, value: before ?? NaN, unit: 'ms' });
  report({
    what: `${kind}, beside the worst of another owner, p50`,
    value: percentile(beside[kind], 0.5),
    unit: 'ms',
  });
  report({
    what: `${kind}, beside it, p99`,
    value: during ?? NaN,
    unit: 'ms',
    ...(kind === 'reads' ? { target: { atMost: 25 } } : {}),
  });
  report({
    what: `${kind}, p99 beside it and alone`,
    value: (during ?? NaN) / (before ?? NaN),
    unit: 'times',
    target: { atMost: 2 },
  });
}
report({
  what: 'refused to the other owner',
  value: beside.refused.length,
  unit: '',
  target: { atMost: 0 },
});
report({
  what: 'memory of the gateway at most',
  value: gateway.maxMemoryMiB(),
  unit: 'MiB',
  target: { atMost: memoryMiB },
});
if (process.env['VERBOSE'] !== undefined)
  process.stderr.write(
    `${answered.replaceAll(',', '\n')}\n${[...new Set(beside.refused)].join()}\n`,
  );
