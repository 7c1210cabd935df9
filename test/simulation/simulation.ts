import { SandboxKeys } from '../../src/agent/keys.ts';
import { apiVersion } from '../../src/resources/group.ts';
import type { TimeLimits } from '../../src/quota/slot.ts';
import { shouldRun, type Sandbox } from '../../src/resources/sandbox.ts';
import { Cluster } from './cluster.ts';
import { AgentWatch } from './agent-watch.ts';
import { Faults, type FaultKind } from './faults.ts';
import { Hangs } from './hangs.ts';
import { Hints } from './hints.ts';
import { Letters } from './letters.ts';
import { SimulatedNode } from './node.ts';
import { OperatorProcess, type Breakage } from './operator-process.ts';
import { People } from './people.ts';
import { Quotas } from './quotas.ts';
import { Random } from './random.ts';
import { Retention, retentionTimes } from './retention.ts';
import { RunWatch } from './run-watch.ts';
import { Safety, Violation } from './safety.ts';
import { Scheduler } from './scheduler.ts';
import { Trace } from './trace.ts';
import { unsettled } from './liveness.ts';
import { Verdicts } from './verdicts.ts';
import { Weather } from './weather.ts';

export interface SimulationOptions {
  readonly seed: number;
  readonly breakage?: Breakage;
  /** How many lines of the trace are kept for a reader; none by default. */
  readonly keepLines?: number;
  /** All kinds by default. */
  readonly faults?: FaultKind;
  /** Whether people send messages to conversations that are there; false by default. */
  readonly letters?: boolean;
  /** Whether runs may end in something else than success: a failure, a question, or with their container; true by default. */
  readonly ends?: boolean;
  /** Whether the template lets go what nobody uses, after seconds; false by default. */
  readonly retention?: boolean;
  /** Agents send no hints, none hangs but for the faults, and no run is stuck: as seeds were before there was any of it. */
  readonly plain?: boolean;
}

export interface Outcome {
  readonly seed: number;
  readonly failure: { readonly rule: string; readonly message: string } | undefined;
  readonly hash: string;
  readonly steps: number;
  /** Virtual. */
  readonly durationMs: number;
  readonly lines: readonly string[];
}

/** After the last fault everything has come to rest within so long: the watchdog of a watch, a start's deadline, back-offs. */
const settleMs = 15 * 60_000;
const quietMs = 60_000;
/** Reads that may happen in a quiet minute: a watch that begins anew, and none that repeats. */
const quietReads = 20;
const maxSteps = 400_000;

/** One run, made of nothing but its seed. With a breakage that patches a class, no other may run at the same time. */
export async function simulate(options: SimulationOptions): Promise<Outcome> {
  const restores = (options.breakage?.patches ?? []).map((patch) => patch());
  try {
    return await play(options);
  } finally {
    for (const restore of restores.reverse()) restore();
  }
}

