import type { Cluster } from './cluster.ts';
import type { SimulatedNode } from './node.ts';
import type { OperatorProcess } from './operator-process.ts';
import type { Outages } from './outages.ts';
import type { Random } from './random.ts';
import type { Scheduler } from './scheduler.ts';
import type { Trace } from './trace.ts';
import {
  delayedKnowledge,
  noFaults,
  someFaults,
  type FaultChances,
  type FaultSchedule,
} from './fault-schedule.ts';
import type { Traits, World } from './world.ts';

export interface FaultsOptions {
  readonly cluster: Cluster;
  readonly node: SimulatedNode;
  readonly operators: readonly OperatorProcess[];
  readonly faultSchedule: FaultSchedule;
  readonly scheduler: Scheduler;
  readonly random: Random;
  readonly trace: Trace;
  /** No fault begins later. */
  readonly untilMs: number;
  readonly kind: Exclude<FaultKind, 'none'>;
  readonly traits: Pick<Traits, 'lateExecution' | 'longJumps' | 'outages' | 'pageSize'>;
  readonly world: World;
  readonly outages: Outages;
  /** The only blows, where the run has faults of all kinds. Default: some. */
  readonly blows?: readonly Blow[] | undefined;
  /** Chances that are the same in every run. */
  readonly chances?: Partial<FaultChances> | undefined;
}

/** Blows of every world. */
const everywhere = [
  'crash',
  'terminate',
  'freeze',
  'isolate',
  'jump wall clock',
  'outage',
  'compact',
  'crash agent',
  'evict',
  'hang',
  'lose node',
] as const;

const onSharedNodes = ['drain', 'shut down'] as const;

export type Blow = (typeof everywhere)[number] | (typeof onSharedNodes)[number];

const longestJumpMs = 5 * 3_600_000;

/**
 * `of leaders`: leaders are frozen past their lease while another one takes over, and nothing else
 * happens. `of handovers`: leaders come and go, while no process knows for sure what the previous
 * leader has done.
 */
export const faultKinds = ['all', 'none', 'of leaders', 'of handovers'] as const;

export type FaultKind = (typeof faultKinds)[number];

/** All faults of a run, apart from those of single messages (see FaultSchedule). */
export class Faults {
  readonly #options: FaultsOptions;
  readonly #blows: readonly Blow[];
  #over = false;
  /** Whether no wall clock was moved so far: times by a wrong clock outlive its process. */
  clocksAreRight = true;

  constructor(options: FaultsOptions) {
    this.#options = options;
    const some = everywhere.filter(() => options.random.chance(0.4));
    const more =
      options.world === 'shared' ? onSharedNodes.filter(() => options.random.chance(0.3)) : [];
    const kinds = {
      all: options.blows ?? [...some, ...more],
      'of leaders': ['freeze'],
      'of handovers': ['crash', 'terminate', 'freeze'],
    } as const satisfies Record<string, readonly Blow[]>;
    this.#blows = kinds[options.kind];
  }

  start(): void {
    const { faultSchedule, random, kind, traits, outages } = this.#options;
    const chances = kind === 'of handovers' ? delayedKnowledge : someFaults(random.fork('weather'));
    const expiredToken = traits.pageSize === undefined ? 0 : 0.3;
    faultSchedule.chances =
      kind === 'of leaders'
        ? chances
        : {
            ...chances,
            lateExecution: traits.lateExecution,
            expiredToken,
            ...this.#options.chances,
          };
    if (traits.outages && kind === 'all') outages.start();
    this.#next();
  }

