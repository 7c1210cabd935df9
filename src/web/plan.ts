import { isEvent, listOf, objectOf, textOf, type AgentEvent } from '../agent/event-kinds.ts';

export interface PlanStep {
  readonly text: string;
  readonly state: 'done' | 'doing' | 'open';
}

export interface Plan {
  readonly steps: readonly PlanStep[];
  /** Steps that are left out. */
  readonly more: number;
}

const maxSteps = 100;
const maxStepLength = 500;

/** States of the Agent Client Protocol and of OpenHands. */
const states: ReadonlyMap<string, PlanStep['state']> = new Map([
  ['completed', 'done'],
  ['done', 'done'],
  ['in_progress', 'doing'],
]);

function stepOf(given: unknown): PlanStep {
  const { content, title, status } = objectOf(given);
  const text = textOf(content) || textOf(title);
  return {
    text: text.length > maxStepLength ? `${text.slice(0, maxStepLength)}…` : text,
    state: states.get(textOf(status)) ?? 'open',
  };
}

/** The list of an event that has the whole plan; undefined for other events. */
function listIn(event: AgentEvent): unknown {
  if (event['key'] === 'plan') return event['value'];
  const { kind, command, task_list: tasks } = objectOf(event['action'] ?? event['observation']);
  const isPlan = kind === 'TaskTrackerObservation' || command === 'plan';
  return isPlan && textOf(kind).startsWith('TaskTracker') ? tasks : undefined;
}

/** The plan of the agent, as the last event with a plan has it. */
export function planOf(events: readonly AgentEvent[]): Plan {
  const last = events.findLast((event) => Array.isArray(listIn(event)));
  const list = listOf(last && listIn(last)).filter(isEvent);
  return { steps: list.slice(0, maxSteps).map(stepOf), more: Math.max(0, list.length - maxSteps) };
}

const timeOf = (event: AgentEvent): number => Date.parse(textOf(event['timestamp']));
const statusOf = (event: AgentEvent): unknown =>
  event['key'] === 'execution_status' ? event['value'] : undefined;

/** Milliseconds that the last run has taken; undefined where the events do not say that. */
export function lastRunMsOf(events: readonly AgentEvent[]): number | undefined {
  const begin = events.findLastIndex((event) => statusOf(event) === 'running');
  const [first, ...rest] = begin < 0 ? [] : events.slice(begin);
  const end = rest.find((event) => statusOf(event) !== undefined);
  if (first === undefined || end === undefined) return undefined;
  const ms = timeOf(end) - timeOf(first);
  return ms >= 0 ? ms : undefined;
}
