import { apiVersion } from '../../src/resources/group.ts';
import { unsettled } from './liveness.ts';
import { Violation } from './safety.ts';
import { stage, type SimulationOptions, type Stage } from './stage.ts';
import { template } from './template.ts';

export interface Outcome {
  readonly seed: number;
  readonly failure: { readonly rule: string; readonly message: string } | undefined;
  readonly hash: string;
  readonly steps: number;
  /** Virtual. */
  readonly durationMs: number;
  readonly lines: readonly string[];
}

/**
 * After the last fault everything has come to rest within so long: the watchdog of a watch, a
 * start's deadline (11 min in an agent that hangs) and then one after the other what waits for its
 * slot, back-offs, the delays of automatic resumes.
 */
const settleMs = 20 * 60_000;
const quietMs = 60_000;
/** Before there is ordinary use, which is followed by a quiet minute of its own. */
const pauseMs = 15_000;
/** Reads that may happen in a quiet minute: a watch that begins anew, and none that repeats. */
const quietReads = 20;
/** Writes of the rates of pools in a quiet minute: two pools, every 10 s. */
const maxRates = 14;
const maxSteps = 400_000;
/** Time between two checks of what is pending. */
const checkMs = 1_000;

/**
 * One run, made of nothing but its seed. With a mutant that patches a class, no other may run at
 * the same time.
 */
export async function simulate(options: SimulationOptions): Promise<Outcome> {
  const restores = (options.mutant?.patches ?? []).map((patch) => patch());
  try {
    return await new Play(stage(options)).play(options.seed);
  } finally {
    for (const restore of restores.reverse()) restore();
  }
}

/**
 * The acts of a run, one after the other: trouble, rest, and in a shared world ordinary use while
 * nothing goes wrong, and rest again.
 */
class Play {
  readonly #stage: Stage;
  #steps = 0;
  /** Whether reported runs are compared with true runs: once the operators know the true state. */
  #watches = false;

  constructor(staged: Stage) {
    this.#stage = staged;
  }

  async play(seed: number): Promise<Outcome> {
    const { operators, scheduler, trace } = this.#stage;
    let failure: Outcome['failure'];
    try {
      await this.#acts();
    } catch (error) {
      failure =
        error instanceof Violation
          ? { rule: error.rule, message: error.message }
          : { rule: 'no error', message: String(error instanceof Error ? error.stack : error) };
    }
    for (const operator of operators) operator.machine?.crash();
    return {
      seed,
      failure,
      hash: trace.digest(),
      steps: this.#steps,
      durationMs: scheduler.monotonic(),
      lines: trace.lines,
    };
  }

  async #acts(): Promise<void> {
    await this.#begin();
    await this.#beTroubled();
    await this.#settle();
    if (this.#stage.world !== 'shared') return this.#beQuiet(quietMs);
    await this.#beQuiet(pauseMs);
    const { exercise, duties, retention } = this.#stage;
    duties.begin();
    exercise.start();
    retention.startExercise();
    await this.#settle();
    await this.#beQuiet(quietMs);
  }

