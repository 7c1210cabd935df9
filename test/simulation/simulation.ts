import { apiVersion } from '../../src/resources/group.ts';
import { unsettled } from './liveness.ts';
import { Violation } from './safety.ts';
import { shardStages, unevenShards } from './shards.ts';
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
/** Time before the ordinary use, which is followed by a quiet minute of its own. */
const pauseMs = 15_000;
/** How long questions wait whose answers are late. */
const answerMs = 60 * 60_000;
/** Reads that may happen in a quiet minute: a watch that begins anew, and none that repeats. */
const quietReads = 20;
/** Writes of the rates of pools in a quiet minute: two pools, every 10 s. */
const maxRates = 14;
const maxSteps = 400_000;
/** Time between two checks of what is pending. */
const checkMs = 1_000;

/** Runs the simulation; the seed determines the whole run. */
export async function simulate(options: SimulationOptions): Promise<Outcome> {
  const { shards = 1 } = options;
  const stages = shards === 1 ? [stage(options)] : shardStages({ ...options, shards });
  return new Play(stages).play(options.seed);
}

/** The acts of a run: trouble, rest, and in a shared world use without faults, and rest. */
class Play {
  /** The stages, one for each namespace. */
  readonly #stages: readonly Stage[];
  /** One of the stages, for what they have in common. */
  readonly #stage: Stage;
  #steps = 0;
  /** Whether reported runs are compared with true runs: once the operators know the true state. */
  #watches = false;

  constructor(stages: readonly Stage[]) {
    const [first] = stages;
    if (first === undefined) throw new Error('a simulation has a stage');
    this.#stages = stages;
    this.#stage = first;
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
    const outcome: Outcome = {
      seed,
      failure,
      hash: trace.digest(),
      steps: this.#steps,
      durationMs: scheduler.monotonic(),
      lines: trace.lines,
    };
    for (const operator of operators) operator.dispose();
    scheduler.end();
    return outcome;
  }

  async #acts(): Promise<void> {
    await this.#begin();
    await this.#beTroubled();
    await this.#settle();
    if (this.#stage.world !== 'shared') return this.#beQuiet(quietMs);
    await this.#beQuiet(pauseMs);
    for (const one of this.#stages) {
      const { exercise, duties, retention, pools, tenant, busyNamespace } = one;
      duties.begin();
      busyNamespace?.startExercise();
      exercise.start();
      pools.startExercise();
      retention.startExercise();
      tenant.startExercise();
    }
    await this.#settle();
    await this.#beQuiet(quietMs);
    if (this.#stages.some(({ approvers }) => approvers.answersLate)) await this.#answerLate();
  }

  /** People answer the questions that have waited for an hour. */
  async #answerLate(): Promise<void> {
    await this.#run(this.#stage.scheduler.monotonic() + answerMs);
    for (const { approvers } of this.#stages) approvers.answerAll();
    await this.#settle();
    await this.#beQuiet(quietMs);
  }

  async #begin(): Promise<void> {
    const { whole, cluster, scheduler, operators, shape } = this.#stage;
    await whole.start();
    if (cluster !== whole) for (const one of this.#stages) await one.cluster.start();
    await scheduler.settle();
    cluster.notify();
    for (const one of this.#stages) await this.#furnish(one);
    for (const operator of operators)
      scheduler.after(shape.between(0, 2_000), () => operator.start());
    for (const {
      users,
      messageSender,
      approvers,
      withMessages,
      retention,
      pools,
      notifications,
      traits,
      hangs,
      tenant,
    } of this.#stages) {
      users.start();
      pools.start();
      tenant.start();
      if (withMessages) {
        messageSender.start();
        approvers.start();
      }
      retention.start();
      if (traits.notifications) notifications.start();
      hangs?.start();
    }
  }

  async #furnish(one: Stage): Promise<void> {
    const { cluster, limits, traits, retention, quotas, busyNamespace } = one;
    await busyNamespace?.furnish();
    await cluster.call(
      'kubectl',
      'POST',
      `/apis/${apiVersion}/namespaces/default/sandboxtemplates`,
      template(limits, traits, retention.settings),
    );
    await quotas.start();
  }

  /** Runs until all faults are repaired, and the operators have had time to learn the outcomes. */
  async #beTroubled(): Promise<void> {
    const { faults, faultSchedule, busyMs, scheduler, operators } = this.#stage;
    for (const { retention, admissionCheck, agentWatch, blows } of this.#stages) {
      if (faults === 'none') {
        admissionCheck.expectCalm();
        retention.expectCalm();
        agentWatch.begin();
      } else blows.start();
    }
    const isSilent = () => faultSchedule.chances.watchSilent > 0;
    if (faults !== 'none') {
      // A silent watch is only noticed when the watchdog times out; a watch that was closed comes
      // back after a pause, and after another one where it has to begin with a list.
      for (const { knowledge } of this.#stages)
        knowledge.unknownMs = isSilent() ? 200_000 : 130_000;
    }
    await this.#run(busyMs);
    const deaf = isSilent();
    for (const { blows, trouble } of this.#stages) {
      blows.heal();
      trouble.now = { image: 0, crash: 0, unschedulable: 0, slowStop: 0.1 };
    }
    // Delayed messages are still under way, and a refused watch is retried within a minute.
    await this.#run(scheduler.monotonic() + (deaf ? this.#stage.knowledge.unknownMs : 65_000));
    await this.#until(() => operators.flatMap(({ behind }) => behind));
    this.#watches = true;
    for (const { agentWatch, hangs, admissionCheck, retention } of this.#stages) {
      agentWatch.begin();
      hangs?.strike();
      if (faults === 'none') continue;
      admissionCheck.expectCalm();
      retention.expectCalm();
    }
  }

  async #settle(): Promise<void> {
    await this.#until(() => (this.#isBusy ? ['users are still busy'] : this.#left()));
  }

