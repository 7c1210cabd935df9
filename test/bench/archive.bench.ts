import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { conversations } from '../../src/resources/conversation.ts';
import { apiVersion } from '../../src/resources/group.ts';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/free-port.ts';
import { inParallel, namespace, startApiServer } from './api-server.ts';
import { startChild } from './child.ts';
import { report } from './figure.ts';
import { startGateway } from './gateway-process.ts';
import { createDefaults, startOperator } from './operator-program.ts';

/**
 * Agents that work: what it costs an operator and a gateway, as built, to archive their events. The
 * same agents are measured without an archive first, with the processor time of the same programs.
 */
const agents = Number(process.env['AGENTS'] ?? 200);
const eventsPerSecond = 5;
const windowMs = Number(process.env['WINDOW_MS'] ?? 60_000);
const windows = 3;
/** Minimum share of the events of a window that are archived in it, as long as none wait. */
const minShare = 0.85;
/** Time until the archive has the earlier events, and reads come at their interval. */
const settleMs = 75_000;
const nodeName = 'bench-node';
const mebibyte = 1024 * 1024;

await using stack = new AsyncDisposableStack();
const folder = mkdtempSync(join(tmpdir(), 'bench-'));
stack.defer(() => rmSync(folder, { recursive: true, force: true }));
const server = await startApiServer('memory');
stack.defer(() => server.close());
const { client } = server;
const agentPort = await freePort();
const node = startChild('fake-node.ts', [
  ...[server.kubeconfig, nodeName, String(agentPort)],
  ...['0', String(eventsPerSecond)],
]);
stack.defer(() => node.close());
await node.line();
await createDefaults(server, { name: nodeName, agentPort }, agents);
writeFileSync(join(folder, 'master'), randomBytes(32));
const archive = join(folder, 'archive');
mkdirSync(archive);

const createConversation = (index: number) =>
  client.create(conversations, {
    apiVersion,
    kind: conversations.kind,
    metadata: { name: `00000000000040008000${index.toString(16).padStart(12, '0')}`, namespace },
    spec: {
      owner: `owner-${index % 20}`,
      templateName: 'default',
      initialMessage: { role: 'user', run: true, content: [{ type: 'text', text: 'Work.' }] },
    },
  });

interface Spent {
  /** Processor time of both programs, in percent of a core. */
  readonly percent: number;
  readonly operatorPercent: number;
  readonly puts: number;
  readonly events: number;
  readonly bytes: number;
  readonly seconds: number;
}

/**
 * Runs both programs, and measures them in windows, of which the cheapest one counts. A window in
 * which the archive falls behind counts only where all do.
 */
async function measure(env: Readonly<Record<string, string>>): Promise<Spent> {
  const operator = await startOperator(server, folder, env);
  const gateway = await startGateway(server, env);
  try {
    await eventually(
      'all conversations have started',
      async () => {
        const { items } = await client.list(conversations, { namespace });
        const failed = items.find(({ status }) => status?.start?.status === 'ERROR');
        if (failed !== undefined) throw new Error(JSON.stringify(failed.status?.start));
        return items.filter(({ status }) => status?.start?.status === 'READY').length === agents;
      },
      180_000,
    );
    await delay(settleMs);
    const state = async () => ({
      at: performance.now(),
      operator: operator.processorMs(),
      gateway: gateway.processorSeconds() * 1000,
      puts: await operator.metric('archive_store_requests_total', (labels) =>
        labels.includes('operation="put"'),
      ),
      bytes: await operator.metric('archive_store_bytes_total', (labels) =>
        labels.includes('operation="put"'),
      ),
      events: await operator.metric('archived_events_total'),
    });
    const spent: Spent[] = [];
    for (let window = 0; window < windows; window++) {
      const before = await state();
      await delay(windowMs);
      const after = await state();
      const ms = after.at - before.at;
      const operatorMs = after.operator - before.operator;
      spent.push({
        percent: (100 * (operatorMs + after.gateway - before.gateway)) / ms,
        operatorPercent: (100 * operatorMs) / ms,
        puts: after.puts - before.puts,
        events: after.events - before.events,
        bytes: after.bytes - before.bytes,
        seconds: ms / 1000,
      });
    }
    const isWhole = ({ events, seconds }: Spent): boolean =>
      events >= minShare * agents * eventsPerSecond * seconds;
    const whole = spent.filter((each) => !('ARCHIVE_DIR' in env) || isWhole(each));
    const [best] = (whole.length > 0 ? whole : spent).toSorted(
      (one, other) => one.percent - other.percent,
    );
    if (best === undefined) throw new Error('nothing was measured');
    return best;
  } finally {
    await operator.stop();
    await gateway.close();
  }
}

await inParallel(agents, 8, createConversation);
const without = await measure({});
const archiving = await measure({ ARCHIVE_DIR: archive });

const what = `${agents} agents, ${eventsPerSecond} events/s each`;
report({ what: `${what}: without an archive`, value: without.percent, unit: '% of one' });
report({ what: `${what}: with an archive`, value: archiving.percent, unit: '% of one' });
report({
  what: `${what}: of these, the operator`,
  value: archiving.operatorPercent,
  unit: '% of one',
});
report({
  what: `${what}: operator and gateway, for the archive`,
  value: archiving.percent - without.percent,
  unit: '% of one',
  target: { atMost: 15 },
});
const expected = agents * eventsPerSecond * archiving.seconds;
report({
  what: `${what}: archived events, of those that came meanwhile`,
  value: (100 * archiving.events) / expected,
  unit: '%',
  target: { atLeast: 100 * minShare },
});
const meanBytes = 1744;
const allowed = (archiving.events * meanBytes) / mebibyte + (agents * (archiving.seconds + 2)) / 28;
report({
  what: `${what}: puts, of one per MiB and one per 28 s and agent`,
  value: (100 * archiving.puts) / allowed,
  unit: '%',
  target: { atMost: 100 },
});
report({
  what: `${what}: bytes written, of those of the events`,
  value: (100 * archiving.bytes) / (archiving.events * meanBytes),
  unit: '%',
});
