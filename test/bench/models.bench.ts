import { readFileSync } from 'node:fs';
import { setPriority } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { Access } from '../support/models/agent-call.ts';
import { startChild } from './child.ts';
import { percentile, report } from './figure.ts';
import { imageFlags } from './image.ts';
import { call, keptAlive } from './model-calls.ts';

/**
 * The cost of the relay for models, beside calls of the same provider without it in the same run:
 * time to the first byte, throughput and processor of 50 streams, memory, and the calls of an owner
 * beside the flood of another one. Provider, relay, flood and this client are separate processes.
 */
const rounds = Number(process.env['ROUNDS'] ?? 3);
const callsPerRound = 400;
const [streamCount, eventsPerStream] = [50, 250];
const besideMs = 8_000;
/** Processes that stand for other machines take as little as possible of the relay's own machine. */
const politePriority = 19;
const profile = process.env['PROFILE'];

await using stack = new AsyncDisposableStack();
const provider = startChild('models-provider.ts');
stack.defer(() => provider.close());
const providerUrl = `http://127.0.0.1:${await provider.line()}`;
// The servers of two models of a platform do not share a machine, and a flood may fill one of them.
const elsewhere = startChild('models-provider.ts');
stack.defer(() => elsewhere.close());
const elsewhereUrl = `http://127.0.0.1:${await elsewhere.line()}`;
const flags = profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`];
const relay = startChild('models-relay.ts', [providerUrl, elsewhereUrl], [...imageFlags, ...flags]);
stack.defer(() => relay.close());
const { mallory, bob, bobElsewhere } = JSON.parse(await relay.line()) as {
  readonly mallory: readonly Access[];
  readonly bob: Access;
  /** The model of this conversation is at a provider that nothing else calls. */
  readonly bobElsewhere: Access;
};
const direct: Access = { baseUrl: `${providerUrl}/v1`, token: 'none' };
const agent = keptAlive();
stack.defer(() => agent.destroy());

const statOf = (name: string): string => readFileSync(`/proc/${relay.pid}/${name}`, 'utf8');
const clockTicksPerSecond = 100;
function processorSeconds(): number {
  const fields = statOf('stat').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / clockTicksPerSecond;
}
const memoryMiB = (): number => Number(/^VmRSS:\s+(\d+) kB/m.exec(statOf('status'))?.[1]) / 1024;

async function sequential(access: Access): Promise<readonly number[]> {
  const times: number[] = [];
  for (let index = 0; index < callsPerRound; index++)
    times.push((await call(access, {}, { agent })).firstByteMs);
  return times;
}

interface Streams {
  readonly eventsPerSecond: number;
  readonly processorShare: number;
  readonly maxMiB: number;
}

/** Reads 50 streams at once to their end. */
async function streams(access: (index: number) => Access): Promise<Streams> {
  const [beganMs, beganSeconds] = [performance.now(), processorSeconds()];
  let maxMiB = memoryMiB();
  let events = 0;
  const sampling = setInterval(() => (maxMiB = Math.max(maxMiB, memoryMiB())), 100);
  await Promise.all(
    Array.from({ length: streamCount }, (_, index) =>
      call(
        access(index),
        { stream: true, max_tokens: eventsPerStream },
        {
          agent,
          onData: (chunk) => {
            for (let at = chunk.indexOf('\n\n'); at >= 0; at = chunk.indexOf('\n\n', at + 2))
              events += 1;
          },
        },
      ),
    ),
  );
  clearInterval(sampling);
  const seconds = (performance.now() - beganMs) / 1000;
  const processorShare = (processorSeconds() - beganSeconds) / seconds;
  return { eventsPerSecond: events / seconds, processorShare, maxMiB };
}

/** Calls of the other owner, one by one, with little pauses as agents make them. */
async function polite(durationMs: number): Promise<readonly number[]> {
  const times: number[] = [];
  const untilMs = performance.now() + durationMs;
  while (performance.now() < untilMs) {
    const { wholeMs, status } = await call(bobElsewhere, { seed: 50 }, { agent });
    if (status !== 200) throw new Error(`the other owner got ${status}`);
    times.push(wholeMs);
    await delay(10);
  }
  return times;
}

const ofMallory = (index: number): Access => mallory[index % mallory.length] ?? bob;
await sequential(direct);
for (const access of mallory) await sequential(access);

const first = { direct: [] as number[], relayed: [] as number[] };
for (let round = 0; round < rounds; round++) {
  first.direct.push(...(await sequential(direct)));
  first.relayed.push(...(await sequential(bob)));
}
const [before, after] = [percentile(first.direct, 0.5), percentile(first.relayed, 0.5)];
report({ what: 'first byte without the relay, p50', value: before, unit: 'ms' });
report({ what: 'first byte with the relay, p50', value: after, unit: 'ms' });
report({ what: 'added to it', value: after - before, unit: 'ms', target: { atMost: 3 } });

await delay(2_000);
const idleMiB = memoryMiB();
const alone: Streams[] = [];
const relayed: Streams[] = [];
for (let round = 0; round < rounds; round++) {
  alone.push(await streams(() => direct));
  relayed.push(await streams(ofMallory));
}
const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;
const rate = (all: readonly Streams[]) => mean(all.map(({ eventsPerSecond }) => eventsPerSecond));
report({
  what: `events of ${streamCount} streams with the relay, of those without it`,
  value: (rate(relayed) / rate(alone)) * 100,
  unit: '%',
  target: { atLeast: 95 },
});
report({ what: 'events a second with the relay', value: rate(relayed), unit: '' });
report({
  what: 'processor of the relay for them',
  value: mean(relayed.map(({ processorShare }) => processorShare)) * 100,
  unit: '% of one',
  target: { atMost: 25 },
});
report({
  what: 'memory of the relay for them',
  value: Math.max(...relayed.map(({ maxMiB }) => maxMiB)) - idleMiB,
  unit: 'MiB',
  target: { atMost: 40 },
});

setPriority(provider.pid, politePriority);
const quiet: number[] = [];
const beside: number[] = [];
for (let round = 0; round < rounds; round++) {
  quiet.push(...(await polite(besideMs)));
  const flood = startChild('models-flood.ts', [JSON.stringify(mallory)]);
  setPriority(flood.pid, politePriority);
  try {
    await flood.line();
    beside.push(...(await polite(besideMs)));
  } finally {
    await flood.close();
  }
  await delay(2_000);
}
report({ what: 'a call of an owner, alone, p99', value: percentile(quiet, 0.99), unit: 'ms' });
report({
  what: 'beside the flood of another owner, p50',
  value: percentile(beside, 0.5),
  unit: 'ms',
});
report({ what: 'beside it, p99', value: percentile(beside, 0.99), unit: 'ms' });
report({
  what: 'p99 beside it and alone',
  value: percentile(beside, 0.99) / percentile(quiet, 0.99),
  unit: 'times',
  target: { atMost: 2 },
});
report({ what: 'memory of the relay at the end', value: memoryMiB(), unit: 'MiB' });
