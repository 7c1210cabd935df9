import { ownerRemedyOf } from '../resources/owner-remedies.ts';
import {
  sandboxIdOf,
  sandboxStatusOf,
  templateOf,
  updatedAtOf,
  type Facts,
  isFailedStart,
} from './facts.ts';
import { groupOf } from './groups.ts';
import { ago, duration, since } from './durations.ts';
import type { ConversationRecord } from '../gateway/presenters/conversation.ts';
import type { StartTask } from '../gateway/presenters/start-task.ts';

/** The stages of a start in their order. `now` returns the text for a stage in progress. */
export const startStages = [
  { status: 'WORKING', name: 'Accepted', now: () => 'Accepted' },
  { status: 'WAITING_FOR_SANDBOX', name: 'Sandbox', now: () => 'Waiting for its sandbox' },
  {
    status: 'PREPARING_REPOSITORY',
    name: 'Repository',
    now: ({ request: { selected_repository: name } }: StartTask) =>
      name === null ? 'Preparing its folder' : `Cloning ${name}`,
  },
  { status: 'SETTING_UP_SKILLS', name: 'Set-up', now: () => 'Setting up' },
  { status: 'READY', name: 'Ready', now: () => 'Ready' },
] as const satisfies readonly {
  readonly status: StartTask['status'];
  readonly name: string;
  readonly now: (task: StartTask) => string;
}[];

/** Index of the stage that a start has reached, or in which it has failed. */
export const reachedStage = ({ status, failed_status: failed }: StartTask): number =>
  stageOf(failed ?? status) ?? 0;

/** Index of the current stage; undefined for a start that has failed. */
function stageOf(status: StartTask['status']): number | undefined {
  const stage = startStages.findIndex((one) => one.status === status);
  return stage < 0 ? undefined : stage;
}

export interface Around {
  readonly now: number;
  /** Titles of the conversations that a resume would pause; undefined if there are none. */
  readonly resumePauses?: string | undefined;
  readonly titleOf?: (id: string) => string | undefined;
  /** The position of a waiting sandbox in the queue, as sentences. */
  readonly placeOf?: (sandboxId: string) => string | undefined;
}

/** Replaces the ids of conversations in texts of the gateway by titles. */
export const withTitles = (text: string, titleOf: Around['titleOf']): string =>
  text.replaceAll(/conversation ([0-9a-f]{32})/g, (all, id: string) => {
    const title = titleOf?.(id);
    return title === undefined ? all : `“${title}”`;
  });

const ended = (text: string): string => (/[.!?…]”?$/.test(text) ? text : `${text}.`);
const joined = (...sentences: readonly (string | null | undefined)[]): string =>
  sentences
    .filter((text) => text !== null && text !== undefined && text !== '')
    .map((text) => ended(text ?? ''))
    .join(' ');

const causeOf = ({ sandbox, task }: Facts): string | undefined =>
  task?.error ?? sandbox?.status_detail ?? undefined;

function failure(facts: Facts): string {
  const reason = facts.conversation?.sandbox_status_reason ?? '';
  const template = templateOf(facts);
  const operators = `Ask the operators of this service${template === undefined ? '' : ` (template ${template})`}`;
  const cause = causeOf(facts) ?? `The sandbox has failed${reason === '' ? '' : `: ${reason}`}`;
  return joined(cause, ownerRemedyOf(reason) ?? operators);
}

function starting({ conversation, task, sandbox }: Facts, now: number): string {
  const stage = task === undefined || task.status === 'READY' ? undefined : stageOf(task.status);
  const present = stage === undefined ? undefined : startStages[stage];
  if (task === undefined || present === undefined)
    return joined(sandbox?.status_detail ?? 'The sandbox comes up');
  const detail = task.detail ?? sandbox?.status_detail;
  const isNews = detail !== null && detail !== undefined && conversation !== undefined;
  return joined(
    `${present.now(task)}, ${since(task.updated_at, now)}`,
    isNews ? detail : undefined,
  );
}

