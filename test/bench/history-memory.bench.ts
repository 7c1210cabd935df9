import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { conversations } from '../../src/resources/conversation.ts';
import { apiVersion } from '../../src/resources/group.ts';
import { sandboxTemplates } from '../../src/resources/sandbox-template.ts';
import { sandboxes } from '../../src/resources/sandbox.ts';
import { maxDownloadEvents } from '../../src/gateway/history/download.ts';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/free-port.ts';
import { namespace, startApiServer } from './api-server.ts';
import { addArchive, openFolder } from './archived-log.ts';
import { startChild } from './child.ts';
import { report } from './figure.ts';
import { masterKey, startGateway } from './gateway-process.ts';
import { operatorFlags } from './image.ts';
import { createDefaults, startOperator } from './operator-program.ts';
import { addPausedConversations, newKey } from './population.ts';

/**
 * The memory of an operator, as built, that archives a gigabyte of events of one conversation, and
 * of a gateway that serves them, against the same programs with nothing to do. The image lets the
 * heap of a gateway grow far before it is collected, so a second gateway, which is collected early,
 * shows what it needs.
 */
const meanBytes = 1744;
const gigabytes = Number(process.env['GIGABYTES'] ?? 1);
const events = Math.floor((gigabytes * 1e9) / meanBytes);
const pageSize = 100;
const sampleMs = 50;
const idleMs = 15_000;
const atMost = 40;
const nodeName = 'bench-node';

await using stack = new AsyncDisposableStack();
const folder = mkdtempSync(join(tmpdir(), 'bench-'));
stack.defer(() => rmSync(folder, { recursive: true, force: true }));
const server = await startApiServer('memory');
stack.defer(() => server.close());
const { client } = server;
const agentPort = await freePort();
const node = startChild('fake-node.ts', [
  ...[server.kubeconfig, nodeName, String(agentPort)],
  ...[String(events), '0'],
]);
stack.defer(() => node.close());
await node.line();
await createDefaults(server, { name: nodeName, agentPort }, 10);
await client.mergePatch(sandboxTemplates, namespace, 'default', {
  spec: { archive: { enabled: true, maxBytes: 2 ** 40 } },
});
writeFileSync(join(folder, 'master'), masterKey);
const key = await newKey(client);
const { store, env } = openFolder(join(folder, 'archive'));

/** By how many MiB the memory of a process exceeds that of before, at its maximum. */
async function growth(residentMiB: () => number, work: () => Promise<unknown>): Promise<number> {
  const before = residentMiB();
  let max = before;
  const watch = setInterval(() => (max = Math.max(max, residentMiB())), sampleMs);
  try {
    await work();
  } finally {
    clearInterval(watch);
  }
  process.stderr.write(`  from ${before.toFixed(0)} to ${max.toFixed(0)} MiB\n`);
  return max - before;
}

const name = '000000000000400080000000000000aa';

async function archiveAll(): Promise<void> {
  await client.create(conversations, {
    apiVersion,
    kind: conversations.kind,
    metadata: { name, namespace },
    spec: {
      owner: 'alice',
      templateName: 'default',
      initialMessage: { role: 'user', run: true, content: [{ type: 'text', text: 'Work.' }] },
    },
  });
  await eventually(
    'the archive has all events',
    async () => {
      await delay(1000);
      const { status } = await client.get(conversations, namespace, name);
      return status?.archive?.events === events;
    },
    900_000,
  );
}

const operator = await startOperator(server, folder, env);
stack.defer(() => operator.stop());
await delay(idleMs);
const began = performance.now();
const what = `${gigabytes} GB of events of a conversation`;
report({
  what: `${what}: more memory of the operator`,
  value: await growth(() => operator.residentMiB(), archiveAll),
  unit: 'MiB',
  target: { atMost },
});
report({ what: `${what}: archived in`, value: (performance.now() - began) / 1000, unit: 's' });
const { status } = await client.get(conversations, namespace, name);
await client.mergePatch(sandboxes, namespace, status?.sandboxName ?? '', { spec: { replicas: 0 } });
await eventually('the sandbox is paused', async () => {
  const { status: paused } = await client.get(sandboxes, namespace, status?.sandboxName ?? '');
  // Until the end of the stop, the agent answers.
  return paused?.phase === 'PAUSED' && paused.containerID === undefined;
});
await operator.stop();