  async #begin(): Promise<void> {
    const {
      cluster,
      scheduler,
      limits,
      traits,
      quotas,
      operators,
      shape,
      users,
      messageSender,
      withMessages,
      notifications,
      hangs,
      retention,
      pools,
    } = this.#stage;
    await cluster.start();
    await scheduler.settle();
    cluster.notify();
    await cluster.call(
      'kubectl',
      'POST',
      `/apis/${apiVersion}/namespaces/default/sandboxtemplates`,
      template(limits, traits, retention.settings),
    );
    await quotas.start();
    for (const operator of operators)
      scheduler.after(shape.between(0, 2_000), () => operator.start());
    users.start();
    pools.start();
    if (withMessages) messageSender.start();
    retention.start();
    if (traits.notifications) notifications.start();
    hangs?.start();
  }

  /** Until everything is mended, and the operators have had the time to learn what became of it. */
  async #beTroubled(): Promise<void> {
    const {
      faults,
      retention,
      admissionCheck,
      agentWatch,
      blows,
      knowledge,
      faultSchedule,
      trouble,
      busyMs,
      scheduler,
      operators,
      hangs,
    } = this.#stage;
    if (faults === 'none') {
      admissionCheck.expectCalm();
      retention.expectCalm();
      agentWatch.begin();
    } else {
      blows.start();
      // A silent watch is only noticed when the watchdog times out; a watch that was closed comes
      // back after a pause, and after another one where it has to begin with a list.
      knowledge.unknownMs = faultSchedule.chances.watchSilent > 0 ? 200_000 : 130_000;
    }
    await this.#run(busyMs);
    const deaf = faultSchedule.chances.watchSilent > 0;
    blows.heal();
    trouble.now = { image: 0, crash: 0, unschedulable: 0, slowStop: 0.1 };
    // Delayed messages are still under way, and a refused watch is retried within a minute.
    await this.#run(scheduler.monotonic() + (deaf ? knowledge.unknownMs : 65_000));
    await this.#until(() => operators.flatMap(({ behind }) => behind));
    this.#watches = true;
    agentWatch.begin();
    hangs?.strike();
    if (faults === 'none') return;
    admissionCheck.expectCalm();
    retention.expectCalm();
  }

  async #settle(): Promise<void> {
    await this.#until(() => (this.#isBusy ? ['users are still busy'] : this.#left()));
  }

  /** By a clock that is hours behind, unused objects are kept for hours more. */
  #left(): readonly string[] {
    const { clocksAreRight, retention, pools } = this.#stage;
    return [
      ...unsettled(this.#stage),
      ...pools.unsettled(),
      ...(clocksAreRight() ? retention.unsettled() : []),
    ];
  }

  get #isBusy(): boolean {
    const { users, messageSender, exercise, retention } = this.#stage;
    return !users.done || !messageSender.done || exercise.busy || retention.busy;
  }

  async #run(untilMs: number): Promise<void> {
    const { scheduler, cluster, safety, findings, pools } = this.#stage;
    while (await scheduler.step(untilMs)) {
      this.#steps++;
      cluster.notify();
      safety.check();
      pools.check();
      findings.check();
      if (this.#steps > maxSteps) throw new Violation('no hot loop', `${this.#steps} steps`);
    }
  }

  /** Runs until no sentence is left about something that is not yet as it should be. */
  async #until(left: () => readonly string[]): Promise<void> {
    const { scheduler, duties, runWatch, agentWatch } = this.#stage;
    const began = scheduler.monotonic();
    while (left().length > 0) {
      if (scheduler.monotonic() - began > settleMs)
        throw new Violation('everything settles', left().join('; '));
      for (let checks = 0; checks < 2; checks++) {
        await this.#run(scheduler.monotonic() + checkMs);
        duties.check();
      }
      if (!this.#watches) continue;
      runWatch.check();
      agentWatch.check();
    }
  }

  /** A settled system stays settled, and sends no requests to the API server. */
  async #beQuiet(forMs: number): Promise<void> {
    const { scheduler, cluster } = this.#stage;
    // The last writes are still on their way to the caches.
    await this.#run(scheduler.monotonic() + 10_000);
    const writes: string[] = [];
    let rates = 0;
    const before = cluster.reads;
    const stop = cluster.onChange(({ plural, type, object, actor }) => {
      if (plural === 'sandboxpools' && rates++ < maxRates) return;
      if (plural !== 'leases') writes.push(`${actor} ${type} ${plural}/${object.metadata.name}`);
    });
    await this.#run(scheduler.monotonic() + forMs);
    stop();
    const left = unsettled(this.#stage);
    // By a clock that is hours behind, what is idle or old is paused at any time, and others take
    // its room.
    const { clocksAreRight, limits, retention } = this.#stage;
    const mayExpire =
      !clocksAreRight() && (Object.keys(limits).length > 0 || retention.settings !== undefined);
    if (mayExpire) await this.#settle();
    else if (left.length > 0)
      throw new Violation('a settled system stays settled', left.join('; '));
    if (writes.length > 0 && !mayExpire)
      throw new Violation(
        'no hot loop',
        `${writes.length} writes in a quiet minute: ${writes.slice(0, 5).join('; ')}`,
      );
    const reads = cluster.reads - before;
    if (reads > quietReads && !mayExpire)
      throw new Violation('no hot loop', `${reads} reads in a quiet minute`);
  }
}

/** The command that runs a seed again and shows what happens in it. */
export const replayCommand = ({
  seed,
  faults = 'all',
  messages = false,
  world = 'shared',
  retention = false,
  pools = false,
}: SimulationOptions): string =>
  [
    `node test/simulation/main.ts --seed ${seed}`,
    ...(faults === 'all' ? [] : [`--faults '${faults}'`]),
    ...(messages ? ['--messages'] : []),
    ...(world === 'shared' ? [] : [`--world ${world}`]),
    ...(retention ? ['--retention'] : []),
    ...(pools ? ['--pools'] : []),
  ].join(' ');