/** The question that waits for an answer, as a sentence; undefined without one. */
const asking = (conversation: Facts['conversation']): string | undefined => {
  const approval = conversation?.pending_approval ?? undefined;
  if (approval === undefined) return undefined;
  if (approval.kind === 'budget') return approval.summary;
  const what = approval.kind === 'execute' ? 'run' : 'use';
  return `Asks whether it may ${what} “${approval.title}”`;
};

/** The numbers of the pull requests, each with its state unless it is open. */
function pullRequestsOf({ pr_number, pull_requests }: ConversationRecord): string {
  const states = new Map(pull_requests.map(({ number, state }) => [number, state]));
  return pr_number
    .map((number) => {
      const state = states.get(number) ?? 'open';
      return state === 'open' ? `#${number}` : `#${number} (${state})`;
    })
    .join(', ');
}

/** The reason why the last answer had no effect, and what the user can do. */
const lost = (conversation: Facts['conversation']): readonly string[] =>
  conversation === undefined || conversation.lost_answer === null
    ? []
    : [conversation.lost_answer.message, 'Send a message to continue'];

/** The last message of the agent, unless the result of the run already says the same. */
function saidBy({ last_result: result }: ConversationRecord): string | undefined {
  const text = result?.message ?? '';
  return text === '' || result?.reason === 'model-not-configured' ? undefined : `“${text}”`;
}

const waits = {
  'rate-limit': "Waits for the model's rate limit",
  share: "Waits for its share of the model's key",
} as const satisfies Readonly<
  Record<NonNullable<ConversationRecord['model_wait']>['reason'], string>
>;

/** The wait of a call of a model, as a sentence; undefined once its time is past. */
function waiting({ model_wait: wait }: ConversationRecord, now: number): string | undefined {
  const leftMs = wait === null ? 0 : Date.parse(wait.until) - now;
  return wait === null || leftMs <= 0
    ? undefined
    : // The last second is still one.
      `${waits[wait.reason]}, ${duration(leftMs + 999)}`;
}

function running({ conversation }: Facts, now: number): string {
  if (conversation === undefined) return '';
  const { execution_status: status, execution_status_detail: detail, updated_at } = conversation;
  const numbers = pullRequestsOf(conversation);
  const result = conversation.last_result?.detail;
  switch (status) {
    case 'waiting_for_confirmation':
      return joined(
        asking(conversation) ?? detail ?? 'Asks for your confirmation',
        `Waiting for ${since(conversation.pending_approval?.requested_at ?? updated_at, now)}`,
      );
    case 'stuck':
      return joined(detail ?? 'The agent makes no progress', 'Send a message, or stop it');
    case 'error':
      return joined(detail ?? 'The run failed', 'Send a message to try again');
    case 'paused':
      return joined(
        ...lost(conversation),
        detail ?? 'The run was stopped',
        'A message continues it',
      );
    case 'finished':
      return joined(
        ...lost(conversation),
        result,
        `${result == null ? 'Done' : 'Ended'} ${ago(updated_at, now)}`,
        numbers === '' ? undefined : `Pull request ${numbers}`,
        saidBy(conversation),
      );
    case 'idle':
      return joined(...lost(conversation), result, detail ?? 'Waits for a message');
    case 'running':
    case null:
      return joined(
        detail,
        waiting(conversation, now) ?? `Running. Last activity ${ago(updated_at, now)}`,
      );
  }
}

const budgetExhausted = 'budget-exhausted';

/** The reason of a pause, as a sentence. */
function pauseOf({ conversation, sandbox }: Facts): string {
  const reason = conversation?.sandbox_status_reason ?? 'by its owner';
  if (sandbox?.status_detail != null) return sandbox.status_detail;
  return reason === budgetExhausted ? 'Paused: its budget is used up' : `Paused: ${reason}`;
}

