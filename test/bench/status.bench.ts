import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { freemem, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../support/free-port.ts';
import { kubectl } from '../support/kubectl.ts';
import { RestUser } from '../support/rest-user.ts';
import { SplitInstallation } from '../support/split-installation.ts';
import { inParallel } from './api-server.ts';
import { percentile, report } from './figure.ts';

/**
 * 200 conversations that run in the reference agent, the operator and a gateway in processes of
 * their own: what following them costs the operator, and how long a change takes until a client
 * sees it. Each run waits for a FIFO, so that it ends when the bench says so.
 */
const runs = Number(process.env['RUNS'] ?? 200);
const changes = 60;
const betweenChangesMs = 400;
/** Until the operator asks as rarely as it ever does, and has written what could wait. */
const calmMs = 80_000;
const quietMs = 30_000;
const clockTicksPerSecond = 100;
/** Memory of a process of the reference agent, with the shell of its run. */
const agentBytes = 60 * 1024 * 1024;
const lease = {
  LEASE_DURATION_SECONDS: '15',
  LEASE_RENEW_DEADLINE_SECONDS: '10',
  LEASE_RETRY_PERIOD_SECONDS: '2',
};

interface Part {
  readonly name: string;
  readonly perSandbox: number;
  readonly webhooks: boolean;
  readonly atMostMs: number;
}

const parts: readonly Part[] = [
  { name: `${runs} runs, 10 a sandbox, webhooks`, perSandbox: 10, webhooks: true, atMostMs: 1000 },
  {
    name: `${runs} runs, 10 a sandbox, no webhooks`,
    perSandbox: 10,
    webhooks: false,
    atMostMs: 5000,
  },
  {
    name: `${runs} runs, each in a process of its own, webhooks`,
    perSandbox: 1,
    webhooks: true,
    atMostMs: 1000,
  },
  {
    name: `${runs} runs, each in a process of its own, no webhooks`,
    perSandbox: 1,
    webhooks: false,
    atMostMs: 5000,
  },
];

/** Seconds of processor that the process has used so far. */
function processorSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / clockTicksPerSecond;
}

