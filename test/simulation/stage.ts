import { SandboxKeys } from '../../src/agent/keys.ts';
import { createMetrics } from '../../src/observability/metrics.ts';
import type { Pod } from '@conversation-operator/kube/core';
import { isStartOver, startStatusOf } from '../../src/resources/conversation.ts';
import { conversationIdOf } from '../../src/resources/ids.ts';
import type { Sandbox } from '../../src/resources/sandbox.ts';
import { shouldRun } from '../../src/status/sandbox-phase.ts';
import { ActiveSinceCheck } from './active-since-check.ts';
import { AgentWatch } from './agent-watch.ts';
import { AnswerDoubts } from './answer-doubts.ts';
import { ApprovalCheck } from './approval-check.ts';
import { Approvers, isAnsweredByResource } from './approvers.ts';
import type { StoredConversation } from './agent-process.ts';
import type { BusyNamespace } from './busy-namespace.ts';
import { CapsCheck } from './caps-check.ts';
import { WholeCluster, type Cluster } from './cluster.ts';
import { dutiesOfConversations } from './conversation-duties.ts';
import { DecisionCheck } from './decision-check.ts';
import { Duties } from './duties.ts';
import { Exercise } from './exercise.ts';
import { Faults, type FaultKind } from './faults.ts';
import { Findings } from './findings.ts';
import { Hangs } from './hangs.ts';
import { Notifications } from './notifications.ts';
import { InterruptedRunsCheck } from './interrupted-runs-check.ts';
import { MessageSender } from './message-sender.ts';
import { SimulatedNode } from './node.ts';
import { NodeConditions } from './node-conditions.ts';
import { OperatorProcess } from './operator-process.ts';
import { OrphanedSandboxCheck } from './orphaned-sandbox-check.ts';
import { Outages } from './outages.ts';
import { OverwrittenVersionCheck } from './overwritten-version-check.ts';
import { PassingFailureCheck } from './passing-failure-check.ts';
import { Users } from './users.ts';
import { Pools } from './pools.ts';
import { Quotas } from './quotas.ts';
import { Random } from './random.ts';
import { RequestRateCheck } from './request-rate-check.ts';
import { RetryDelayCheck } from './retry-delay-check.ts';
import { Retention, retentionTimes } from './retention.ts';
import { dutiesOfDisruptions } from './disruption-duties.ts';
import { dutiesOfRules } from './rule-duties.ts';
import { RunWatch } from './run-watch.ts';
import { Safety } from './safety.ts';
import { dutiesOfSandboxes } from './sandbox-duties.ts';
import { SandboxSteps } from './sandbox-steps.ts';
import { SandboxHistory } from './sandbox-history.ts';
import { Scheduler } from './scheduler.ts';
import { dutiesOfWarmSandboxes } from './warm-sandbox-duties.ts';
import { StartDeadlineCheck } from './start-deadline-check.ts';
import { Tenant, tenant } from './tenant.ts';
import { TenantCheck } from './tenant-check.ts';
import { outcomeOf, someLimits } from './template.ts';
import { Trace } from './trace.ts';
import { Traffic } from './traffic.ts';
import { AdmissionCheck } from './admission-check.ts';
import { FaultSchedule } from './fault-schedule.ts';
import { emphasisOf, type Focus } from './focus.ts';
import { traitsOf, type World } from './world.ts';

export interface SimulationOptions {
  readonly seed: number;
  /** How many lines of the trace are kept for a reader; none by default. */
  readonly keepLines?: number;
  /** All kinds by default. */
  readonly faults?: FaultKind;
  /** Whether people send messages to conversations that are there; false by default. */
  readonly messages?: boolean;
  /** Whether runs may also end in a failure, a question or with their container; default true. */
  readonly ends?: boolean;
  /** Whether the template lets unused objects expire after seconds; false by default. */
  readonly retention?: boolean;
  /** Whether there are pools of warm sandboxes; false by default. */
  readonly pools?: boolean;
  /** Whether there is a hostile tenant with kubectl; false by default. Not for several shards. */
  readonly tenant?: boolean;
  /** Default shared. */
  readonly world?: World;
  /** The world has more of something than others; by default it has not. */
  readonly focus?: Focus;
  /** Number of shards of namespaces, each with one namespace where there are several. Default 1. */
  readonly shards?: number;
  /** Whether a namespace of the first of several shards is very busy for a while; default false. */
  readonly busy?: boolean;
}