const [part = ''] = await addPausedConversations(client, 1);
await addArchive(client, store, { id: part, events: maxDownloadEvents });
type Get = (path: string) => Promise<Response>;

const getFrom =
  (port: number): Get =>
  async (path) => {
    const answer = await fetch(`http://127.0.0.1:${port}/api/v1/${path}`, {
      headers: { authorization: `Bearer ${key}` },
    });
    if (!answer.ok) throw new Error(await answer.text());
    return answer;
  };

async function pageThrough(get: Get): Promise<void> {
  let read = 0;
  for (let page: string | null = ''; page !== null;) {
    const answer = await get(
      `conversation/${name}/events/search?limit=${pageSize}${page === '' ? '' : `&page_id=${encodeURIComponent(page)}`}`,
    );
    const { items, next_page_id: next } = (await answer.json()) as {
      readonly items: readonly unknown[];
      readonly next_page_id: string | null;
    };
    read += items.length;
    page = next;
  }
  if (read !== events) throw new Error(`${read} events in place of ${events}`);
}

async function countKinds(get: Get): Promise<void> {
  const count = async (query: string): Promise<number> =>
    (await (await get(`conversation/${name}/events/count?${query}`)).json()) as number;
  const kinds = ['ActionEvent', 'ObservationEvent', 'MessageEvent', 'CondensationEvent'];
  let sum = 0;
  for (const kind of kinds) sum += await count(`kind__eq=${kind}`);
  if (sum !== events) throw new Error(`${sum} events in place of ${events}`);
}

async function download(get: Get): Promise<void> {
  const answer = await get(`app-conversations/${part}/download`);
  const chunks: AsyncIterable<Uint8Array> | null = answer.body;
  if (chunks === null) throw new Error('no download');
  let bytes = 0;
  for await (const chunk of chunks) bytes += chunk.length;
  process.stderr.write(`  ${bytes} bytes of a download\n`);
}

const leavers = 200;

/** Clients that leave a download after its first bytes. */
async function leave(get: Get): Promise<void> {
  for (let left = 0; left < leavers; left++) {
    const { body } = await get(`app-conversations/${part}/download`);
    const reader = body?.getReader();
    await reader?.read();
    await reader?.cancel();
  }
  await delay(1000);
}

const parts: readonly (readonly [string, (get: Get) => Promise<void>])[] = [
  [`all pages of ${pageSize}`, pageThrough],
  ['counts of the kinds', countKinds],
  [`download of ${maxDownloadEvents} events`, download],
  [`${leavers} downloads that their clients leave`, leave],
];

async function measureGateway(kind: string, flags: readonly string[], bounds: object) {
  const gateway = await startGateway(server, env, { flags });
  try {
    await delay(idleMs);
    const resident = () => gateway.memoryMiB();
    const idle = resident();
    const idleFiles = gateway.openFiles();
    for (const [which, work] of parts) {
      const before = resident();
      const partBegan = performance.now();
      const more = await growth(resident, () => work(getFrom(gateway.port)));
      const value = before - idle + more;
      report({ what: `${what}: more memory of ${kind}, ${which}`, value, unit: 'MiB', ...bounds });
      const seconds = (performance.now() - partBegan) / 1000;
      report({ what: `${what}: time of ${which}`, value: seconds, unit: 's' });
    }
    report({
      what: `${what}: more open files of ${kind} at the end`,
      value: gateway.openFiles() - idleFiles,
      unit: 'files',
      target: { atMost: 20 },
    });
  } finally {
    await gateway.close();
  }
}

await measureGateway('a gateway', [], {});
const early = operatorFlags.filter((flag) => flag.startsWith('--heap-growing-percent='));
await measureGateway('a gateway that is collected early', early, { target: { atMost } });
