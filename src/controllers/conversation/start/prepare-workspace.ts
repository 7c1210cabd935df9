import { isoTime, type Clock } from '@conversation-operator/base/clock';
import { startStatusOf } from '../../../resources/conversation.ts';
import type { ConversationStatus, StartStep } from '../../../resources/conversation-status.ts';
import { defaultAgentKind } from '../../../resources/agent-settings.ts';
import type { Stores } from '../../caches.ts';
import type { OwnerSettingsReader } from '../owner-settings.ts';
import type { UnresponsiveAgents } from '../../agent-calls/unresponsive-agents.ts';
import { cloneAccessOf, type CloneAccessOptions } from './clone.ts';
import { commitIdentityOf, type CommitIdentity, gitAccessOf } from '../git/git-access.ts';
import type { Preparation, PreparationStep } from './preparation.ts';
import type { AgentStage, StageResult, StartScope } from './stage.ts';
import { withTransition } from './start-status.ts';
import type { StepDeadlines } from './step-deadlines.ts';
import { readable, tailOf } from '../../sandbox/readable-output.ts';
import type { StepReport } from './step-command.ts';

/** Maximum length of a step's output in the status, in characters. */
const maxOutputLength = 4096;
/** Minimum time between two writes of progress, because each one is an event for all watches. */
const progressMs = 5_000;

const stepOf = ({ start }: ConversationStatus, name: StartStep['name']): StartStep | undefined =>
  start?.steps?.find((step) => step.name === name);

export const isRunning = (status: ConversationStatus, name: StartStep['name']): boolean =>
  stepOf(status, name)?.state === 'running';

interface ReportedStep {
  readonly name: StartStep['name'];
  readonly report: Pick<StepReport, 'state' | 'exitCode' | 'output'>;
  readonly nowMs: number;
}

/** The status with the report of a step. Mere progress is recorded at most every `progressMs`. */
export function withStep(
  status: ConversationStatus,
  { name, report, nowMs }: ReportedStep,
): ConversationStatus {
  const { state: reported, exitCode, output: printed } = report;
  if (status.start === undefined) return status;
  const before = stepOf(status, name);
  const isOver = reported === 'done' || reported === 'exhausted';
  const state = !isOver ? 'running' : reported === 'done' && exitCode === 0 ? 'done' : 'failed';
  if (
    before?.state === state &&
    (state !== 'running' || nowMs - Date.parse(before.updatedAt) < progressMs)
  )
    return status;
  const now = new Date(nowMs).toISOString();
  const output = tailOf(readable(printed), maxOutputLength);
  const step: StartStep = {
    name,
    state,
    startedAt: before?.startedAt ?? now,
    updatedAt: now,
    ...(isOver ? { endedAt: now } : {}),
    ...(reported === 'done' ? { exitCode: Math.min(exitCode, 255) } : {}),
    ...(output === '' ? {} : { output }),
  };
  const others = (status.start.steps ?? []).filter((each) => each.name !== name);
  return { ...status, start: { ...status.start, steps: [...others, step] } };
}

/** Delay before the next report of a step. The delay grows, since most steps are short. */
export function pollAfterMs(
  status: ConversationStatus,
  name: StartStep['name'],
  nowMs: number,
): number {
  const ageMs = nowMs - Date.parse(stepOf(status, name)?.startedAt ?? '');
  if (ageMs > 60_000) return 5_000;
  return ageMs > 10_000 ? 2_000 : 500;
}

export interface PrepareWorkspaceOptions extends CloneAccessOptions {
  readonly preparation: Preparation;
  readonly deadlines: StepDeadlines;
  readonly unresponsiveAgents: UnresponsiveAgents;
  readonly clock: Clock;
  readonly stores: { readonly templates: Pick<Stores['templates'], 'get'> };
  readonly ownerSettings: Pick<OwnerSettingsReader, 'of'>;
}

/** Stages that prepare the folder in which the agent works: clone, then set-up. */
export function prepareWorkspace(options: PrepareWorkspaceOptions): readonly AgentStage[] {
  const { preparation, deadlines, unresponsiveAgents, clock, stores } = options;

  const begin: AgentStage = async ({ stored, status, sandbox, save }) => {
    const isWaiting = startStatusOf({ status }) === 'WAITING_FOR_SANDBOX';
    const preparing = isWaiting
      ? withTransition(status, { status: 'PREPARING_REPOSITORY', time: isoTime(clock) })
      : status;
    const next = deadlines.check({ stored, status: preparing, sandbox });
    // The write shows the step to watches before the work begins, and stores the name of the
    // sandbox, which must be in the status before the agent receives the conversation.
    const isSaved =
      stored.spec.repository !== undefined || stored.status?.sandboxName === undefined;
    return { status: isSaved ? await save(next) : next };
  };

  const clone: AgentStage = async (scope, endpoint) => {
    const { stored, status, sandbox, save, signal } = scope;
    const settingUp = (before: ConversationStatus) =>
      withTransition(before, { status: 'SETTING_UP_SKILLS', time: isoTime(clock) });
    const isPreparing = startStatusOf({ status }) === 'PREPARING_REPOSITORY';
    if (stored.spec.repository === undefined) {
      const git = gitAccessOf(scope, options);
      const workingDir = await preparation.prepareWorkspace(endpoint, git, signal);
      forgetFailures(scope);
      return { status: isPreparing ? settingUp(status) : status, workingDir };
    }
    if (!isPreparing) return { status };
    const step = await preparation.clone(stored, endpoint, {
      isRunning: isRunning(status, 'clone'),
      access: cloneAccessOf(scope, options),
      git: gitAccessOf(scope, options),
      signal,
    });
    forgetFailures(scope);
    const result = resultOf(status, 'clone', step);
    if (result.failure !== undefined || result.wait !== undefined) return result;
    const cloned = settingUp(result.status);
    const next = deadlines.check({ stored, status: cloned, sandbox });
    return { status: await save(next) };
  };

  const setUp: AgentStage = async (scope, endpoint) => {
    const { stored, status, signal } = scope;
    if (stored.spec.repository === undefined) return { status };
    const step = await preparation.setUp(stored, endpoint, {
      isRunning: isRunning(status, 'setup'),
      git: gitAccessOf(scope, options),
      identity: await identityFor(scope),
      signal,
    });
    forgetFailures(scope);
    return { ...resultOf(status, 'setup', step), workingDir: step.workingDir };
  };

  const identityFor = async ({
    stored,
    sandbox,
    signal,
  }: StartScope): Promise<CommitIdentity | undefined> => {
    const { metadata, spec } = stored;
    const template = stores.templates.get(metadata.namespace, spec.templateName);
    const settings = await options.ownerSettings.of(stored, signal);
    const kind = sandbox?.status?.agentKind ?? template?.spec.agent.kind ?? defaultAgentKind;
    return commitIdentityOf(settings, { git: template?.spec.git, kind });
  };

  const forgetFailures = ({ sandbox }: StartScope): void => {
    if (sandbox !== undefined) unresponsiveAgents.forget(sandbox.metadata.uid);
  };

  /** Records the report of a step. The start waits for a step that is not done. */
  const resultOf = (
    before: ConversationStatus,
    name: StartStep['name'],
    { report, failure }: PreparationStep,
  ): StageResult => {
    const nowMs = clock.now();
    const status = withStep(before, { name, report, nowMs });
    if (failure !== undefined) return { status, failure };
    return report.state === 'done'
      ? { status }
      : { status, wait: { afterMs: pollAfterMs(status, name, nowMs) } };
  };

  return [begin, clone, setUp];
}