  /** From here on nothing goes wrong any more; all faults are repaired. */
  heal(): void {
    const { faultSchedule, cluster, operators, scheduler, random, trace } = this.#options;
    trace.note('--- everything is mended ---');
    this.#options.outages.end();
    this.#over = true;
    faultSchedule.chances = noFaults;
    cluster.comeBack();
    for (const operator of operators) {
      operator.isolated = false;
      operator.machine?.thaw();
      if (!operator.up) scheduler.after(random.between(0, 2_000), () => this.#restart(operator));
    }
    this.#withAgents((agent) => {
      agent.hung = false;
    });
  }

  #next(): void {
    const { scheduler, random, untilMs } = this.#options;
    const blow = random.pick(this.#blows);
    if (blow === undefined) return;
    scheduler.after(random.between(200, 12_000), () => {
      if (this.#over || scheduler.monotonic() > untilMs) return;
      // Its own: a blow that finds nothing to strike leaves the next blows as they are.
      this.#strike(blow, random.nextOf('blow'));
      this.#next();
    });
  }

  #strike(blow: Blow, random: Random): void {
    const { cluster, node } = this.#options;
    const strikes: Readonly<Record<Blow, () => void>> = {
      crash: () => this.#crash(random),
      terminate: () => this.#terminate(random),
      freeze: () => this.#freeze(random),
      isolate: () => this.#isolate(random),
      'jump wall clock': () => this.#jumpWallClock(random),
      outage: () => this.#outage(random),
      compact: () => cluster.compact(),
      'crash agent': () => this.#withAgent(random, (agent) => node.crash(agent)),
      evict: () => this.#withAgent(random, (agent) => node.evict(agent)),
      hang: () => this.#hang(random),
      'lose node': () => node.lose(random.between(5_000, 40_000)),
      drain: () => node.drain(),
      'shut down': () => node.shutDown(),
    };
    strikes[blow]();
  }

  #crash(random: Random): void {
    const { scheduler } = this.#options;
    const operator = random.pick(this.#options.operators);
    if (operator?.up !== true) return;
    operator.crash();
    scheduler.after(
      random.chance(0.5) ? random.between(10, 1_000) : random.between(1_000, 30_000),
      () => this.#restart(operator),
    );
  }

  #terminate(random: Random): void {
    const { scheduler } = this.#options;
    const operator = random.pick(this.#options.operators);
    if (operator?.up !== true) return;
    operator.terminate();
    // A process that has not ended by then is killed.
    scheduler.after(random.between(5_000, 30_000), () => {
      if (operator.up) operator.crash();
      this.#restart(operator);
    });
  }

  #restart(operator: OperatorProcess): void {
    if (!operator.up) operator.start();
  }

  #freeze(random: Random): void {
    const { scheduler, trace } = this.#options;
    const { cluster, operators } = this.#options;
    const holder = cluster.leases[0]?.spec?.holderIdentity;
    const leader = operators.find(
      ({ machine }) => machine !== undefined && machine.name === holder,
    );
    const machine = (random.chance(0.7) ? leader : random.pick(operators))?.machine;
    if (machine?.alive !== true || machine.frozen) return;
    trace.note(`${machine.name} is frozen`);
    machine.freeze();
    scheduler.after(
      random.chance(0.5) ? random.between(100, 9_000) : random.between(15_000, 45_000),
      () => {
        trace.note(`${machine.name} continues`);
        machine.thaw();
      },
    );
  }

  #isolate(random: Random): void {
    const { scheduler, trace } = this.#options;
    const operator = random.pick(this.#options.operators);
    if (operator === undefined) return;
    trace.note(`${operator.name} is isolated`);
    operator.isolated = true;
    scheduler.after(random.between(500, 30_000), () => {
      operator.isolated = false;
    });
  }

  #jumpWallClock(random: Random): void {
    const { trace, traits } = this.#options;
    const machine = random.pick(this.#options.operators)?.machine;
    const byMs =
      traits.longJumps && random.chance(0.5)
        ? random.between(-longestJumpMs, longestJumpMs)
        : random.between(-90_000, 90_000);
    trace.note(`the clock of ${machine?.name ?? 'no process'} jumps by ${byMs}`);
    machine?.jumpWallClock(byMs);
    this.clocksAreRight = false;
  }

  #outage(random: Random): void {
    const { cluster, scheduler, trace } = this.#options;
    trace.note('the API server is down');
    cluster.goDown();
    scheduler.after(random.between(200, 20_000), () => cluster.comeBack());
  }

  #hang(random: Random): void {
    const { scheduler, trace } = this.#options;
    this.#withAgent(random, (agent) => {
      trace.note(`agent ${agent.id} hangs`);
      agent.hung = true;
      scheduler.after(random.between(1_000, 120_000), () => {
        agent.hung = false;
        agent.troubledUntil = scheduler.monotonic() + 10_000;
      });
    });
  }

  #withAgent(random: Random, work: (agent: SimulatedNode['running'][number]) => void): void {
    const agent = random.pick(this.#options.node.running);
    if (agent !== undefined) work(agent);
  }

  #withAgents(work: (agent: SimulatedNode['running'][number]) => void): void {
    for (const agent of this.#options.node.running) work(agent);
  }
}
