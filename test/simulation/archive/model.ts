import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createFolderStore } from '@conversation-operator/object-store/folder-store';
import type { ObjectStore } from '@conversation-operator/object-store/object-store';
import { memoryStore } from '../../support/archive/memory-store.ts';
import { Random } from '../random.ts';
import { Trace } from '../trace.ts';
import { apiModes } from './faulty-api.ts';
import { storeModes } from './faulty-store.ts';
import { BrokenPromise, Findings, type Rule } from './findings.ts';
import { walkHistory } from './history-walk.ts';
import { IoScheduler } from './io-scheduler.ts';
import type { ModelOperator } from './operator.ts';
import { World, type Member, type Place } from './world.ts';

export interface ModelOptions {
  readonly seed: number;
  /** How many of the last lines of the trace are kept. Default 0. */
  readonly keepLines?: number;
  /** Whether the objects are in memory, in place of files. The run is the same one. */
  readonly isInMemory?: boolean;
}

export interface ModelOutcome {
  readonly seed: number;
  readonly failure: { readonly rule: Rule | 'no error'; readonly message: string } | undefined;
  readonly hash: string;
  readonly steps: number;
  readonly durationMs: number;
  readonly lines: readonly string[];
}

/** A folder in memory where the system has one, because each write is synced. */
const folder = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
const maxSteps = 200_000;
/** Time to recover from the last fault: late writes, back-offs, timed out steps. */
const recoveryMs = 8 * 60_000;
/** Time in which orphans are seen by sweeps for more than a day. */
const sweepMs = 26 * 3_600_000;
const maxPlaces = 8;
/** Minimum time in milliseconds for which an operator's clock is right between two jumps. */
const clockRestMs = 30_000;
/** Age from which an event is archived, without faults and behind one short fault. */
const archivedAfterMs = 31_000;
const afterFaultMs = 41_000;

/** Runs the archive; the seed determines the whole run. */
export async function runModel(options: ModelOptions): Promise<ModelOutcome> {
  if (options.isInMemory === true) return new Run(options, memoryStore().store).play();
  const directory = await mkdtemp(join(folder, 'archive-model-'));
  // The model has deadlines of its own, by its own clock.
  const store = createFolderStore({ directory, timeoutMs: 600_000 });
  try {
    return await new Run(options, store).play();
  } finally {
    await store.close();
    await rm(directory, { recursive: true, force: true });
  }
}

class Run {
  readonly #seed: number;
  readonly #random: Random;
  readonly #scheduler = new IoScheduler();
  readonly #trace: Trace;
  readonly #findings = new Findings();
  readonly #world: World;
  /** Whether faults still begin. */
  #isTroubled = true;
  #steps = 0;