/** How to continue a conversation whose budget is used up, unless a question or the detail does. */
const budgetRemedy = ({ conversation }: Facts): string | undefined =>
  conversation?.sandbox_status_reason === budgetExhausted &&
  conversation.pending_approval === null &&
  conversation.execution_status_detail === null
    ? 'An admin can raise the budget; one of a day, week or month also starts again by itself'
    : undefined;

function paused(facts: Facts, around: Around): string {
  const { conversation } = facts;
  const { resumePauses } = around;
  const asks = asking(conversation);
  // A question about a budget says why the run has stopped.
  const cause =
    conversation?.pending_approval?.kind === 'budget'
      ? ''
      : withTitles(pauseOf(facts), around.titleOf);
  return joined(
    asks,
    conversation?.pending_approval?.notice,
    ...lost(conversation),
    cause,
    budgetRemedy(facts),
    // While the run asks a question, the status detail only repeats the question.
    asks === undefined ? conversation?.execution_status_detail : undefined,
    conversation?.last_result?.detail,
    conversation && saidBy(conversation),
    resumePauses === undefined ? undefined : `Resume now would pause ${resumePauses}`,
  );
}

const waitOf = ({ conversation }: Facts): string =>
  conversation?.sandbox_status_reason === 'waiting-for-budget'
    ? 'Waiting for the budget for models, which an administrator can raise'
    : 'Waiting for room';

/** One or two sentences: the state, its cause, and how to fix it. */
export function sentenceOf(facts: Facts, around: Around): string {
  switch (sandboxStatusOf(facts)) {
    case 'STARTING':
      return groupOf(facts) === 'waiting'
        ? joined(
            around.placeOf?.(sandboxIdOf(facts) ?? ''),
            facts.sandbox?.status_detail ?? facts.task?.detail ?? waitOf(facts),
          )
        : starting(facts, around.now);
    case 'RUNNING':
      return running(facts, around.now);
    case 'PAUSED':
      return paused(facts, around);
    case 'ERROR':
      return failure(facts);
    case 'MISSING':
      return joined(
        causeOf(facts) ?? 'The sandbox does not exist any more',
        `Last activity ${ago(updatedAtOf(facts), around.now)}`,
      );
  }
}

/** Whether a message to the agent is possible: a placeholder for the field, or why not. */
type Reply =
  | { readonly isPossible: true; readonly placeholder: string }
  | { readonly isPossible: false; readonly why: string };

const possible = (placeholder: string): Reply => ({ isPossible: true, placeholder });
const impossible = (why: string): Reply => ({ isPossible: false, why });

/** Follows the rules by which the gateway accepts `send-message`. Pure. */
export function replyOf(facts: Facts): Reply {
  switch (sandboxStatusOf(facts)) {
    case 'RUNNING':
    case 'STARTING':
      return possible('Write to the agent');
    case 'PAUSED':
      return possible('Write to the agent. A message resumes the conversation.');
    case 'ERROR':
      return isFailedStart(facts)
        ? impossible('The start has failed: no agent takes messages here.')
        : possible('Write to the agent. A message starts its sandbox again.');
    case 'MISSING':
      return impossible(
        'The sandbox with the agent is deleted: you can read this conversation, not continue it.',
      );
  }
}

export interface Stored {
  /** `recorded`: the answer has not reached the agent yet. */
  readonly state: 'recorded' | 'delivered';
  /** The effect of the answer if the agent has forgotten its question. */
  readonly notice: string | null;
}

/** The page's sentence about an answer to a question of the agent, and the next step. Pure. */
export function outcomeOf(
  { state, notice }: Stored,
  { isRunning }: { readonly isRunning: boolean },
): string {
  if (state === 'delivered') return 'The agent has your answer.';
  const next = isRunning
    ? 'The agent gets it in a moment.'
    : 'The sandbox resumes and the agent gets it.';
  return `Stored. ${notice ?? next}`;
}
