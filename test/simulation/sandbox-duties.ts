import { isOwnedBy } from '@conversation-operator/kube/object';
import { isStartOver, startStatusOf, type Conversation } from '../../src/resources/conversation.ts';
import type { Sandbox } from '../../src/resources/sandbox.ts';
import { shouldRun, slotTaken, viewOfSandbox } from '../../src/status/sandbox-phase.ts';
import { durationMs, type SandboxTemplate } from '../../src/resources/sandbox-template.ts';
import type { AgentProcess } from './agent-process.ts';
import type { Cluster } from './cluster.ts';
import type { Duty } from './duties.ts';
import type { SimulatedNode } from './node.ts';
import type { SandboxHistory } from './sandbox-history.ts';
import type { Scheduler } from './scheduler.ts';

export interface SandboxDutiesOptions {
  readonly cluster: Cluster;
  readonly node: SimulatedNode;
  readonly scheduler: Scheduler;
  readonly history: SandboxHistory;
  /** Whether there is room for a newcomer of this owner under every limit. */
  readonly hasRoom: (owner: string) => boolean;
  readonly isNewcomer: (sandbox: Sandbox) => boolean;
  /** Whether all operators' clocks are right: idle and active times are differences of clocks. */
  readonly clocksAreRight: () => boolean;
}

/** Maximum time to do something that only needs the API server. */
const promptMs = 3_000;
/** How long a pause waits for an agent to stop its runs. */
const pauseBoundMs = 15_000;
/** Three calls to an agent that does not answer. */
const silentCallsMs = 30_000;
/** Maximum time until an agent that answers again is asked: one lost probe and the next delay. */
const probedMs = 6_000;
/** An operator that does not know a pod creation's outcome waits as long as it may be executed. */
const unsettledMs = 10_000;

