import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { partOf } from '../../support/part.ts';
import { firstSeed } from '../first-seed.ts';
import { Hunt, type HuntOptions } from './hunt.ts';
import { KnownSeeds } from './known-seeds.ts';
import { replay, runSome } from './run-mutant.ts';

/** Enough for a mistake that every seventh seed shows to escape once in a million runs. */
const defaultSeeds = 80;
/** A run that stores seeds stores the cheapest one of these. */
const killsOfStored = 5;

type Known = Pick<HuntOptions, 'name' | 'mutation' | 'kill'>;

export interface HuntingOptions {
  readonly mutants: readonly Known[];
  readonly knownSeeds: URL;
  /** The program of a thread, which has one mistake and gets seeds. */
  readonly worker: URL;
}

/** Runs the hunts over all cores: one worker for each hunt, several for the last ones. */
async function runAll(hunts: readonly Hunt[], lanes: number, worker: URL): Promise<void> {
  const waiting = [...hunts];
  const running = new Map<Hunt, number>();
  const join = (hunt: Hunt, by: number) => running.set(hunt, (running.get(hunt) ?? 0) + by);
  const next = () =>
    waiting.shift() ??
    [...running].filter(([hunt]) => hunt.isOpen).sort(([, one], [, other]) => one - other)[0]?.[0];
  const lane = async () => {
    for (let hunt = next(); hunt !== undefined; hunt = next()) {
      join(hunt, 1);
      await runSome(hunt, worker);
      join(hunt, -1);
      if (running.get(hunt) !== 0 || hunt.isOpen) continue;
      running.delete(hunt);
      process.stdout.write(`${hunt.report}\n`);
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}

/** Hunts mutants as the command line says. Resolves with whether each was killed. */
export async function hunt({
  mutants,
  knownSeeds: file,
  worker,
}: HuntingOptions): Promise<boolean> {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', default: '' },
      seed: { type: 'string' },
      lines: { type: 'string', default: '400' },
      'first-seed': { type: 'string' },
      seeds: { type: 'string' },
      kills: { type: 'string' },
      'known-seeds': { type: 'string', default: process.env['KNOWN_SEEDS'] ?? '' },
      workers: { type: 'string', default: String(availableParallelism()) },
    },
  });
  const only = new RegExp(values.only);
  const chosen = partOf(mutants.filter(({ name }) => only.test(name)));
  const [one] = chosen;
  if (one === undefined) throw new Error(`no mutant has a name that matches: ${values.only}`);
  if (values.seed !== undefined) {
    const { rule: _rule, seeds: _seeds, ...world } = one.kill;
    const job = { ...world, seed: Number(values.seed), keepLines: Number(values.lines) };
    const { failure, lines } = await replay(one.mutation, job, worker);
    process.stdout.write(`${lines.join('\n')}\n${failure?.message ?? 'clean'}\n`);
    return true;
  }
  const first = firstSeed(values['first-seed']);
  const knownSeeds = KnownSeeds.of(values['known-seeds'], file);
  process.stdout.write(`Mutants from seed ${first} on; FIRST_SEED=${first} repeats this run\n`);
  const kills = Number(values.kills ?? (knownSeeds?.isStored === true ? killsOfStored : 1));
  const hunts = chosen.map(
    (mutant) =>
      new Hunt({
        ...mutant,
        firstSeed: first,
        knownSeed: knownSeeds?.seedOf(mutant.name),
        seeds: Number(values.seeds ?? mutant.kill.seeds ?? defaultSeeds),
        kills,
      }),
  );
  await runAll(hunts, Number(values.workers), worker);
  knownSeeds?.write(
    mutants.map(({ name }) => name),
    new Map(hunts.map(({ options, killer }) => [options.name, killer])),
  );
  const survivors = hunts.filter(({ isKilled }) => !isKilled);
  for (const { options, report } of survivors)
    process.stdout.write(
      `\n${report}\n  node_modules/.bin/node ${process.argv[1] ?? ''} --only '${options.name}' --first-seed ${first}\n`,
    );
  process.stdout.write(`${hunts.length - survivors.length} passed, ${survivors.length} failed\n`);
  return survivors.length === 0;
}
