import type { AgentClient, AgentEndpoint } from '../../../agent/agent.ts';
import { AgentError } from '../../../agent/errors.ts';
import type { CachedConversation } from '../../../resources/cached-conversation.ts';
import { lastWords } from '../../sandbox/readable-output.ts';
import { type CloneAccess, cloneScript, ticketFile } from './clone.ts';
import {
  commitHooks,
  type CommitIdentity,
  gitAccessScript,
  gitTokenScript,
  newTokenFile,
  withoutGateway,
  type GitAccess,
  type GitHosts,
} from '../git/git-access.ts';
import { cloneFailure, setupFailure, type PreparationLimits } from './preparation-failures.ts';
import { shellQuote, shellCommand } from '../../../agent/shell-quote.ts';
import { StartErrorCode, StartFailure } from './stage.ts';
import {
  reportCommand,
  reportOf,
  startCommand,
  type SandboxStep,
  type StepReport,
} from './step-command.ts';
import { readFileSync } from 'node:fs';

/** Folder of the working tree, below the agent's working directory. */
const projectFolder = 'project';

/** Creates a folder for a conversation without a repository, and prints its absolute path. */
export const workspaceScript = readFileSync(new URL('./workspace.sh', import.meta.url), 'utf8');

const setupProgram = readFileSync(new URL('./setup.sh', import.meta.url), 'utf8');

/**
 * A script that runs the repository's set-up script once for each clone, sets the author of
 * commits, and installs git hooks. Exits with the code of the set-up script.
 */
export const setupScriptFor = ({ name, email, coAuthor }: Partial<CommitIdentity> = {}): string =>
  shellCommand(setupProgram, ...commitHooks, ...[name, email, coAuthor].map((text) => text ?? ''));

export interface PreparationOptions extends PreparationLimits {
  readonly agent: AgentClient;
  readonly gitHosts: GitHosts;
}

interface StepCall {
  readonly isRunning: boolean;
  /** Access of the sandbox to git hosts. Undefined: the sandbox can not reach the gateway. */
  readonly git: GitAccess | undefined;
  readonly signal: AbortSignal;
}

export interface PreparationStep {
  readonly report: StepReport;
  /** Reason why the step has failed for good. */
  readonly failure: StartFailure | undefined;
  /** Absolute path of the working tree in the sandbox. */
  readonly workingDir: string;
}

/** Time that the first call waits for a step. Few steps need a second call. */
const firstWaitSeconds = 3;
/** Time that a later call, which occupies a worker, waits for a step that already runs. */
const laterWaitSeconds = 1;
const callTimeoutSeconds = 20;

const workingDirOf = ({ folder }: StepReport): string =>
  `${folder.replace(/\/$/, '')}/${projectFolder}`;

/** Runs the steps of a start in the sandbox. Calls are idempotent: no completed step runs again. */
export class Preparation {
  readonly #options: PreparationOptions;

  constructor(options: PreparationOptions) {
    this.#options = options;
  }

  /**
   * Creates the folder of a conversation without a repository, and the file of git's configuration
   * to which the agent's container refers. Returns the absolute path of the folder.
   */
  async prepareWorkspace(
    endpoint: AgentEndpoint,
    git: GitAccess | undefined,
    signal: AbortSignal,
  ): Promise<string> {
    const { agent, gitHosts } = this.#options;
    // Failures are ignored (`|| :`), because the image may lack git.
    const settings = git && `sh -c ${shellQuote(gitAccessScript(git, gitHosts))} >&2 || :\n`;
    const command = `${settings ?? ''}${workspaceScript}`;
    const result = await agent.execute(
      endpoint,
      { command, timeoutSeconds: callTimeoutSeconds },
      { signal },
    );
    const path = result.stdout.trimEnd().split('\n').at(-1) ?? '';
    if (result.exitCode === 0 && path.startsWith('/')) return path;
    throw new StartFailure(
      StartErrorCode.workspaceUnusable,
      `The workspace could not be prepared: ${lastWords(result.stderr)}`,
    );
  }

