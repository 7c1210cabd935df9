import type { AgentClient, AgentConversation, AgentEndpoint } from '../../agent/agent.ts';
import { AgentError } from '../../agent/errors.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { Conversation } from '../../resources/conversation.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import type { AgentConfigurations } from './agent-configuration.ts';
import { cloneFailure, setupFailure, type PreparationLimits } from './preparation-failures.ts';
import { cloneScript, cloneUrlOf, projectFolder, setupScript, ticketFile, workspaceScript, type GitHosts } from './repository.ts';
import { StartErrorCode, StartFailure } from './start.ts';
import { lookCommand, reportOf, startCommand, type Step, type StepReport } from './step-command.ts';
import { lastWords } from '../readable-output.ts';

export interface PipelineOptions extends PreparationLimits {
  readonly agent: AgentClient;
  readonly gitHosts: GitHosts;
  readonly configurations: AgentConfigurations;
}

/** How a sandbox gets at what its owner's credential opens. */
export interface CloneAccess {
  /** Of this one repository, at the gateway. */
  readonly gatewayUrl: string;
  readonly ticket: string;
}

/** A step as it is. */
export interface Preparation {
  readonly report: StepReport;
  /** Why nothing more can come of it. */
  readonly failure: StartFailure | undefined;
  /** Of the working tree in the sandbox: absolute. */
  readonly workingDir: string;
}

/** How long the first call waits: most steps are over by then, and need no second one. */
const firstWaitSeconds = 3;
/** A worker is held meanwhile. */
const laterWaitSeconds = 1;
const callTimeoutSeconds = 20;

const workingDirOf = ({ folder }: StepReport): string => `${folder.replace(/\/$/, '')}/${projectFolder}`;

/** Where the gateway is, is nobody's business. */
function withoutGateway(output: string, gatewayUrl: string, url: string): string {
  const { hostname, host } = new URL(gatewayUrl);
  const shown = output.replaceAll(gatewayUrl, url);
  return hostname === new URL(url).hostname ? shown : shown.replaceAll(host, 'the gateway').replaceAll(hostname, 'the gateway');
}

const noModel = (template: string): string => `The agent needs a model: name one in the request, or in the sandbox template ${template}.`;

/** The steps of a start inside the sandbox. Each looks whether it is done already, so each can be taken again. */
export class StartPipeline {
  readonly #options: PipelineOptions;

  constructor(options: PipelineOptions) {
    this.#options = options;
  }

  get limits(): PreparationLimits {
    return this.#options;
  }

  /** For a conversation without a repository. Returns the absolute path of the folder that it works in. */
  async prepareWorkspace(endpoint: AgentEndpoint, signal: AbortSignal): Promise<string> {
    const { agent } = this.#options;
    const result = await agent.execute(endpoint, { command: workspaceScript, timeoutSeconds: callTimeoutSeconds }, { signal });
    const path = result.stdout.trimEnd().split('\n').at(-1) ?? '';
    if (result.exitCode === 0 && path.startsWith('/')) return path;
    throw new StartFailure(StartErrorCode.workspaceUnusable, `The workspace could not be prepared: ${lastWords(result.stderr)}`);
  }