/** Duties for sandboxes, by their spec, their admission, and the node's own record. */
export function dutiesOfSandboxes(options: SandboxDutiesOptions): readonly Duty[] {
  const { cluster, scheduler, history, hasRoom, isNewcomer } = options;
  const now = scheduler.monotonic();
  return cluster.sandboxes
    .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    .flatMap(ofSandbox);

  function ofSandbox(sandbox: Sandbox): readonly Duty[] {
    const { name, uid, generation } = sandbox.metadata;
    const agent = history.agentOf(uid);
    const pod = cluster.pods.find(({ metadata }) => metadata.name === name);
    const due = (
      rule: string,
      boundMs: number,
      occasion: number | string | undefined = '',
    ): readonly Duty[] => [{ rule, subject: `sandbox ${name} ${occasion}`, boundMs }];
    if (!shouldRun(sandbox)) {
      if (pod === undefined)
        return slotTaken(sandbox)
          ? due('a slot is released in time', unsettledMs + promptMs)
          : isNewcomer(sandbox) && hasRoom(sandbox.spec.owner)
            ? due('a sandbox is admitted in time when the quota has room', promptMs, generation)
            : [];
      if (!isOwnedBy(pod, sandbox) || pod.metadata.deletionTimestamp !== undefined) return [];
      return due(
        'a pause ends in time',
        pauseMs(history.agentToStop(uid)),
        history.of(uid)?.unwantedSince,
      );
    }
    const template = templateOf(sandbox);
    if (pod === undefined)
      return mayHavePod(sandbox, template)
        ? due('a pod is created in time', promptMs, history.of(uid)?.wantedSince)
        : [];
    if (
      agent?.podUid !== pod.metadata.uid ||
      pod.metadata.deletionTimestamp !== undefined ||
      !isAnswering(agent, now)
    )
      return [];
    if (viewOfSandbox(sandbox).phase !== 'RUNNING') {
      // Resumed before its container ended: what the pause was to interrupt is interrupted first.
      const stopping = (history.of(uid)?.unwantedSince ?? 0) > (agent.initialisedAt ?? Infinity);
      return due(
        'a sandbox whose agent answers is RUNNING in time',
        probedMs + (stopping ? pauseBoundMs : 0),
        `${agent.id} ${generation}`,
      );
    }
    return template === undefined || !options.clocksAreRight()
      ? []
      : [...idle(sandbox, template, agent), ...aged(sandbox, template)];
  }

  function templateOf({ spec }: Sandbox): SandboxTemplate | undefined {
    return cluster.templates.find(({ metadata }) => metadata.name === spec.templateName);
  }

  function usersOf(uid: string): readonly Conversation[] {
    return cluster.conversations.filter(({ status }) => status?.sandboxUID === uid);
  }

  function mayHavePod(sandbox: Sandbox, template: SandboxTemplate | undefined): boolean {
    const claim = cluster.claims.find(({ metadata }) => metadata.name === sandbox.metadata.name);
    const isFree =
      claim === undefined ||
      (isOwnedBy(claim, sandbox) && claim.metadata.deletionTimestamp === undefined);
    return template !== undefined && isFree;
  }

  /** An agent that is out of reach is called for as long as each call may take. */
  function pauseMs(agent: AgentProcess | undefined): number {
    if (agent === undefined) return promptMs;
    const troubled = agent.silentSince !== undefined || now < agent.troubledUntil + silentCallsMs;
    const busy =
      agent.running.length > 0 || [...agent.volume.conversations.values()].some(isAsking);
    return promptMs + (troubled ? pauseBoundMs + silentCallsMs : busy ? pauseBoundMs : 0);
  }

  function idle(sandbox: Sandbox, { spec }: SandboxTemplate, agent: AgentProcess): readonly Duty[] {
    if (spec.idleTimeout === undefined) return [];
    const timeoutMs = durationMs(spec.idleTimeout);
    const users = usersOf(sandbox.metadata.uid);
    const stored = [...agent.volume.conversations.values()];
    const works =
      agent.running.length > 0 ||
      stored.some((one) => isAsking(one) || (one.wanted && !one.mayStayPaused)) ||
      users.some(
        (user) =>
          !isStartOver(startStatusOf(user)) ||
          (user.spec.messages?.at(-1)?.number ?? 0) > (user.status?.messages?.lastDelivered ?? 0),
      );
    if (works) return [];
    const starts = users.map(({ status }) =>
      Date.parse(status?.start?.transitions.at(-1)?.time ?? ''),
    );
    const sinceMs =
      Math.max(
        ...[...starts, ...stored.map(({ updatedAt }) => updatedAt)].filter(Number.isFinite),
        0,
      ) -
      scheduler.now() +
      now;
    const since = Math.max(history.of(sandbox.metadata.uid)?.runningSince ?? now, sinceMs);
    if (now - since < timeoutMs) return [];
    // Asked for what it does at least four times within its timeout.
    const boundMs = timeoutMs / 4 + promptMs + probedMs;
    return [
      {
        rule: 'an idle sandbox is paused in time',
        subject: `sandbox ${sandbox.metadata.name}, idle since ${since.toFixed(0)}`,
        boundMs,
      },
    ];
  }

  function aged({ metadata }: Sandbox, { spec }: SandboxTemplate): readonly Duty[] {
    const since = history.of(metadata.uid)?.runningSince;
    if (
      spec.maxActiveTime === undefined ||
      since === undefined ||
      now - since < durationMs(spec.maxActiveTime)
    )
      return [];
    if (!usersOf(metadata.uid).every((user) => isStartOver(startStatusOf(user)))) return [];
    return [
      {
        rule: 'a sandbox is paused for its age in time',
        subject: `sandbox ${metadata.name} since ${since.toFixed(0)}`,
        boundMs: promptMs,
      },
    ];
  }
}

const isAsking = ({ status }: { readonly status: string }): boolean =>
  status === 'waiting_for_confirmation';

/** The agent answers, and has not been out of reach a moment ago. */
export const isAnswering = (agent: AgentProcess, now: number): boolean =>
  agent.listening && agent.silentSince === undefined && now >= agent.troubledUntil;