async function measure({ name, perSandbox, webhooks, atMostMs }: Part): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-status-'));
  const fifos = join(folder, 'fifos');
  mkdirSync(fifos);
  const fifo = (index: number) => join(fifos, String(index));
  execFileSync(
    'mkfifo',
    Array.from({ length: runs }, (_, index) => fifo(index)),
  );
  const metricsPort = await freePort();
  const up = await SplitInstallation.start(folder, { webhooks });
  const user = new RestUser(up);
  try {
    const operator = 'one';
    up.addOperator(operator, { ...lease, METRICS_PORT: String(metricsPort) });
    const pid = up.pidOf(operator);
    const limit = JSON.stringify({ spec: { limit: runs, maxSandboxes: runs } });
    await kubectl(up.kubeconfig, [
      'patch',
      'conversationquotas',
      'default',
      '--type',
      'merge',
      '-p',
      limit,
    ]);

    const message = (index: number) => `\`\`\`sh\ncat ${fifo(index)}\n\`\`\``;
    const begin = async (index: number, more: object = {}) => {
      const { id } = await user.start(message(index), more);
      const task = await user.over(id, 300_000);
      if (task.status !== 'READY') throw new Error(task.error ?? 'no READY');
      return { id: task.app_conversation_id ?? '', sandbox_id: task.sandbox_id ?? '' };
    };
    const ids = new Map<number, string>();
    const sandboxes: string[] = [];
    await inParallel(runs / perSandbox, 8, async (index) => {
      const { id, sandbox_id } = await begin(index);
      ids.set(index, id);
      sandboxes.push(sandbox_id);
    });
    const first = runs / perSandbox;
    await inParallel(runs - first, 8, async (index) => {
      ids.set(
        first + index,
        (await begin(first + index, { sandbox_id: sandboxes[index % first] })).id,
      );
    });
    const idOf = (index: number): string => ids.get(index) ?? '';
    for (let index = 0; index < runs; index++)
      await user.reaches(idOf(index), { execution_status: 'running' }, 60_000);

    const statusWrites = async () => {
      const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
      const lines = text
        .split('\n')
        .filter((line) => line.includes('kube_api_calls_total{') && line.includes('verb="patch"'));
      return lines
        .filter((line) => line.includes('"conversations'))
        .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
    };
    const during = async (work: () => Promise<unknown>) => {
      const before = {
        seconds: processorSeconds(pid),
        writes: await statusWrites(),
        at: performance.now(),
      };
      await work();
      const share =
        ((processorSeconds(pid) - before.seconds) * 100_000) / (performance.now() - before.at);
      return { share, writes: (await statusWrites()) - before.writes };
    };

    await delay(calmMs);
    const quiet = await during(() => delay(quietMs));
    report({
      what: `${name}: operator's processor, nothing changes`,
      value: quiet.share,
      unit: '% of one',
      target: { atMost: 5 },
    });
    report({
      what: `${name}: status writes in ${quietMs / 1000} s then`,
      value: quiet.writes,
      unit: 'writes',
      target: { atMost: 0 },
    });

    const seenAt = new Map<number, number>();
    const waiting = new Set<number>();
    const state = { isOver: false };
    const client = (async () => {
      while (!state.isOver || waiting.size > 0) {
        const asked = [...waiting];
        if (asked.length > 0) {
          const { body } = await user.call(
            'GET',
            `/api/v1/app-conversations?ids=${asked.map(idOf).join('&ids=')}`,
          );
          const now = Date.now();
          for (const record of body as readonly {
            readonly id: string;
            readonly execution_status: string | null;
          }[]) {
            const index = asked.find((each) => idOf(each) === record.id);
            if (index === undefined || record.execution_status !== 'finished') continue;
            seenAt.set(index, now);
            waiting.delete(index);
          }
        }
        await delay(20);
      }
    })();
    const busy = await during(async () => {
      for (let change = 0; change < changes; change++) {
        // Spread over sandboxes.
        const index = (change * 37) % runs;
        waiting.add(index);
        const end = await open(fifo(index), 'w');
        await end.close();
        await delay(betweenChangesMs);
      }
      state.isOver = true;
      await client;
    });
    report({
      what: `${name}: operator's processor, 2.5 changes/s`,
      value: busy.share,
      unit: '% of one',
      target: { atMost: 5 },
    });
    report({
      what: `${name}: status writes a change`,
      value: busy.writes / changes,
      unit: 'writes',
      target: { atMost: 1 },
    });
    const logs = new Map(
      logsBelow(join(folder, 'node')).map((path) => [path.split('/').at(-2) ?? '', path]),
    );
    const tookMs = [...seenAt].map(([index, at]) => at - finishedAt(logs.get(idOf(index)) ?? ''));
    report({ what: `${name}: change until GET, p50`, value: percentile(tookMs, 0.5), unit: 'ms' });
    report({
      what: `${name}: change until GET, p99 of ${changes}`,
      value: percentile(tookMs, 0.99),
      unit: 'ms',
      target: { atMost: atMostMs },
    });
  } finally {
    await up.stop();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

const logsBelow = (folder: string): readonly string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('/events.jsonl'))
    .map((path) => join(folder, path));

/** By the agent's own record. Its times are UTC, without a zone. */
function finishedAt(path: string): number {
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
  const events = lines.map(
    (line) =>
      (JSON.parse(line) as { event: { key?: string; value?: unknown; timestamp: string } }).event,
  );
  const last = events.findLast(
    ({ key, value }) => key === 'execution_status' && value === 'finished',
  );
  return Date.parse(`${last?.timestamp ?? ''}Z`);
}

const only = process.env['PART'];
for (const part of parts.filter((_, index) => only === undefined || Number(only) === index)) {
  const needed = (runs / part.perSandbox) * agentBytes;
  if (freemem() < needed + 2 * 1024 ** 3) {
    process.stderr.write(
      `  left out, for want of ${Math.round(needed / 1024 ** 3)} GiB of free memory: ${part.name}\n`,
    );
    continue;
  }
  await measure(part);
}