/** The parts that the namespaces of one cluster share, and the namespace's own view of them. */
export interface Ground {
  readonly namespace: string;
  readonly shard: number;
  readonly scheduler: Scheduler;
  readonly trace: Trace;
  readonly keys: SandboxKeys;
  readonly cluster: Cluster;
  readonly whole: WholeCluster;
  readonly faultSchedule: FaultSchedule;
  readonly traffic: Traffic;
  readonly operators: OperatorProcess[];
  readonly busyMs: number;
  /** Whether the faults of operators come from this namespace. */
  readonly strikes: boolean;
  /** The processes that hear notifications of this namespace. */
  readonly listeners: readonly Pick<OperatorProcess, 'notify'>[];
  readonly clocksAreRight: () => boolean;
  /** A very busy namespace of the same shard; at most one namespace knows of it. */
  readonly busyNamespace: BusyNamespace | undefined;
}

const calmTrouble = { image: 0, crash: 0, unschedulable: 0, slowStop: 0.1 };
const someTrouble = { image: 0.05, crash: 0.1, unschedulable: 0.05, slowStop: 0.3 };
const noTrouble = { image: 0, crash: 0, unschedulable: 0, slowStop: 0 };

/** How old what an operator knows may be, in milliseconds. */
interface Knowledge {
  unknownMs: number;
}

/**
 * Everything and everybody that a run is made of, put together and not started; with a ground, what
 * one namespace of several is made of.
 */
