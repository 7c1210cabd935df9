import { isoTime, type Clock } from '@conversation-operator/base/clock';
import { startStatusOf } from '../../../resources/conversation.ts';
import type { ConversationStatus, StartStep } from '../../../resources/conversation-status.ts';
import { defaultAgentKind } from '../../../resources/agent-settings.ts';
import type { Stores } from '../../caches.ts';
import type { OwnerSettingsReader } from '../owner-settings.ts';
import type { UnresponsiveAgents } from '../../agent-calls/unresponsive-agents.ts';
import { cloneAccessOf, type CloneAccessOptions } from './clone-access.ts';
import { commitIdentityOf, type CommitIdentity } from '../git/commits.ts';
import { gitAccessOf } from '../git/git-access.ts';
import type { Preparation, PreparationStep } from './preparation.ts';
import type { AgentStageContext, Stage, StageResult, StartScope } from './stage.ts';
import { withTransition } from './start-status.ts';
import type { StepDeadlines } from './step-deadlines.ts';
import { isRunning, pollAfterMs, withStep } from './step-status.ts';

export interface PrepareWorkspaceOptions extends CloneAccessOptions {
  readonly preparation: Preparation;
  readonly deadlines: StepDeadlines;
  readonly unresponsiveAgents: UnresponsiveAgents;
  readonly clock: Clock;
  readonly stores: { readonly templates: Pick<Stores['templates'], 'get'> };
  readonly ownerSettings: Pick<OwnerSettingsReader, 'of'>;
}

/**
 * Stages that prepare the folder in which the agent works: the clone of the repository, then its
 * set-up.
 */
export function prepareWorkspace(
  options: PrepareWorkspaceOptions,
): readonly Stage<AgentStageContext>[] {
  const { preparation, deadlines, unresponsiveAgents, clock, stores } = options;

  const begin: Stage<AgentStageContext> = async ({ stored, status, sandbox }, { save }) => {
    const isWaiting = startStatusOf({ status }) === 'WAITING_FOR_SANDBOX';
    const preparing = isWaiting
      ? withTransition(status, 'PREPARING_REPOSITORY', isoTime(clock))
      : status;
    const next = deadlines.check({ stored, status: preparing, sandbox });
    // Watches see the step before it takes its time; and no agent receives a conversation before
    // the conversation names its sandbox.
    const isSaved =
      stored.spec.repository !== undefined || stored.status?.sandboxName === undefined;
    return { status: isSaved ? await save(next) : next };
  };

  const clone: Stage<AgentStageContext> = async (scope, { endpoint, save, signal }) => {
    const { stored, status, sandbox } = scope;
    const settingUp = (before: ConversationStatus) =>
      withTransition(before, 'SETTING_UP_SKILLS', isoTime(clock));
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

  const setUp: Stage<AgentStageContext> = async (scope, { endpoint, signal }) => {
    const { stored, status } = scope;
    if (stored.spec.repository === undefined) return { status };
    const step = await preparation.setUp(stored, endpoint, {
      isRunning: isRunning(status, 'setup'),
      git: gitAccessOf(scope, options),
      identity: await identityFor(scope, signal),
      signal,
    });
    forgetFailures(scope);
    return { ...resultOf(status, 'setup', step), workingDir: step.workingDir };
  };

  const identityFor = async (
    { stored, sandbox }: StartScope,
    signal: AbortSignal,
  ): Promise<CommitIdentity | undefined> => {
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
    const status = withStep(before, name, report, nowMs);
    if (failure !== undefined) return { status, failure };
    return report.state === 'done'
      ? { status }
      : { status, wait: { afterMs: pollAfterMs(status, name, nowMs) } };
  };

  return [begin, clone, setUp];
}
