import type { Container, Pod } from '@conversation-operator/kube/core';
import {
  goDuration,
  Waiting,
  initContainersOf,
  mainContainersOf,
  restartPolicyOf,
  type ContainerRecord,
  type Records,
} from './container-record.ts';

export interface Plan {
  readonly start: readonly string[];
  /** Reasons and messages to report for terminated containers during their back-off. */
  readonly waiting: ReadonlyMap<string, { readonly reason: string; readonly message: string }>;
  /** Delay until the next back-off ends; undefined when none is pending. */
  readonly nextInMs?: number;
}

type Verdict =
  | { readonly kind: 'start' | 'running' | 'done' | 'failed' }
  | { readonly kind: 'backOff'; readonly dueAtMs: number; readonly delayMs: number }
  | { readonly kind: 'retry'; readonly dueAtMs: number };

function verdictOn(
  pod: Pod,
  container: Container,
  record: ContainerRecord,
  nowMs: number,
): Verdict {
  const { state } = record;
  switch (state.kind) {
    case 'running':
      return { kind: 'running' };
    case 'waiting':
      if (state.retryAtMs !== undefined && state.retryAtMs > nowMs)
        return { kind: 'retry', dueAtMs: state.retryAtMs };
      return { kind: 'start' };
    case 'terminated': {
      const policy = restartPolicyOf(pod);
      const succeeded = state.run.exitCode === 0;
      const isInit = initContainersOf(pod).includes(container);
      if (succeeded && (isInit || policy !== 'Always')) return { kind: 'done' };
      if (!succeeded && policy === 'Never') return { kind: 'failed' };
      const dueAtMs = state.finishedAtMs + record.backOff;
      return dueAtMs > nowMs
        ? { kind: 'backOff', dueAtMs, delayMs: record.backOff }
        : { kind: 'start' };
    }
  }
}

/**
 * Returns what a kubelet does next for a pod: init containers run one after the other, then all
 * other containers together. Each container restarts after its back-off, by the restart policy.
 */
export function decide(pod: Pod, records: Records, nowMs: number): Plan {
  const start: string[] = [];
  const waiting = new Map<string, { reason: string; message: string }>();
  const dueAt: number[] = [];
  const check = (container: Container): Verdict => {
    const record = records.get(container.name);
    const verdict: Verdict =
      record === undefined ? { kind: 'failed' } : verdictOn(pod, container, record, nowMs);
    if (verdict.kind === 'start') start.push(container.name);
    if (verdict.kind === 'backOff') {
      waiting.set(container.name, {
        reason: Waiting.crashLoopBackOff,
        message: `back-off ${goDuration(verdict.delayMs)} restarting failed container=${container.name} pod=${pod.metadata.name}_${pod.metadata.namespace ?? ''}(${pod.metadata.uid})`,
      });
    }
    if (verdict.kind === 'backOff' || verdict.kind === 'retry') dueAt.push(verdict.dueAtMs);
    return verdict;
  };
  const isReady = (container: Container): boolean => check(container).kind === 'done';
  if (!isOver(pod, records) && initContainersOf(pod).every(isReady))
    mainContainersOf(pod).forEach(check);
  return {
    start,
    waiting,
    ...(dueAt.length === 0 ? {} : { nextInMs: Math.min(...dueAt) - nowMs }),
  };
}

/** Whether no container of the pod will ever run again. */
export function isOver(pod: Pod, records: Records): boolean {
  const ended = (container: Container, exitCodes: (exitCode: number) => boolean): boolean => {
    const state = records.get(container.name)?.state;
    return state?.kind === 'terminated' && exitCodes(state.run.exitCode);
  };
  const policy = restartPolicyOf(pod);
  if (policy === 'Always') return false;
  const failed = (container: Container) => ended(container, (exitCode) => exitCode !== 0);
  if (policy === 'Never' && initContainersOf(pod).some(failed)) return true;
  const mains = mainContainersOf(pod);
  return (
    mains.length > 0 &&
    mains.every((container) => ended(container, (exitCode) => policy === 'Never' || exitCode === 0))
  );
}
