/*
 * Runs seeds of the simulation. Options that add to the world, and to its checks:
 *
 * --messages   messages and answers, some twice, late or with nonsense. The agent executes what
 *              people have approved, and gets each message once.
 * --retention  the operator deletes what it may, and by when it must.
 * --pools      a warm sandbox goes to one conversation, only a claimed one gets keys, no owner is
 *              charged for it, and no owner waits while it holds a slot.
 * --tenant     a hostile tenant writes metadata that admission would refuse. No text of an owner
 *              reaches another's sandbox; a start whose sandbox name is taken continues or shows a
 *              reason within 5 s.
 * --shards N   N namespaces in N shards, with several operators. Shards are spread evenly, and only
 *              the leader of a shard writes.
 * --busy       with shards: a thousand sandboxes at once in a namespace. The first decision of
 *              another namespace comes within 2 s.
 * --focus F    more of one situation: pods that wait for quotas and nodes (gates), or calls
 *              (questions, late answers).
 */
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { Worker, isMainThread, parentPort } from 'node:worker_threads';
import { faultKinds, type FaultKind } from './faults.ts';
import { focusNames, type Focus } from './focus.ts';
import { replayCommand, simulate, type Outcome } from './simulation.ts';
import type { SimulationOptions } from './stage.ts';
import { worlds, type World } from './world.ts';

type Options = Omit<SimulationOptions, 'seed' | 'keepLines' | 'ends'>;
type Job = Options & Pick<SimulationOptions, 'seed'>;

const report = (outcome: Outcome): string =>
  `seed ${outcome.seed}: ${outcome.failure?.message ?? 'clean'}; ${outcome.steps} steps, ${(outcome.durationMs / 1000).toFixed(1)} s of its time, hash ${outcome.hash}\n`;

/** Runs one seed, and prints everything that happens in it. */
async function replay(job: Job, keepLines: number): Promise<boolean> {
  const outcome = await simulate({ ...job, keepLines });
  process.stdout.write(`${outcome.lines.join('\n')}\n${report(outcome)}${replayCommand(job)}\n`);
  return outcome.failure === undefined;
}

interface Batch {
  readonly first: number;
  readonly count: number;
  readonly workers: number;
  readonly options: Options;
  readonly keepGoing: boolean;
}

/**
 * Maximum number of seeds of one worker. A simulated process that is killed never ends its calls,
 * and Node keeps every `AbortSignal.any` that has a listener, with all that the listener holds,
 * until it is aborted: about 1 MiB a seed.
 */
const seedsPerWorker = 100;

/** Runs seeds over several workers until one fails, unless `keepGoing`; shows how to replay it. */
async function runMany({ first, count, workers, options, keepGoing }: Batch): Promise<boolean> {
  const began = performance.now();
  const failed: Outcome[] = [];
  let next = first;
  let done = 0;
  let steps = 0;
  const seconds = () => (performance.now() - began) / 1000;
  const over = () => next >= first + count || (failed.length > 0 && !keepGoing);
  const take = (outcome: Outcome) => {
    done++;
    steps += outcome.steps;
    if (outcome.failure !== undefined) {
      failed.push(outcome);
      process.stdout.write(
        `${report(outcome)}  ${replayCommand({ ...options, seed: outcome.seed })}\n`,
      );
    }
    if (done % 500 === 0)
      process.stdout.write(
        `${done} of ${count} seeds, ${failed.length} failed, ${seconds().toFixed(0)} s\n`,
      );
  };
  const runSome = () =>
    new Promise<void>((resolve, reject) => {
      const worker = new Worker(new URL(import.meta.url));
      let seed = first;
      let left = seedsPerWorker;
      const give = () => {
        if (over() || left-- === 0) void worker.terminate().then(() => resolve());
        else worker.postMessage({ ...options, seed: (seed = next++) } satisfies Job);
      };
      worker.on('error', (cause) => {
        reject(
          new Error(`seed ${seed} ended its worker: ${replayCommand({ ...options, seed })}`, {
            cause,
          }),
        );
      });
      worker.on('message', (outcome: Outcome) => {
        take(outcome);
        give();
      });
      give();
    });
  const work = async () => {
    while (!over()) await runSome();
  };
  await Promise.all(Array.from({ length: workers }, work));
  const rate = `${seconds().toFixed(1)} s with ${workers} workers (${(done / seconds()).toFixed(1)} seeds/s)`;
  process.stdout.write(
    `${done} seeds from ${first}, ${failed.length} failed, ${steps} steps, ${rate}\n`,
  );
  const earliest = failed.sort((one, other) => one.seed - other.seed)[0];
  if (earliest !== undefined) await replay({ ...options, seed: earliest.seed }, 80);
  return earliest === undefined;
}

function faultsOf(text: string): FaultKind {
  const known = faultKinds.find((kind) => kind === text);
  if (known === undefined)
    throw new Error(`--faults is one of ${faultKinds.join(', ')}; not ${text}`);
  return known;
}

function focusOf(text: string): Focus {
  const known = focusNames.find((focus) => focus === text);
  if (known === undefined)
    throw new Error(`--focus is one of ${focusNames.join(', ')}; not ${text}`);
  return known;
}

function worldOf(text: string): World {
  const known = worlds.find((world) => world === text);
  if (known === undefined) throw new Error(`--world is one of ${worlds.join(', ')}; not ${text}`);
  return known;
}

async function main(): Promise<boolean> {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string' },
      seeds: { type: 'string', default: '500' },
      'first-seed': { type: 'string', default: '1' },
      workers: { type: 'string', default: String(availableParallelism()) },
      lines: { type: 'string', default: '400' },
      faults: { type: 'string', default: 'all' },
      messages: { type: 'boolean', default: false },
      world: { type: 'string', default: 'shared' },
      focus: { type: 'string' },
      retention: { type: 'boolean', default: false },
      pools: { type: 'boolean', default: false },
      tenant: { type: 'boolean', default: false },
      shards: { type: 'string', default: '1' },
      busy: { type: 'boolean', default: false },
      'keep-going': { type: 'boolean', default: false },
    },
  });
  const { messages, retention, pools, tenant, busy } = values;
  const options: Options = {
    faults: faultsOf(values.faults),
    world: worldOf(values.world),
    ...(values.focus === undefined ? {} : { focus: focusOf(values.focus) }),
    messages,
    retention,
    pools,
    tenant,
    busy,
    shards: Number(values.shards),
  };
  if (tenant && options.shards !== 1)
    throw new Error(`--tenant needs --shards 1; not ${values.shards}`);
  if (busy && options.shards === 1) throw new Error('--busy needs --shards');
  if (values.seed !== undefined)
    return replay({ ...options, seed: Number(values.seed) }, Number(values.lines));
  const [first, count, workers] = [
    Number(values['first-seed']),
    Number(values.seeds),
    Number(values.workers),
  ];
  return runMany({ first, count, workers, options, keepGoing: values['keep-going'] });
}

if (isMainThread) {
  process.exitCode = (await main()) ? 0 : 1;
} else {
  parentPort?.on(
    'message',
    (job: Job) => void simulate(job).then((outcome) => parentPort?.postMessage(outcome)),
  );
}