async function play({
  seed,
  breakage = {},
  keepLines = 0,
  faults = 'all',
  letters: withLetters = false,
  ends = true,
  plain = false,
  retention: withRetention = false,
}: SimulationOptions): Promise<Outcome> {
  const random = new Random(String(seed));
  const scheduler = new Scheduler();
  const trace = new Trace(scheduler, keepLines);
  const keys = new SandboxKeys([Buffer.alloc(32, 7)]);
  const cluster = new Cluster(scheduler, random.fork('plane'), trace);
  const weather = new Weather(random.fork('network'));
  const shape = random.fork('shape');
  const busyMs = shape.between(20_000, 90_000);
  const traits = plain ? {} : someTraits(random.fork('traits'));
  let mended = faults === 'none';
  const share = shape.chance(0.5)
    ? { image: 0.05, crash: 0.1, unschedulable: 0.05, slowStop: 0.3 }
    : { image: 0, crash: 0, unschedulable: 0, slowStop: 0 };
  const calm = { image: 0, crash: 0, unschedulable: 0, slowStop: 0.1 };
  const node = new SimulatedNode({
    cluster,
    scheduler,
    random: random.fork('node'),
    trace,
    trouble: () => (mended ? calm : share),
    ...(withLetters ? { steps: random.fork('steps') } : {}),
    ...(ends ? { ends: random.fork('ends') } : {}),
    ...(traits.stuckAfterMs === undefined ? {} : { stalls: random.fork('stalls') }),
  });
  const operators: OperatorProcess[] = [];
  const isOperator = (actor: string) => operators.some(({ name }) => actor.startsWith(`${name}.`));
  const safety = new Safety({
    unknownMs: faults === 'none' ? 1_000 : 15_000,
    cluster,
    node,
    scheduler,
    keys,
    isOperator,
    stuckAfterMs: traits.stuckAfterMs,
  });
  /** So long an operator may not know what is true. */
  let unknownMs = 1_000;
  const quotas = new Quotas({ cluster, scheduler, random: random.fork('quotas'), untilMs: busyMs, unknownMs: () => unknownMs });
  const wallClocks = () => operators.flatMap(({ machine }) => machine?.clock.now() ?? []);
  const retention = new Retention({ cluster, scheduler, random: random.fork('retention'), isOperator, wallClocks, enabled: withRetention });
  const verdicts = new Verdicts({ cluster, scheduler, isOperator });
  const limits = someLimits(random.fork('limits'));
  const commands = random.fork('commands');
  const count = faults.startsWith('of ') || shape.chance(0.5) ? 2 : 1;
  for (let index = 0; index < count; index++) {
    operators.push(
      new OperatorProcess({
        ...{ name: `operator-${index}`, cluster, node, weather, scheduler, trace, keys, breakage, retention: retentionTimes },
        random: random.fork(`operator-${index}`),
        agentNetwork: {
          onRun: (conversation) => safety.operatorRuns(conversation),
          outcomeOf: (command) => outcomeOf(command, commands),
        },
      }),
    );
  }
  const people = new People({
    ...{ cluster, node, weather, scheduler, trace, keys, busyMs },
    random: random.fork('people'),
    agentNetwork: {
      onRun: (conversation) => {
        conversation.cutByOwner = false;
        conversation.lost = false;
        conversation.continuations = 0;
        conversation.disruptions = 0;
      },
    },
  });
  const letters = withLetters ? new Letters({ cluster, weather, scheduler, trace, random: random.fork('letters'), busyMs }) : undefined;
  const blows = new Faults({
    cluster,
    node,
    operators,
    weather,
    scheduler,
    trace,
    random: random.fork('faults'),
    untilMs: busyMs,
    kind: faults === 'none' ? 'all' : faults,
  });
  let steps = 0;
  const run = async (untilMs: number): Promise<void> => {
    while (await scheduler.step(untilMs)) {
      steps++;
      cluster.tell();
      safety.check();
      if (steps > maxSteps) throw new Violation('no hot loop', `${steps} steps`);
    }
  };

  let runWatch: RunWatch | undefined;
  let agentWatch: AgentWatch | undefined;
  const hangs =
    traits.hangs === true && faults === 'all'
      ? new Hangs({ node, scheduler, trace, random: random.fork('hangs'), untilMs: busyMs })
      : undefined;
  const hints = new Hints({
    ...{ cluster, node, operators, scheduler, trace, random: random.fork('hints') },
    onDelivered: (process, conversation) => agentWatch?.told(process, conversation),
    onForged: (hint) => agentWatch?.forged(hint),
  });
  /** Goes on until nothing is left of what is not yet as it should be, in words. */
  const until = async (left: () => readonly string[]): Promise<void> => {
    const began = scheduler.monotonic();
    while (left().length > 0) {
      if (scheduler.monotonic() - began > settleMs) throw new Violation('everything settles', left().join('; '));
      await run(scheduler.monotonic() + 2_000);
      runWatch?.look();
      agentWatch?.look();
    }
  };

  const act = async (): Promise<void> => {
    await cluster.start();
    await scheduler.settle();
    cluster.tell();
    node.onCut = (conversation, sandboxUid, disrupted) => {
      const sandbox = cluster.sandboxOf(sandboxUid);
      const wanted = sandbox !== undefined && shouldRun(sandbox);
      conversation.lost = wanted && !disrupted;
      if (wanted && disrupted) conversation.disruptions++;
      conversation.cutByOwner = sandbox?.spec.replicas === 0;
      conversation.mayStand = safety.pausedLately(sandboxUid);
    };
    // What its owner wants counts more than the loss that came before.
    cluster.onChange(({ plural, object }) => {
      if (plural !== 'sandboxes' || shouldRun(object as Sandbox)) return;
      const claim = cluster.claims.find(({ metadata }) => metadata.name === object.metadata.name);
      for (const conversation of node.volumeOf(claim?.metadata.uid ?? '')?.conversations.values() ?? []) {
        // A loss that is followed by a pause is the pause's.
        conversation.continuations = 0;
        conversation.disruptions = 0;
        conversation.lost = false;
        if ((object as Sandbox).spec.replicas === 1) continue;
        // One whose action was rejected for the pause is idle.
        if (conversation.status !== 'finished' && (conversation.status !== 'idle' || conversation.wanted)) conversation.mayStand = true;
      }
    });
    node.onTold = (text) => safety.told(text);
    node.onHeard = (process, id) => safety.heard(process, id);
    await cluster.call(
      'kubectl',
      'POST',
      `/apis/${apiVersion}/namespaces/default/sandboxtemplates`,
      template(limits, traits, retention.settings),
    );
    await quotas.start();
    for (const operator of operators) scheduler.after(shape.between(0, 2_000), () => operator.start());
    people.start();
    letters?.start();
    if (traits.hints === true) hints.start();
    hangs?.start();
    if (faults === 'none') {
      verdicts.expectCalm();
      agentWatch = new AgentWatch({ cluster, node, scheduler });
    } else {
      blows.start();
      // A watch that has fallen silent is only found out when the watchdog has lost its patience; one that was cut comes back
      // after a pause, and another one where it has to begin with a list.
      unknownMs = weather.chances.watchSilent > 0 ? 200_000 : 130_000;
    }
    await run(busyMs);
    const deaf = weather.chances.watchSilent > 0;
    blows.heal();
    mended = true;
    const mendedAt = scheduler.monotonic();
    // What lags is still under way, and a watch that was refused is tried again within a minute.
    await run(mendedAt + (deaf ? unknownMs : 65_000));
    await until(() => operators.flatMap(({ behind }) => behind));
    runWatch = new RunWatch({ cluster, node, scheduler });
    agentWatch ??= new AgentWatch({ cluster, node, scheduler });
    hangs?.strike();
    if (faults !== 'none') verdicts.expectCalm();
    const left = () =>
      people.done && letters?.done !== false
        ? [...unsettled({ cluster, node, safety, quotas, operators, limits }), ...retention.unsettled()]
        : ['people are still busy'];
    await until(left);
    await beQuiet();
  };

  /** What has settled stays so, and asks nothing of the API server. */
  const beQuiet = async (): Promise<void> => {
    // What was written last is still on its way to the caches.
    await run(scheduler.monotonic() + 10_000);
    const writes: string[] = [];
    const before = cluster.reads;
    const stop = cluster.onChange(({ plural, type, object, actor }) => {
      if (plural !== 'leases') writes.push(`${actor} ${type} ${plural}/${object.metadata.name}`);
    });
    await run(scheduler.monotonic() + quietMs);
    stop();
    const left = unsettled({ cluster, node, safety, quotas, operators, limits });
    if (left.length > 0) throw new Violation('what has settled stays', left.join('; '));
    if (writes.length > 0)
      throw new Violation('no hot loop', `${writes.length} writes in a quiet minute: ${writes.slice(0, 5).join('; ')}`);
    const reads = cluster.reads - before;
    if (reads > quietReads) throw new Violation('no hot loop', `${reads} reads in a quiet minute`);
  };

  let failure: Outcome['failure'];
  try {
    await act();
  } catch (error) {
    failure =
      error instanceof Violation
        ? { rule: error.rule, message: error.message }
        : { rule: 'no error', message: String(error instanceof Error ? error.stack : error) };
  }
  for (const operator of operators) operator.machine?.crash();
  return { seed, failure, hash: trace.digest(), steps, durationMs: scheduler.monotonic(), lines: trace.lines };
}

