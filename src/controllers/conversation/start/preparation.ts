import type { AgentClient, AgentEndpoint } from '../../../agent/agent.ts';
import { AgentError } from '../../../agent/errors.ts';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import { lastWords } from '../../readable-output.ts';
import { withoutGateway, type CloneAccess } from './clone-access.ts';
import { cloneScript, ticketFile } from './clone-script.ts';
import { cloneFailure, setupFailure, type PreparationLimits } from './preparation-failures.ts';
import { cloneUrlOf, type GitHosts } from './repository.ts';
import { projectFolder, setupScript, workspaceScript } from './setup-script.ts';
import { StartErrorCode, StartFailure } from './start-failure.ts';
import {
  reportCommand,
  reportOf,
  startCommand,
  type SandboxStep,
  type StepReport,
} from './step-command.ts';

export interface PreparationOptions extends PreparationLimits {
  readonly agent: AgentClient;
  readonly gitHosts: GitHosts;
}

/** Report of a step in the sandbox. */
export interface PreparationStep {
  readonly report: StepReport;
  /** Reason why the step has failed for good. */
  readonly failure: StartFailure | undefined;
  /** Absolute path of the working tree in the sandbox. */
  readonly workingDir: string;
}

/** Time that the first call waits for a step. Few steps need a second call. */
const firstWaitSeconds = 3;
/** Time that a later call waits for a step and holds a worker. */
const laterWaitSeconds = 1;
const callTimeoutSeconds = 20;

const workingDirOf = ({ folder }: StepReport): string =>
  `${folder.replace(/\/$/, '')}/${projectFolder}`;

/**
 * Runs the steps of a start inside the sandbox. A step that is done is not run again, so each call
 * can be repeated.
 */
export class Preparation {
  readonly #options: PreparationOptions;

  constructor(options: PreparationOptions) {
    this.#options = options;
  }

  /**
   * Creates the folder of a conversation without a repository. Returns the absolute path of the
   * folder.
   */
  async prepareWorkspace(endpoint: AgentEndpoint, signal: AbortSignal): Promise<string> {
    const { agent } = this.#options;
    const result = await agent.execute(
      endpoint,
      { command: workspaceScript, timeoutSeconds: callTimeoutSeconds },
      { signal },
    );
    const path = result.stdout.trimEnd().split('\n').at(-1) ?? '';
    if (result.exitCode === 0 && path.startsWith('/')) return path;
    throw new StartFailure(
      StartErrorCode.workspaceUnusable,
      `The workspace could not be prepared: ${lastWords(result.stderr)}`,
    );
  }

  /**
   * Clones the repository and checks out. `isRunning`: the last report says that the step is
   * running.
   */
  async clone(
    { spec: { repository }, metadata: { uid } }: CachedConversation,
    endpoint: AgentEndpoint,
    {
      isRunning,
      access,
      signal,
    }: {
      readonly isRunning: boolean;
      readonly access: CloneAccess | undefined;
      readonly signal: AbortSignal;
    },
  ): Promise<PreparationStep> {
    const {
      agent,
      gitHosts: hosts,
      cloneTimeoutSeconds: timeoutSeconds,
      maxRepositoryMebibytes: maxMebibytes,
    } = this.#options;
    if (repository === undefined) throw new Error('there is no repository to clone');
    const url = cloneUrlOf(repository, hosts);
    const step = { name: 'clone', id: uid };
    let report =
      isRunning || access !== undefined
        ? await this.#ask(endpoint, reportCommand(step, isRunning ? laterWaitSeconds : 0), signal)
        : undefined;
    if (report === undefined || report.state === 'none' || report.state === 'lost') {
      // The ticket is in a file and in no command, because the volume and process lists show
      // commands.
      if (access !== undefined && report !== undefined)
        await agent.writeFile(endpoint, `${report.folder}/${ticketFile}`, access.ticket, {
          signal,
        });
      const script = cloneScript({
        repository,
        hosts,
        gatewayUrl: report === undefined ? undefined : access?.gatewayUrl,
        maxMebibytes,
      });
      report = await this.#begin(endpoint, { ...step, script, timeoutSeconds }, signal);
    }
    if (access !== undefined)
      report = { ...report, output: withoutGateway(report.output, access.gatewayUrl, url) };
    return {
      report,
      failure: cloneFailure(report, repository, this.#options),
      workingDir: workingDirOf(report),
    };
  }

  /** Runs the set-up script of the repository and installs its git hook. */
  async setUp(
    { metadata: { uid } }: CachedConversation,
    endpoint: AgentEndpoint,
    { isRunning, signal }: { readonly isRunning: boolean; readonly signal: AbortSignal },
  ): Promise<PreparationStep> {
    const step = {
      name: 'setup',
      id: uid,
      script: setupScript,
      timeoutSeconds: this.#options.setupTimeoutSeconds,
    };
    let report = isRunning
      ? await this.#ask(endpoint, reportCommand(step, laterWaitSeconds), signal)
      : undefined;
    if (report === undefined || report.state === 'none' || report.state === 'lost')
      report = await this.#begin(endpoint, step, signal);
    return {
      report,
      failure: setupFailure(report, this.#options),
      workingDir: workingDirOf(report),
    };
  }

  #begin(endpoint: AgentEndpoint, step: SandboxStep, signal: AbortSignal): Promise<StepReport> {
    return this.#ask(endpoint, startCommand(step, firstWaitSeconds), signal);
  }

  async #ask(endpoint: AgentEndpoint, command: string, signal: AbortSignal): Promise<StepReport> {
    const result = await this.#options.agent.execute(
      endpoint,
      { command, timeoutSeconds: callTimeoutSeconds },
      { signal },
    );
    const report = reportOf(result);
    if (report !== undefined) return report;
    // The step proceeds, and a later call reports how the step ends.
    if (result.timedOut)
      throw new AgentError('timeout', 'The sandbox is too busy to report on the step.');
    throw new StartFailure(
      StartErrorCode.workspaceUnusable,
      `The workspace can not be used: ${lastWords(result.stderr)}`,
    );
  }
}