  /** By a clock that is hours behind, unused objects are kept for hours more. */
  #left(): readonly string[] {
    const shards = this.#stages.length;
    return [
      ...this.#stages.flatMap((one) => [
        ...unsettled(one),
        ...one.pools.unsettled(),
        ...one.tenantCheck.unsettled(),
        ...(one.clocksAreRight() ? one.retention.unsettled() : []),
      ]),
      ...(shards === 1 ? [] : unevenShards(this.#stage.operators, shards)),
    ];
  }

  get #isBusy(): boolean {
    return this.#stages.some(
      ({
        users,
        messageSender,
        approvers,
        approvalCheck,
        exercise,
        retention,
        pools,
        tenant,
        node,
        busyNamespace,
      }) =>
        !users.done ||
        !messageSender.done ||
        !approvers.done ||
        // The answer lets the run continue.
        approvalCheck.duties().length > 0 ||
        exercise.busy ||
        retention.busy ||
        pools.busy ||
        busyNamespace?.busy === true ||
        tenant.busy ||
        // A run that a client has begun with the agent itself may end the container, too.
        node.running.some(({ mayDie }) => mayDie),
    );
  }

  async #run(untilMs: number): Promise<void> {
    const { scheduler, cluster } = this.#stage;
    while (await scheduler.step(untilMs)) {
      this.#steps++;
      cluster.notify();
      for (const { safety, findings, pools, tenantCheck } of this.#stages) {
        safety.check();
        pools.check();
        tenantCheck.check();
        findings.check();
      }
      if (this.#steps > maxSteps) throw new Violation('no hot loop', `${this.#steps} steps`);
    }
  }

  /** Runs until no sentence is left about something that is not yet as it should be. */
  async #until(left: () => readonly string[]): Promise<void> {
    const { scheduler } = this.#stage;
    const began = scheduler.monotonic();
    while (left().length > 0) {
      if (scheduler.monotonic() - began > settleMs)
        throw new Violation('everything settles', left().join('; '));
      for (let checks = 0; checks < 2; checks++) {
        await this.#run(scheduler.monotonic() + checkMs);
        for (const { duties } of this.#stages) duties.check();
      }
      if (!this.#watches) continue;
      for (const { runWatch, agentWatch } of this.#stages) {
        runWatch.check();
        agentWatch.check();
      }
    }
  }

  /** A settled system stays settled, and sends no requests to the API server. */
  async #beQuiet(forMs: number): Promise<void> {
    const { scheduler, cluster } = this.#stage;
    // The last writes are still on their way to the caches. A warm sandbox without room gets its
    // first status five seconds after its creation, which follows a claim by the delay of the pool.
    const hasPools = this.#stages.some((one) => one.cluster.pools.length > 0);
    await this.#run(scheduler.monotonic() + (hasPools ? 20_000 : 10_000));
    const writes: string[] = [];
    let rates = 0;
    const before = cluster.reads;
    const stops = this.#stages.map((one) =>
      one.cluster.onChange(({ plural, type, object, actor }) => {
        if (plural === 'sandboxpools' && rates++ < maxRates) return;
        if (plural !== 'leases') writes.push(`${actor} ${type} ${plural}/${object.metadata.name}`);
      }),
    );
    await this.#run(scheduler.monotonic() + forMs);
    for (const stop of stops) stop();
    const left = this.#stages.flatMap((one) => unsettled(one));
    // By a clock that is hours behind, what is idle or old is paused at any time, and others take
    // its room.
    const mayExpire = this.#stages.some(
      ({ clocksAreRight, limits, retention }) =>
        !clocksAreRight() && (Object.keys(limits).length > 0 || retention.settings !== undefined),
    );
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
  focus,
  retention = false,
  pools = false,
  tenant = false,
  shards = 1,
  busy = false,
}: SimulationOptions): string =>
  [
    `node_modules/.bin/node test/simulation/main.ts --seed ${seed}`,
    ...(faults === 'all' ? [] : [`--faults '${faults}'`]),
    ...(messages ? ['--messages'] : []),
    ...(world === 'shared' ? [] : [`--world ${world}`]),
    ...(focus === undefined ? [] : [`--focus ${focus}`]),
    ...(retention ? ['--retention'] : []),
    ...(pools ? ['--pools'] : []),
    ...(tenant ? ['--tenant'] : []),
    ...(shards === 1 ? [] : [`--shards ${shards}`]),
    ...(busy ? ['--busy'] : []),
  ].join(' ');