/** The command that runs a seed again and shows what happens in it. */
export const replayCommand = ({ seed, faults = 'all', letters = false, plain = false, retention = false }: SimulationOptions): string =>
  [
    `node test/simulation/main.ts --seed ${seed}`,
    ...(faults === 'all' ? [] : [`--faults '${faults}'`]),
    ...(letters ? ['--letters'] : []),
    ...(plain ? ['--plain'] : []),
    ...(retention ? ['--retention'] : []),
  ].join(' ');

interface Traits {
  readonly hints?: boolean;
  readonly hangs?: boolean;
  readonly stuckAfterMs?: number;
}

/** What agents and their template do in some seeds and not in others. */
const someTraits = (random: Random): Traits => ({
  hints: random.chance(0.5),
  hangs: random.chance(0.3),
  ...(random.chance(0.3) ? { stuckAfterMs: random.whole(10, 40) * 1_000 } : {}),
});

const template = (limits: TimeLimits, { stuckAfterMs }: Traits, retention: Retention['settings']) => ({
  apiVersion,
  kind: 'SandboxTemplate',
  metadata: { name: 'default', namespace: 'default' },
  spec: {
    podTemplate: { spec: { containers: [{ name: 'agent', image: 'agent:1' }] } },
    storage: { size: '1Gi', retain: false },
    startDeadline: '2m',
    agent: stuckAfterMs === undefined ? {} : { stuckAfter: `${stuckAfterMs / 1000}s` },
    ...(retention === undefined ? {} : { retention }),
    ...limits,
  },
});

/** In most runs nothing is paused for its idleness or its age. */
const someLimits = (random: Random): TimeLimits => ({
  ...(random.chance(0.2) ? { idleTimeout: `${random.whole(1, 20)}s` } : {}),
  ...(random.chance(0.1) ? { maxActiveTime: `${random.whole(10, 60)}s` } : {}),
});

/** What commands in a sandbox do, by what is asked. */
function outcomeOf(command: string, random: Random) {
  if (!command.includes('git clone')) return { tookMs: random.between(1, 50) };
  if (command.includes("'missing'")) return { exitCode: 242, tookMs: random.between(10, 2_000) };
  if (command.includes('owner/missing')) return { exitCode: 243, stderr: 'repository not found', tookMs: random.between(10, 2_000) };
  return { tookMs: random.between(100, 20_000) };
}
