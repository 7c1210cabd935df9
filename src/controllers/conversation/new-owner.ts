import { readFileSync } from 'node:fs';
import type { Logger } from '@conversation-operator/base/logger';
import type { AgentClient } from '../../agent/agent.ts';
import { AgentError } from '../../agent/errors.ts';
import { shellCommand } from '../../agent/shell-quote.ts';
import { defaultAgentKind } from '../../resources/agent-settings.ts';
import type { AgentConfigurations } from './agent-configuration.ts';
import {
  commitIdentityOf,
  gitAccessOf,
  gitTokenScript,
  newTokenFile,
  type AgentGitOptions,
} from './git/git-access.ts';
import type { Stores } from '../caches.ts';
import type { PolledRun } from './execution/run-observer.ts';
import type { OwnerSettingsReader } from './owner-settings.ts';
import type { Scope } from './scope.ts';
import { agentSecretsOf, type AgentSecretsOptions } from './start/create-conversation.ts';

export interface NewOwnerOptions extends AgentGitOptions, AgentSecretsOptions {
  readonly keys: AgentGitOptions['keys'] & AgentSecretsOptions['keys'];
  readonly agent: Pick<AgentClient, 'execute' | 'setSecrets' | 'useLlm' | 'writeFile'>;
  readonly logger: Logger;
  readonly stores: Pick<Stores, 'templates'>;
  readonly configurations: AgentConfigurations;
  readonly ownerSettings: Pick<OwnerSettingsReader, 'of'>;
}

const timeoutSeconds = 20;
const program = readFileSync(new URL('./git/change-owner.sh', import.meta.url), 'utf8');

/**
 * Gives an agent whose sandbox has changed its owner the tokens, secrets and author of the new
 * owner. All keys of the sandbox have changed with the owner, so that what the agent had stored
 * opens nothing any more. Every call can be repeated.
 */
export class NewOwner {
  readonly #options: NewOwnerOptions;

  constructor(options: NewOwnerOptions) {
    this.#options = options;
  }

  /** Stores in the status that the agent has everything. Throws `AgentError` to be tried again. */
  async provide(scope: Scope, run: PolledRun): Promise<void> {
    const { handovers = 0 } = run.sandbox.spec;
    if (handovers === (scope.status.providedHandovers ?? 0)) return;
    await this.#provideGit(scope, run);
    await this.#provideSecrets(scope, run);
    scope.status = await scope.save({ ...scope.status, providedHandovers: handovers });
  }

  async #provideGit({ stored, signal }: Scope, { sandbox, endpoint }: PolledRun): Promise<void> {
    const { agent, stores, ownerSettings } = this.#options;
    const { metadata, spec } = stored;
    if (spec.repository === undefined) return;
    const template = stores.templates.get(metadata.namespace, spec.templateName);
    const settings = await ownerSettings.of(stored, signal);
    const kind = sandbox.status?.agentKind ?? template?.spec.agent.kind ?? defaultAgentKind;
    const { name, email, coAuthor } = {
      ...commitIdentityOf(settings, { git: template?.spec.git, kind }),
    };
    const author = shellCommand(program, ...[name, email, coAuthor].map((text) => text ?? ''));
    const git = gitAccessOf({ stored, sandbox }, this.#options);
    const commands = [author];
    if (git?.repository !== undefined) {
      const { stdout } = await agent.execute(
        endpoint,
        { command: 'pwd -P', timeoutSeconds },
        { signal },
      );
      const path = `${stdout.trim().replace(/\/$/, '')}/${newTokenFile}`;
      await agent.writeFile(endpoint, path, git.token, { signal });
      commands.push(gitTokenScript);
    }
    for (const command of commands) {
      const { exitCode, timedOut } = await agent.execute(
        endpoint,
        { command, timeoutSeconds },
        { signal },
      );
      if (timedOut)
        throw new AgentError('timeout', 'The sandbox is too busy to take the git settings.');
      // The agent may have made the folder unusable: then git asks for a password, and no more.
      if (exitCode !== 0)
        this.#options.logger.info('git settings of a new owner were not stored', {
          conversation: metadata.name,
          exitCode,
        });
    }
  }

  async #provideSecrets(
    { stored, signal }: Scope,
    { sandbox, endpoint, id }: PolledRun,
  ): Promise<void> {
    const { agent, ownerSettings, configurations, logger } = this.#options;
    const settings = await ownerSettings.of(stored, signal);
    const secrets = agentSecretsOf({ stored, sandbox }, settings, this.#options);
    const llm = await configurations.llmWithKey(stored, sandbox);
    const calls = [
      ...(secrets.length === 0 ? [] : [agent.setSecrets(endpoint, id, secrets, { signal })]),
      ...(llm === undefined ? [] : [agent.useLlm(endpoint, id, llm, { signal })]),
    ];
    for (const outcome of await Promise.allSettled(calls)) {
      if (outcome.status === 'fulfilled') continue;
      const error: unknown = outcome.reason;
      // An agent that does not know the call would refuse another attempt as well.
      const isUnknown =
        error instanceof AgentError && (error.code === 'not-found' || error.code === 'refused');
      if (!isUnknown) throw error;
      logger.info('the agent takes no settings of a new owner', {
        conversation: stored.metadata.name,
        code: error.code,
      });
    }
  }
}