  /** Clones and checks out. `begun`: it was running when it was looked at last. */
  async clone(
    { spec: { repository }, metadata: { uid } }: CachedConversation,
    endpoint: AgentEndpoint,
    { begun, access, signal }: { readonly begun: boolean; readonly access: () => CloneAccess | undefined; readonly signal: AbortSignal },
  ): Promise<Preparation> {
    const { agent, gitHosts: hosts, cloneTimeoutSeconds: timeoutSeconds, maxRepositoryMebibytes: maxMebibytes } = this.#options;
    if (repository === undefined) throw new Error('there is no repository to clone');
    // Throws for a provider that is not there, before anything is asked of the sandbox.
    const url = cloneUrlOf(repository, hosts);
    const name = 'clone';
    const known = access();
    const open = begun ? undefined : known;
    let report =
      begun || open !== undefined
        ? await this.#ask(endpoint, lookCommand({ name, id: uid }, begun ? laterWaitSeconds : 0), signal)
        : undefined;
    if (report === undefined || report.state === 'none' || report.state === 'lost') {
      const { gatewayUrl, ticket } = known ?? {};
      // In no command: those are kept on the volume, and stand in process lists.
      if (ticket !== undefined && report !== undefined)
        await agent.writeFile(endpoint, `${report.folder}/${ticketFile}`, ticket, { signal });
      const script = cloneScript({ repository, hosts, gatewayUrl: report === undefined ? undefined : gatewayUrl, maxMebibytes });
      report = await this.#begin(endpoint, { name, id: uid, script, timeoutSeconds }, signal);
    }
    if (known !== undefined) report = { ...report, output: withoutGateway(report.output, known.gatewayUrl, url) };
    return { report, failure: cloneFailure(report, repository, this.#options), workingDir: workingDirOf(report) };
  }

  /** Runs the repository's set-up script and installs its git hook, where it has them. */
  async setUp(
    { metadata: { uid } }: CachedConversation,
    endpoint: AgentEndpoint,
    begun: boolean,
    signal: AbortSignal,
  ): Promise<Preparation> {
    const step = { name: 'setup', id: uid, script: setupScript, timeoutSeconds: this.#options.setupTimeoutSeconds };
    let report = begun ? await this.#ask(endpoint, lookCommand(step, laterWaitSeconds), signal) : undefined;
    if (report === undefined || report.state === 'none' || report.state === 'lost') report = await this.#begin(endpoint, step, signal);
    return { report, failure: setupFailure(report, this.#options), workingDir: workingDirOf(report) };
  }

  /** Makes the agent accept the conversation under our id, with its first message: exactly once, however often this is called. */
  async createConversation(
    conversation: Conversation,
    endpoint: AgentEndpoint,
    workingDir: string,
    signal: AbortSignal,
  ): Promise<{ readonly created: boolean; readonly status: AgentConversation }> {
    const { agent, configurations } = this.#options;
    const { spec } = conversation;
    try {
      const hookConfig = await agent.hookConfig(endpoint, workingDir, { signal });
      return await agent.createConversation(
        endpoint,
        {
          id: conversationIdOf(conversation),
          uid: conversation.metadata.uid,
          workingDir,
          message: spec.initialMessage,
          ...(await configurations.of(conversation)),
          systemMessageSuffix: spec.agent?.systemMessageSuffix,
          hookConfig,
        },
        { signal },
      );
    } catch (error) {
      if (error instanceof AgentError && error.code === 'unconfigured') {
        throw new StartFailure(StartErrorCode.modelNotConfigured, noModel(spec.templateName), { cause: error });
      }
      // Refused once, refused always. Everything else may pass.
      if (error instanceof AgentError && error.code === 'refused') {
        throw new StartFailure(StartErrorCode.agentRefused, `The agent refused the conversation: ${error.message}`, { cause: error });
      }
      throw error;
    }
  }

  #begin(endpoint: AgentEndpoint, step: Step, signal: AbortSignal): Promise<StepReport> {
    return this.#ask(endpoint, startCommand(step, firstWaitSeconds), signal);
  }

  async #ask(endpoint: AgentEndpoint, command: string, signal: AbortSignal): Promise<StepReport> {
    const result = await this.#options.agent.execute(endpoint, { command, timeoutSeconds: callTimeoutSeconds }, { signal });
    const report = reportOf(result);
    if (report !== undefined) return report;
    // The step itself goes on; whoever asks again learns how it ends.
    if (result.timedOut) throw new AgentError('timeout', 'The sandbox is too busy to say how far the step is.');
    throw new StartFailure(StartErrorCode.workspaceUnusable, `The workspace can not be used: ${lastWords(result.stderr)}`);
  }
}