export function stage(
  {
    seed,
    keepLines = 0,
    faults = 'all',
    messages = false,
    ends = true,
    world = 'shared',
    retention: withRetention = false,
    pools: withPools = false,
    tenant: withTenant = false,
    focus,
  }: SimulationOptions,
  ground?: Ground,
) {
  const random = new Random(ground === undefined ? String(seed) : `${seed}/${ground.namespace}`);
  const scheduler = ground?.scheduler ?? new Scheduler();
  const trace = ground?.trace ?? new Trace(scheduler, keepLines);
  const keys = ground?.keys ?? new SandboxKeys([Buffer.alloc(32, 7)]);
  const emphasis = emphasisOf(focus);
  const traits = { ...traitsOf(world, random), ...emphasis.traits };
  const { owners } = traits;
  const cluster: Cluster =
    ground?.cluster ??
    new WholeCluster({
      scheduler,
      random: random.fork('plane'),
      trace,
      ownLeases: world === 'shared',
    });
  const faultSchedule = ground?.faultSchedule ?? new FaultSchedule(random.fork('network'));
  const shape = random.fork('shape');
  const shortMs = shape.between(20_000, 90_000);
  // An outage that is to outlast a start takes its time.
  const busyMs =
    ground?.busyMs ?? (traits.outages && faults === 'all' ? 3 * shortMs + 60_000 : shortMs);
  const trouble = { now: shape.chance(0.5) ? someTrouble : noTrouble };
  if (emphasis.slowStarts === true) trouble.now = { ...noTrouble, unschedulable: 0.8 };
  if (faults === 'none') trouble.now = calmTrouble;
  const conditions = new NodeConditions({
    scheduler,
    random: random.fork('conditions'),
    detachesLate: traits.detachesLate,
  });
  const traffic = ground?.traffic ?? new Traffic();
  const outages = new Outages({
    conditions,
    scheduler,
    trace,
    random: random.fork('outages'),
    untilMs: busyMs,
    setQuotaFull: emphasis.gates === true ? (isFull) => (traffic.isQuotaFull = isFull) : undefined,
  });
  const node = new SimulatedNode({
    conditions,
    cluster,
    scheduler,
    trace,
    random: random.fork('node'),
    trouble: () => trouble.now,
    // Each of these brings more pods than an ordinary world has.
    addresses: 12 * 2 ** [withPools, withTenant, focus !== undefined].filter(Boolean).length,
    endChances: emphasis.ends,
    gates: emphasis.gates === true ? random.fork('gates') : undefined,
    ...(ground === undefined ? {} : { network: `10.0.${ground.shard}` }),
    ...(messages ? { steps: random.fork('steps') } : {}),
    ...(ends ? { ends: random.fork('ends') } : {}),
    ...(traits.stuckAfterMs === undefined ? {} : { stalls: random.fork('stalls') }),
  });
  const operators: OperatorProcess[] = ground?.operators ?? [];
  // Registering takes longer than anything that is counted, and the metrics have no reader.
  const metrics = createMetrics();
  const isOperator = (actor: string) => operators.some(({ name }) => actor.startsWith(`${name}.`));
  const machineOf = (actor: string) =>
    operators.find(({ machine }) => machine?.name === actor)?.machine;
  const findings = new Findings();
  const clocksAreRight = () => ground?.clocksAreRight() ?? blows.clocksAreRight;
  const safety = new Safety({
    cluster,
    node,
    scheduler,
    keys,
    isOperator,
    stuckAfterMs: traits.stuckAfterMs,
    clocksAreRight,
    keepsQuestions: emphasis.keepsQuestions === true,
    unknownMs: faults === 'none' ? 1_000 : 15_000,
  });
  const history = new SandboxHistory({ cluster, node, scheduler });
  const approvalCheck = new ApprovalCheck({ cluster, node, scheduler, findings, history });
  const knowledge: Knowledge = { unknownMs: 1_000 };
  const quotas = new Quotas({
    cluster,
    scheduler,
    random: random.fork('quotas'),
    untilMs: busyMs,
    owners: withTenant ? [tenant, ...owners] : owners,
    style: emphasis.quota,
    besidePools: withPools,
    unknownMs: () => knowledge.unknownMs,
  });
  if (withPools) new CapsCheck({ cluster, scheduler, unknownMs: () => knowledge.unknownMs });
  const tenantCheck = new TenantCheck({ cluster, node, findings });
  const hostileTenant = new Tenant({
    cluster,
    scheduler,
    owners,
    random: random.fork('tenant'),
    untilMs: busyMs,
    enabled: withTenant,
  });
  const wallClocks = () => operators.flatMap(({ machine }) => machine?.clock.now() ?? []);
  const retention = new Retention({
    cluster,
    scheduler,
    random: random.fork('retention'),
    isOperator,
    wallClocks,
    enabled: withRetention,
    untilMs: busyMs,
  });
  const { startDeadline } = traits;
  const admissionCheck = new AdmissionCheck({
    cluster,
    scheduler,
    isOperator,
    startDeadline,
    clocksAreRight,
  });
  const pools = new Pools({
    cluster,
    node,
    scheduler,
    random: random.fork('pools'),
    isOperator,
    admissionCheck,
    enabled: withPools,
    mayLoseNodes: faults === 'all',
    owners,
    untilMs: busyMs,
  });
  const interruptedRuns = new InterruptedRunsCheck({
    cluster,
    findings,
    holder: () => safety.holder,
  });
  if (world === 'shared') {
    new PassingFailureCheck({ cluster, node, history });
    new StartDeadlineCheck({ cluster, node, traffic, scheduler, history, startDeadline });
    new ActiveSinceCheck({ cluster, scheduler, history, machineOf, isOperator });
    const termOf = (actor: string) =>
      operators.find(({ name }) => actor.startsWith(`${name}.`))?.terms ?? 0;
    // Where conversations are deleted by their age, their status has another writer: the controller
    // that announces it.
    if (!withRetention)
      new OverwrittenVersionCheck({ cluster, traffic, scheduler, findings, isOperator, termOf });
    new RequestRateCheck({ traffic, findings, scheduler, isOperator });
    new OrphanedSandboxCheck({
      cluster,
      scheduler,
      isOperator,
      unknownMs: () => (knowledge.unknownMs > 1_000 ? 25_000 : 2_000),
    });
  }
  const limits = emphasis.limits ?? someLimits(random.fork('limits'));
  const commands = random.fork('commands');
  const steps =
    world === 'shared'
      ? new SandboxSteps({
          scheduler,
          outcomeOf: (command) => outcomeOf(command, commands.nextOf(command)),
        })
      : undefined;
  const answerDoubts =
    emphasis.answerDoubts === true ? new AnswerDoubts(random.fork('doubts')) : undefined;
  const count = faults.startsWith('of ') || shape.chance(0.5) ? 2 : 1;
  for (let index = 0; index < count && ground === undefined; index++) {
    operators.push(
      new OperatorProcess({
        name: `operator-${index}`,
        cluster,
        node,
        faultSchedule,
        scheduler,
        trace,
        keys,
        traffic,
        metrics,
        retention: retentionTimes,
        pageSize: traits.pageSize,
        minDelayMs: world === 'shared' ? 1 : 0,
        random: random.fork(`operator-${index}`),
        agentNetwork: {
          answerDoubts,
          keepsQuestions: emphasis.keepsQuestions,
          onRun: (conversation) => safety.operatorRuns(conversation),
          onInterruptSent: (actor, process, conversation) =>
            interruptedRuns.sent(actor, process.sandboxUid, conversation),
          outcomeOf: (command) => outcomeOf(command, commands.nextOf(command)),
          steps,
          onCommand: (process, command) => tenantCheck.commanded(process, command),
        },
      }),
    );
  }
  const users = new Users({
    cluster,
    node,
    faultSchedule,
    scheduler,
    trace,
    keys,
    busyMs,
    owners,
    answersAgents: (name) => !messages || !isAnsweredByResource(name),
    crowd: emphasis.crowd === true,
    random: random.fork('people'),
    agentNetwork: {
      onRun: (conversation) => {
        approvalCheck.approvedAtAgent(conversation);
        conversation.pausedByOwner = false;
        conversation.lost = false;
        conversation.continuations = 0;
        conversation.disruptions = 0;
      },
      // A person's own no is the end of it.
      onReject: (conversation) => {
        conversation.wanted = false;
      },
    },
  });
  const approvers = new Approvers({
    cluster,
    faultSchedule,
    scheduler,
    trace,
    busyMs,
    answersLate: emphasis.answersLate === true,
    random: random.fork('approvers'),
  });
  const messageSender = new MessageSender({
    cluster,
    faultSchedule,
    scheduler,
    trace,
    random: random.fork('letters'),
    busyMs,
  });
  const blows = new Faults({
    cluster,
    node,
    operators: ground?.strikes === false ? [] : operators,
    faultSchedule,
    scheduler,
    trace,
    random: random.fork('faults'),
    untilMs: busyMs,
    traits,
    world,
    outages,
    blows: emphasis.blows,
    chances: emphasis.chances,
    kind: faults === 'none' ? 'all' : faults,
  });
  const runWatch = new RunWatch({ cluster, node, scheduler });
  const agentWatch = new AgentWatch({
    cluster,
    node,
    scheduler,
    leadsSince: () =>
      operators
        .map((operator) => operator.leadsSince(ground?.shard))
        .find((since) => since !== undefined),
  });
  const hangs =
    traits.hangs && faults === 'all'
      ? new Hangs({ node, scheduler, trace, random: random.fork('hangs'), untilMs: busyMs })
      : undefined;
  const notifications = new Notifications({
    cluster,
    node,
    scheduler,
    trace,
    random: random.fork('notifications'),
    operators: ground?.listeners ?? operators,
    onDelivered: (process, conversation) => agentWatch.notified(process, conversation),
    onForged: (notification) => agentWatch.forged(notification),
  });
  const duties = new Duties({
    scheduler,
    pending: () => [
      ...dutiesOfSandboxes({
        cluster,
        node,
        scheduler,
        history,
        isNewcomer: (sandbox) => admissionCheck.isNewcomer(sandbox),
        clocksAreRight,
        hasRoom: (owner) => admissionCheck.hasRoom(owner),
      }),
      ...dutiesOfConversations({ cluster, scheduler, history, safety }),
      ...approvalCheck.duties(),
      ...dutiesOfRules(cluster),
      ...dutiesOfDisruptions(cluster),
      ...dutiesOfWarmSandboxes({
        cluster,
        isNewcomer: (sandbox) => admissionCheck.isNewcomer(sandbox),
        resumable: (owner) => quotas.resumable(owner),
      }),
      ...(clocksAreRight() ? retention.duties() : []),
    ],
  });
  new DecisionCheck({ cluster, scheduler, isPunctual: () => duties.isPunctual });
  const retryDelay = new RetryDelayCheck({
    traffic,
    findings,
    scheduler,
    leads: (actor) => safety.holder === actor,
    exists: (path) =>
      cluster.templates.some(({ metadata: { name } }) => path.includes(`/${name}/`)),
  });
  const exercise = new Exercise({
    cluster,
    node,
    // A hand-over would also delay what the other namespaces are due.
    operators: ground === undefined ? operators : [],
    scheduler,
    owners,
    duties,
    traffic,
    retryDelay,
    random: random.fork('exercise'),
    actions: emphasis.actions,
    messageSender,
    approvers,
  });

  node.onInterrupted = (conversation, sandboxUid, how, disrupted) => {
    const sandbox = cluster.sandboxOf(sandboxUid);
    const wanted = sandbox !== undefined && shouldRun(sandbox);
    // A start whose agent is lost before its answer came begins the run again, and can know of no
    // loss.
    const starts = cluster.conversations.some(
      (stored) =>
        conversationIdOf(stored) === conversation.id && !isStartOver(startStatusOf(stored)),
    );
    conversation.lost = wanted && !disrupted && !starts;
    if (how === 'killed' && wanted && disrupted) conversation.disruptions++;
    if (how === 'killed' && wanted && !disrupted) conversation.losses++;
    if (how !== 'killed' && world === 'shared')
      interruptedRuns.interrupted(sandboxUid, conversation);
    conversation.pausedByOwner = sandbox?.spec.replicas === 0;
    conversation.mayStayPaused = safety.pausedLately(sandboxUid);
  };
  // The wish of the owner counts more than the loss that came before.
  cluster.onChange(({ plural, object }) => {
    if (plural !== 'sandboxes' || shouldRun(object as Sandbox)) return;
    const claim = cluster.claims.find(({ metadata }) => metadata.name === object.metadata.name);
    const stored = node.volumeOf(claim?.metadata.uid ?? '')?.conversations.values() ?? [];
    // A run that was given up before keeps its losses, by which the checks judge whether that was
    // right.
    const isGivenUp = ({ id }: StoredConversation) =>
      cluster.conversations.some(
        (stored) =>
          conversationIdOf(stored) === id &&
          stored.status?.interruption?.abandonedReason !== undefined,
      );
    for (const conversation of stored) {
      if (!isGivenUp(conversation)) forgetLosses(object as Sandbox, conversation);
      if (isPausedByOwner(object as Sandbox)) allowPause(conversation);
    }
  });
  // An operator that sees a crash together with the deletion or the disruption of its pod can't
  // know which came first.
  cluster.onChange(({ plural, type, object }) => {
    if (plural !== 'pods' || type === 'DELETED') return;
    const { conditions } = (object as Pod).status ?? {};
    if (
      object.metadata.deletionTimestamp === undefined &&
      conditions?.some((one) => one.type === 'DisruptionTarget') !== true
    )
      return;
    const claim = cluster.claims.find(({ metadata }) => metadata.name === object.metadata.name);
    for (const conversation of node.volumeOf(claim?.metadata.uid ?? '')?.conversations.values() ??
      []) {
      if (conversation.lost) conversation.disruptions++;
      conversation.lost = false;
    }
  });
  node.onMessage = (text) => safety.delivered(text);
  node.onFirstMessage = (process, id) => safety.firstMessage(process, id);

  return {
    random,
    scheduler,
    trace,
    traits,
    cluster,
    faultSchedule,
    shape,
    busyMs,
    trouble,
    node,
    operators,
    safety,
    knowledge,
    quotas,
    admissionCheck,
    limits,
    users,
    blows,
    runWatch,
    agentWatch,
    hangs,
    notifications,
    duties,
    exercise,
    findings,
    interruptedRuns,
    whole: ground?.whole ?? cluster,
    busyNamespace: ground?.busyNamespace,
    world,
    faults,
    retention,
    pools,
    tenant: hostileTenant,
    tenantCheck,
    clocksAreRight,
    messageSender,
    approvers,
    approvalCheck,
    withMessages: messages,
  };
}

export type Stage = ReturnType<typeof stage>;

const isPausedByOwner = ({ spec }: Sandbox): boolean => spec.replicas !== 1;

/** A pause of the sandbox follows a loss: the pause counts, and the loss does not. */
function forgetLosses(sandbox: Sandbox, conversation: StoredConversation): void {
  conversation.continuations = 0;
  conversation.disruptions = 0;
  conversation.lost = false;
  if (isPausedByOwner(sandbox)) conversation.losses = 0;
}

/** After its owner's pause a run resumes on request, also one that the operator had abandoned. */
function allowPause(conversation: StoredConversation): void {
  // A conversation whose action was rejected for the pause is idle.
  if (conversation.status !== 'finished' && (conversation.status !== 'idle' || conversation.wanted))
    conversation.mayStayPaused = true;
}