  constructor({ seed, keepLines = 0 }: ModelOptions, store: ObjectStore) {
    this.#seed = seed;
    this.#random = new Random(`archive ${seed}`);
    this.#trace = new Trace(this.#scheduler, keepLines);
    this.#world = new World({
      scheduler: this.#scheduler,
      random: this.#random.fork('world'),
      trace: this.#trace,
      findings: this.#findings,
      store,
      onExpired: (uid) => this.#resumeSoon(uid),
      onListed: () => this.#createSoon(),
      // A handful of archives, of which many are deleted.
      maxOrphanShare: 1,
    });
  }

  async play(): Promise<ModelOutcome> {
    let failure: ModelOutcome['failure'];
    try {
      await this.#acts();
    } catch (error) {
      failure =
        error instanceof BrokenPromise
          ? { rule: error.rule, message: error.message }
          : { rule: 'no error', message: String(error instanceof Error ? error.stack : error) };
    }
    for (const operator of this.#world.operators) operator.machine.crash();
    this.#scheduler.end();
    return {
      seed: this.#seed,
      failure,
      hash: this.#trace.digest(),
      steps: this.#steps,
      durationMs: this.#scheduler.monotonic(),
      lines: this.#trace.lines,
    };
  }

  async #acts(): Promise<void> {
    const { world, random } = { world: this.#world, random: this.#random };
    await this.#do(() => world.begin());
    const operators = random.chance(0.4) ? 2 : 1;
    for (let count = 0; count < operators; count++) this.#startOperator();
    this.#beginTrouble(operators);
    const minutes = this.#world.retentionMs === undefined ? [2, 7] : [8, 25];
    await this.#pass(random.between(minutes[0] ?? 2, minutes[1] ?? 7) * 60_000);
    await this.#calm();
    await this.#useQuietly();
    await this.#end();
  }

  #startOperator(): ModelOperator {
    const operator = this.#world.startOperator();
    operator.lagMs = this.#random.pick([20, 500, 5_000, 60_000]) ?? 20;
    return operator;
  }

  /** Begins everything that happens at random, each at its own times. */
  #beginTrouble(operators: number): void {
    const world = this.#world;
    const { scheduler } = { scheduler: this.#scheduler };
    const random = this.#random.fork('trouble');
    this.#often('writes', 1_000, 20_000, (dice) => {
      // Where archives have a limit, one of them reaches it by far.
      const isMany = world.isLimited && dice.chance(0.7);
      const member = isMany ? world.living[0] : dice.pick(world.living);
      if (member === undefined || member.place.phase === 'paused') return;
      if (member.agent.state !== 'down')
        world.write(member, isMany || dice.chance(0.1) ? dice.whole(80, 260) : dice.whole(1, 25));
    });
    this.#often('store', 3_000, 40_000, (dice) => {
      world.store.mode = dice.chance(0.4) ? 'fine' : (dice.pick(storeModes) ?? 'fine');
      this.#trace.note(`the store is ${world.store.mode}`);
    });
    this.#often('api', 3_000, 40_000, (dice) => {
      world.api.mode = dice.chance(0.5) ? 'fine' : (dice.pick(apiModes) ?? 'fine');
      this.#trace.note(`the API server is ${world.api.mode}`);
    });
    this.#often('agents', 2_000, 40_000, (dice) => {
      const member = dice.pick(world.living);
      if (member?.place.phase === 'running') this.#disturb(member, dice);
    });
    this.#often('pauses', 5_000, 60_000, (dice) => {
      const place = dice.pick(world.places);
      const operator = dice.pick(world.operators.filter(({ isAlive }) => isAlive));
      if (place?.phase === 'running' && operator !== undefined)
        this.#spawn(() => this.#pauseFor(place, operator, dice));
    });
    this.#often('deaths', 15_000, 120_000, (dice) => {
      const operator = dice.pick(world.operators);
      if (operator === undefined) return;
      const kind = dice.next();
      if (kind < 0.5) {
        world.kill(operator);
        scheduler.after(dice.between(100, 40_000), () => {
          if (this.#isTroubled && world.operators.length < operators) this.#startOperator();
        });
      } else if (kind < 0.75) {
        world.thawed.add(operator);
        operator.machine.freeze();
        this.#trace.note(`${operator.machine.name} is frozen`);
        scheduler.after(dice.between(1_000, 400_000), () => operator.machine.thaw());
      } else operator.lagMs = dice.pick([20, 500, 5_000, 60_000]) ?? 20;
    });
    this.#often('clocks', 10_000, 90_000, (dice) => {
      const operator = dice.pick(world.operators);
      if (operator === undefined || scheduler.monotonic() < operator.clockRestsUntil) return;
      const byMs = dice.between(600_000, 86_400_000);
      operator.machine.jumpWallClock(byMs);
      // Archives at rest are examined while the clock is wrong.
      for (const member of world.living)
        if (member.place.phase === 'paused' && dice.chance(0.7))
          this.#spawn(() => world.touch(member, dice));
      const wrongMs = dice.between(1_000, 60_000);
      operator.clockRestsUntil = scheduler.monotonic() + wrongMs + clockRestMs;
      scheduler.after(wrongMs, () => operator.machine.jumpWallClock(-byMs));
    });
    this.#often('others', 3_000, 30_000, (dice) => {
      const member = dice.pick(world.living);
      if (member !== undefined) this.#spawn(() => world.touch(member, dice));
    });
    const restores = this.#random.fork('restores');
    world.network.onPage = (agent, isLast) => {
      const member = world.members.find((one) => one.agent === agent);
      if (!this.#isTroubled || member?.place.phase !== 'running') return;
      if (!restores.chance(isLast ? 0.02 : 0.2)) return;
      agent.lose(restores.chance(0.3) ? Infinity : restores.whole(1, 60));
      this.#trace.note(`the agent of ${member.uid} has ${agent.log.length} events left`);
    };
    this.#often('readers', 5_000, 40_000, (dice) => {
      const member = dice.pick(world.living);
      if (member !== undefined) this.#walk(member);
    });
    if (random.chance(0.4))
      this.#often('deletions', 60_000, 240_000, (dice) => {
        const member = dice.pick(world.living);
        if (member !== undefined) this.#spawn(() => this.#delete(member, dice));
      });
  }

  /** Calls over and over at random times, as long as there is trouble. */
  #often(name: string, minMs: number, maxMs: number, act: (dice: Random) => void): void {
    const dice = this.#random.fork(name);
    const next = () =>
      this.#scheduler.after(dice.between(minMs, maxMs), () => {
        if (!this.#isTroubled) return;
        act(dice);
        next();
      });
    next();
  }

  /** An agent crashes, perhaps with its volume, or hangs, or becomes slow. */
  #disturb(member: Member, dice: Random): void {
    const { agent, uid, place } = member;
    if (agent.state !== 'running') return;
    if (dice.chance(0.25)) {
      agent.slownessMs = dice.pick([10, 200, 4_000]) ?? 10;
      return;
    }
    if (dice.chance(0.2)) {
      // The pod is replaced between two pages.
      agent.lose(dice.chance(0.3) ? Infinity : dice.whole(1, 60));
      this.#trace.note(`the agent of ${uid} has ${agent.log.length} events left`);
      return;
    }
    const hangs = dice.chance(0.35);
    agent.state = hangs ? 'hanging' : 'down';
    const lost = hangs || dice.chance(0.6) ? 0 : dice.chance(0.3) ? Infinity : dice.whole(1, 30);
    this.#trace.note(`the agent of ${uid} is ${agent.state}, and loses ${lost}`);
    this.#scheduler.after(dice.between(50, dice.chance(0.5) ? 500 : 60_000), () => {
      agent.lose(lost);
      if (place.phase !== 'paused' && agent.state !== 'running') agent.state = 'running';
      this.#world.report(member);
    });
  }

  async #pauseFor(place: Place, operator: ModelOperator, dice: Random): Promise<void> {
    const maxMs = dice.pick([1_000, 5_000, 15_000]) ?? 15_000;
    // A run that does not end writes meanwhile.
    const [member] = place.members;
    if (member !== undefined && dice.chance(0.3))
      this.#scheduler.after(dice.between(10, maxMs), () => {
        if (place.phase === 'pausing') this.#world.write(member, dice.whole(1, 10));
      });
    // The conversation is deleted meanwhile, and another one gets its name.
    if (member !== undefined && dice.chance(0.15))
      this.#scheduler.after(dice.between(1, 300), () => {
        this.#spawn(async () => {
          await this.#world.delete(member);
          await this.#world.addPlace(member.name);
          const next = this.#world.places.at(-1)?.members[0];
          if (next !== undefined) this.#world.write(next, 3);
        });
      });
    await this.#world.pause(place, operator, maxMs);
    const restMs = dice.chance(0.6) ? dice.between(3_000, 40_000) : dice.between(60_000, 600_000);
    this.#scheduler.after(restMs, () => {
      if (!this.#isTroubled || place.phase !== 'paused') return;
      for (const { agent } of place.members)
        if (dice.chance(0.1)) agent.lose(dice.chance(0.3) ? Infinity : dice.whole(1, 30));
      this.#spawn(() => this.#world.resume(place));
    });
  }

  /** A new archive begins while the objects of the old one are deleted. */
  #resumeSoon(uid: string): void {
    const dice = this.#random.nextOf('resume');
    const place = this.#world.members.find((member) => member.uid === uid)?.place;
    if (!this.#isTroubled || place === undefined || dice.chance(0.3)) return;
    const mode = dice.pick(['slowDeletes', 'slowLists', undefined] as const);
    if (mode !== undefined) this.#world.store.mode = mode;
    this.#scheduler.after(dice.between(1, dice.chance(0.5) ? 100 : 2_000), () => {
      if (place.phase === 'paused') this.#spawn(() => this.#world.resume(place));
    });
  }

  /** A conversation begins while an operator compares archives with conversations. */
  #createSoon(): void {
    const world = this.#world;
    const dice = this.#random.nextOf('create');
    if (!this.#isTroubled || world.places.length >= maxPlaces || dice.chance(0.5)) return;
    this.#scheduler.after(dice.between(1, 100), () => {
      this.#spawn(async () => {
        await world.addPlace();
        const member = world.places.at(-1)?.members[0];
        if (member !== undefined) world.write(member, 3);
      });
    });
  }

  async #delete(member: Member, dice: Random): Promise<void> {
    await this.#world.delete(member);
    if (dice.chance(0.7)) await this.#world.addPlace(dice.chance(0.5) ? member.name : undefined);
  }

  #walk(member: Member): void {
    const { world, random } = { world: this.#world, random: this.#random };
    this.#spawn(() =>
      walkHistory({
        world,
        member,
        scheduler: this.#scheduler,
        findings: this.#findings,
        random: random.nextOf('walk'),
      }),
    );
  }

  /** No fault begins any more; those under way end, and everything recovers. */
  async #calm(): Promise<void> {
    const world = this.#world;
    this.#isTroubled = false;
    world.store.mode = 'fine';
    world.api.mode = 'fine';
    for (const operator of world.operators) operator.lagMs = 200;
    if (world.operators.length === 0) this.#startOperator().lagMs = 200;
    this.#trace.note('calm');
    await this.#pass(recoveryMs);
    for (const { agent, place } of world.members) {
      agent.slownessMs = 10;
      if (agent.state === 'hanging' && place.phase === 'running') agent.state = 'running';
    }
    for (const place of world.places)
      if (place.phase === 'paused') await this.#do(() => world.resume(place));
    if (world.living.length === 0) await this.#do(() => world.addPlace());
  }

  /** Agents write while little goes wrong, and the operators may end at any time. */
  async #useQuietly(): Promise<void> {
    const world = this.#world;
    const dice = this.#random.fork('quiet');
    for (let round = 0; round < 4; round++) {
      for (let left = 70_000; left > 0;) {
        const ms = dice.between(500, 12_000);
        const member = dice.pick(world.living);
        if (member !== undefined) world.write(member, dice.whole(1, 12));
        await this.#pass(ms);
        left -= ms;
      }
      const isDisturbed = round > 0 && dice.chance(0.7);
      if (isDisturbed && dice.chance(0.5)) world.store.failing = 1;
      else if (isDisturbed) world.api.failing = 1;
      if (isDisturbed) await this.#pass(dice.between(afterFaultMs, 60_000));
      this.#checkLoss(isDisturbed ? afterFaultMs : archivedAfterMs);
      world.store.failing = 0;
      world.api.failing = 0;
      const member = dice.pick(world.living);
      if (member !== undefined) this.#walk(member);
    }
    // The operators end at once, and another one starts.
    this.#checkLoss(archivedAfterMs + 60_000);
    for (const operator of world.operators) world.kill(operator);
    await this.#pass(dice.between(100, 20_000));
    this.#startOperator().lagMs = 200;
    await this.#pass(dice.between(1_000, 60_000));
  }

  #checkLoss(ageMs: number): void {
    const { checks, living } = this.#world;
    const since = this.#scheduler.monotonic() - ageMs;
    for (const { uid, agent, place } of living) {
      if (place.phase !== 'running' || agent.lies || checks.isFull(uid)) continue;
      const archived = new Set(checks.idsOf(uid));
      const lost = agent.log.find(({ id, at }) => at < since && !archived.has(id));
      if (lost !== undefined)
        this.#findings.report('a crash loses the last seconds alone', `${uid} loses ${lost.id}`);
    }
    this.#findings.check();
  }

  /** Pauses everything, deletes some, and sweeps what is left once archives have expired. */
  async #end(): Promise<void> {
    const world = this.#world;
    const dice = this.#random.fork('end');
    const [operator] = world.operators;
    if (operator === undefined) throw new Error('an operator runs at the end');
    for (const place of world.places) {
      const members = place.members.filter(({ uid }) => !world.checks.isDeleted(uid));
      if (place.phase !== 'running' || members.length === 0) continue;
      let isComplete: boolean | undefined;
      await this.#do(async () => {
        isComplete = await world.pause(place, operator, 15_000);
      });
      const isLimited = members.some(({ uid, agent }) => agent.lies || world.checks.isFull(uid));
      if (isComplete !== true && !isLimited)
        this.#findings.report('a pause without faults is complete', place.sandbox.metadata.name);
      if (isComplete === true)
        for (const { uid } of members) await this.#do(() => world.checks.checkHeads(uid));
      this.#findings.check();
    }
    for (const member of world.living)
      if (dice.chance(0.3)) await this.#do(() => world.delete(member));
    if (dice.chance(0.5)) await this.#disturbEnd(dice);
    await this.#pass(sweepMs);
    await this.#do(() => world.checks.checkRemains());
    this.#findings.check();
  }

  /** The deletions of the end fail too, and the process that makes them ends. */
  async #disturbEnd(dice: Random): Promise<void> {
    const world = this.#world;
    for (let left = 600_000; left > 0;) {
      const ms = dice.between(5_000, 60_000);
      await this.#pass(ms);
      left -= ms;
      world.store.mode = dice.chance(0.5) ? 'fine' : (dice.pick(storeModes) ?? 'fine');
      world.api.mode = dice.chance(0.7) ? 'fine' : (dice.pick(apiModes) ?? 'fine');
      if (!dice.chance(0.2)) continue;
      for (const operator of world.operators) world.kill(operator);
      this.#startOperator().lagMs = 200;
    }
    world.store.mode = 'fine';
    world.api.mode = 'fine';
    // Late writes arrive before the last sweep, as those of a process that has ended.
    await this.#pass(recoveryMs);
    for (const operator of world.operators) world.kill(operator);
    this.#startOperator().lagMs = 200;
  }

  /** Does something in a step of its own, and whatever follows, until it has ended. */
  async #do(work: () => Promise<unknown>): Promise<void> {
    const state = { isDone: false };
    this.#scheduler.after(0, () => {
      this.#spawn(async () => {
        await work();
        state.isDone = true;
      });
    });
    const limit = this.#scheduler.monotonic() + 600_000;
    while (!state.isDone && (await this.#step(limit)));
    if (!state.isDone) throw new Error('the model waits for something that does not happen');
  }

  #spawn(work: () => Promise<unknown>): void {
    work().catch((error: unknown) => this.#findings.fail(error));
  }

  async #pass(ms: number): Promise<void> {
    const end = this.#scheduler.monotonic() + ms;
    while (await this.#step(end));
  }

  async #step(limit: number): Promise<boolean> {
    const isMore = await this.#scheduler.step(limit);
    this.#findings.check();
    if (++this.#steps > maxSteps) throw new Error(`more than ${maxSteps} steps`);
    return isMore;
  }
}

export const replayCommandOf = ({ seed }: Pick<ModelOptions, 'seed'>): string =>
  `node_modules/.bin/node test/simulation/archive/main.ts --seed ${seed}`;