  /** Clones the repository. Afterwards, git in every shell of the sandbox can access the host. */
  async clone(
    { spec: { repository }, metadata: { uid } }: CachedConversation,
    endpoint: AgentEndpoint,
    { isRunning, access, git, signal }: StepCall & { readonly access: CloneAccess | undefined },
  ): Promise<PreparationStep> {
    const {
      agent,
      gitHosts: hosts,
      cloneTimeoutSeconds: timeoutSeconds,
      maxRepositoryMebibytes: maxMebibytes,
    } = this.#options;
    if (repository === undefined) throw new Error('there is no repository to clone');
    const step = { name: 'clone', id: uid };
    let report =
      isRunning || access !== undefined
        ? await this.#ask(endpoint, reportCommand(step, isRunning ? laterWaitSeconds : 0), signal)
        : undefined;
    if (report === undefined || report.state === 'none' || report.state === 'lost') {
      // The token is in a file, because commands are visible in process lists and on the volume.
      if (access !== undefined && report !== undefined)
        await agent.writeFile(endpoint, `${report.folder}/${ticketFile}`, access.ticket, {
          signal,
        });
      const script = cloneScript({
        repository,
        hosts,
        gatewayUrl: report === undefined ? undefined : access?.gatewayUrl,
        maxMebibytes,
        accessScript: git && gitAccessScript(git, hosts),
      });
      report = await this.#begin(endpoint, { ...step, script, timeoutSeconds }, signal);
    }
    report = this.#shown(report, git);
    const failure = cloneFailure(report, repository, this.#options);
    if (report.state === 'done' && failure === undefined && git?.repository !== undefined)
      await this.#leaveToken(endpoint, { folder: report.folder, token: git.token, signal });
    return { report, failure, workingDir: workingDirOf(report) };
  }

  /** Sets the author of commits, and runs the set-up script of the repository. */
  async setUp(
    { metadata: { uid } }: CachedConversation,
    endpoint: AgentEndpoint,
    {
      isRunning,
      git,
      identity,
      signal,
    }: StepCall & { readonly identity: CommitIdentity | undefined },
  ): Promise<PreparationStep> {
    const step = {
      name: 'setup',
      id: uid,
      script: setupScriptFor(identity),
      timeoutSeconds: this.#options.setupTimeoutSeconds,
    };
    let report = isRunning
      ? await this.#ask(endpoint, reportCommand(step, laterWaitSeconds), signal)
      : undefined;
    if (report === undefined || report.state === 'none' || report.state === 'lost')
      report = await this.#begin(endpoint, step, signal);
    report = this.#shown(report, git);
    return {
      report,
      failure: setupFailure(report, this.#options),
      workingDir: workingDirOf(report),
    };
  }

  /** Writes the git token to a file instead of a command, and renames the complete file. */
  async #leaveToken(
    endpoint: AgentEndpoint,
    {
      folder,
      token,
      signal,
    }: Readonly<Record<'folder' | 'token', string>> & Pick<StepCall, 'signal'>,
  ): Promise<void> {
    const { agent } = this.#options;
    await agent.writeFile(endpoint, `${folder}/${newTokenFile}`, token, { signal });
    const { exitCode, stderr, timedOut } = await agent.execute(
      endpoint,
      { command: gitTokenScript, timeoutSeconds: callTimeoutSeconds },
      { signal },
    );
    if (timedOut)
      throw new AgentError('timeout', 'The sandbox is too busy to store the token for git.');
    if (exitCode !== 0)
      throw new StartFailure(
        StartErrorCode.workspaceUnusable,
        `The token for git could not be stored: ${lastWords(stderr)}`,
      );
  }

  /** The report without terminal control sequences, credentials and the gateway's address. */
  #shown(report: StepReport, git: GitAccess | undefined): StepReport {
    const { gitHosts } = this.#options;
    return git === undefined
      ? report
      : { ...report, output: withoutGateway(report.output, git, gitHosts) };
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
    // The step proceeds, and a later call reports its outcome.
    if (result.timedOut)
      throw new AgentError('timeout', 'The sandbox is too busy to report on the step.');
    throw new StartFailure(
      StartErrorCode.workspaceUnusable,
      `The workspace can not be used: ${lastWords(result.stderr)}`,
    );
  }
}
