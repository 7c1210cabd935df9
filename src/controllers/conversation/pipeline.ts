import type { AgentClient, AgentCommandResult, AgentConversation, AgentEndpoint } from '../../agent/agent.ts';
import { AgentError } from '../../agent/errors.ts';
import type { Conversation } from '../../resources/conversation.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import type { AgentConfigurations } from './agent-configuration.ts';
import { preparation, prepareScript, setupScript, type GitHosts } from './repository.ts';
import { StartErrorCode, StartFailure } from './start.ts';

export interface PipelineOptions {
  readonly agent: AgentClient;
  readonly gitHosts: GitHosts;
  readonly configurations: AgentConfigurations;
  /** How long a clone may take, in seconds. */
  readonly cloneTimeoutSeconds: number;
  /** How long the repository's set-up script may take, in seconds. */
  readonly setupTimeoutSeconds: number;
}

/** The end of what a command has printed, for people: bounded, and without control characters. */
function lastWords({ stdout, stderr }: AgentCommandResult): string {
  const text = (stderr.trim() === '' ? stdout : stderr).trim();
  const lines = text.split('\n').slice(-5).join('\n');
  // eslint-disable-next-line no-control-regex -- they are what is to go
  return lines.replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, '').slice(-1000);
}

const noModel = (template: string): string => `The agent needs a model: name one in the request, or in the sandbox template ${template}.`;

/** The steps of a start inside the sandbox. Each looks whether it is done already, so each can be taken again. */
export class StartPipeline {
  readonly #options: PipelineOptions;

  constructor(options: PipelineOptions) {
    this.#options = options;
  }

  get cloneTimeoutSeconds(): number {
    return this.#options.cloneTimeoutSeconds;
  }

  get setupTimeoutSeconds(): number {
    return this.#options.setupTimeoutSeconds;
  }

  /** Clones and checks out. Returns the absolute path of the working tree in the sandbox. */
  async prepareRepository(conversation: Conversation, endpoint: AgentEndpoint, signal: AbortSignal): Promise<string> {
    const { agent, gitHosts, cloneTimeoutSeconds } = this.#options;
    const { repository } = conversation.spec;
    const command = prepareScript(repository, gitHosts);
    const result = await agent.execute(endpoint, { command, timeoutSeconds: cloneTimeoutSeconds }, { signal });
    if (result.timedOut) {
      throw new StartFailure(StartErrorCode.repositoryUnavailable, `The repository could not be cloned within ${cloneTimeoutSeconds} s.`);
    }
    if (result.exitCode === preparation.branchNotFound) {
      throw new StartFailure(
        StartErrorCode.branchNotFound,
        `The repository ${repository?.name ?? ''} has no branch ${repository?.branch ?? ''}.`,
      );
    }
    const path = result.stdout.trimEnd().split('\n').at(-1) ?? '';
    if (result.exitCode !== 0 || !path.startsWith('/')) {
      const what =
        repository === undefined ? 'The workspace could not be prepared' : `The repository ${repository.name} could not be cloned`;
      throw new StartFailure(StartErrorCode.repositoryUnavailable, `${what}: ${lastWords(result)}`);
    }
    return path;
  }

  /** Runs the repository's set-up script, where it has one. */
  async setUp(endpoint: AgentEndpoint, signal: AbortSignal): Promise<void> {
    const { agent, setupTimeoutSeconds } = this.#options;
    const result = await agent.execute(endpoint, { command: setupScript, timeoutSeconds: setupTimeoutSeconds }, { signal });
    if (result.timedOut) {
      throw new StartFailure(
        StartErrorCode.setupFailed,
        `The set-up script .openhands/setup.sh did not end within ${setupTimeoutSeconds} s.`,
      );
    }
    if (result.exitCode !== 0) {
      const text = `The set-up script .openhands/setup.sh ended with exit code ${result.exitCode}: ${lastWords(result)}`;
      throw new StartFailure(StartErrorCode.setupFailed, text);
    }
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
}
