import type { AcpSettings } from '../resources/acp-settings.ts';
import type {
  AgentContainer,
  AgentContainerOptions,
  AgentKindDefinition,
  AgentAnswer,
  AgentCallOptions,
  AgentEndpoint,
  AgentQuestion,
} from './agent.ts';
import { openhands } from './openhands.ts';
import type { z } from 'zod';
import { maxOptionLength, maxOptions, type ApprovalKind } from '../resources/approval.ts';
import { plainText } from '../resources/plain-text.ts';
import { isAgentError } from './errors.ts';
import { OpenHandsClient } from './openhands-client.ts';
import { pathOf } from './openhands-api.ts';
import { callHashOf } from './openhands-questions.ts';
import { acpApprovalSchema } from './wire.ts';

type AcpApproval = NonNullable<z.output<typeof acpApprovalSchema>['approval']>;

/**
 * Client for the ACP bridge, a server that runs an agent of the Agent Client Protocol. The bridge
 * gives each question an id, keeps questions and answers over a restart, and stores an answer
 * before it confirms the answer.
 */
export class AcpClient extends OpenHandsClient {
  override async question(
    endpoint: AgentEndpoint,
    id: string,
    options?: AgentCallOptions,
  ): Promise<AgentQuestion | undefined> {
    const path = `${pathOf(id)}/approval`;
    const { approval } = await this.api.get(endpoint, options, path, acpApprovalSchema);
    return approval === null ? undefined : acpQuestionOf(approval);
  }

  override async answer(
    endpoint: AgentEndpoint,
    id: string,
    { questionId, accept, option, reason }: AgentAnswer,
    options?: AgentCallOptions,
  ): Promise<void> {
    const body = { accept, reason, approval_id: questionId, option_id: option };
    await this.api.post(endpoint, options, `${pathOf(id)}/events/respond_to_confirmation`, {
      body,
    });
  }

  /** An ACP agent ends its turn with a text or an error when its model refuses a call. */
  override continueRun(
    endpoint: AgentEndpoint,
    id: string,
    options?: AgentCallOptions,
  ): Promise<void> {
    return this.api.run(endpoint, options, `${pathOf(id)}/run?continue=true`);
  }

  /** The ACP bridge accepts an answer that it has stored already, and refuses any other answer. */
  override async hadApproval(
    endpoint: AgentEndpoint,
    id: string,
    answer: AgentAnswer,
    options?: AgentCallOptions,
  ): Promise<boolean> {
    try {
      await this.answer(endpoint, id, answer, options);
      return true;
    } catch (error) {
      if (isAgentError(error, 'refused')) return false;
      throw error;
    }
  }

  override losableQuestions(): Promise<readonly string[]> {
    return Promise.resolve([]);
  }
}

const kinds: Readonly<Record<string, ApprovalKind>> = {
  execute: 'execute',
  edit: 'edit',
  delete: 'edit',
  move: 'edit',
};

/** Whether the end of the input says that an earlier version of the ACP bridge truncated it. */
const isShortened = (input: unknown): boolean =>
  typeof input === 'string' && /… \(\d+ characters omitted\)$/.test(input);
/** Maximum characters of a title in earlier versions of the ACP bridge. */
const maxEarlierTitle = 1_000;

function acpQuestionOf({
  id,
  title,
  tool_kind: tool,
  input,
  call_hash: rawHash,
  complete,
  secret_marker: hidden,
  options,
}: AcpApproval): AgentQuestion {
  const kind = kinds[tool] ?? 'other';
  return {
    id,
    kind,
    options: options
      .filter(({ option_id: optionId }) => isStorable(optionId))
      .slice(0, maxOptions)
      .map(({ option_id: optionId, name, kind: optionKind }) => ({
        id: optionId,
        name,
        kind: optionKind,
      })),
    // Some agents put the command only in the title. `rawHash` hashes the call with its secrets.
    callHash: callHashOf([tool, title, input ?? null, rawHash ?? null]),
    calls: [{ tool, kind, input: input ?? undefined, words: title }],
    hidden: hidden ?? undefined,
    isWhole: complete ?? (title.length < maxEarlierTitle && !isShortened(input)),
  };
}

/** Whether a resource can store the id unchanged. The answer to the agent has to repeat the id. */
const isStorable = (id: string): boolean => id !== '' && plainText(id, maxOptionLength) === id;

type Variables = AgentContainer['env'];
type McpServer = NonNullable<AcpSettings['mcpServers']>[number];

const variables = (env: Readonly<Record<string, string>> = {}): Variables =>
  Object.entries(env).map(([name, value]) => ({ name, value }));

/** An MCP server in the format that `session/new` of the Agent Client Protocol expects. */
const protocolServer = ({ name, type = 'http', url, command, args = [], env }: McpServer) =>
  url === undefined
    ? { name, command, args, env: variables(env) }
    : { type, name, url, headers: [] };

/**
 * Environment of the ACP bridge. The agent in the sandbox's status (`agentName`) takes precedence
 * over the template's agent, because the volume contains the sessions of `agentName`.
 */
function bridgeSettings({ agentName, acp = { allowAlways: false } }: AgentContainerOptions) {
  const { agent = '', command, mode, env, mcpServers, allowAlways } = acp;
  const isCommand = agentName === undefined && command !== undefined;
  return variables({
    // Both variables are set, so that no value of the template's container remains in effect.
    ACP_AGENT: isCommand ? '' : (agentName ?? agent),
    ACP_COMMAND: isCommand ? JSON.stringify(command) : '',
    ...(mode === undefined ? {} : { ACP_MODE: mode }),
    ...(env === undefined ? {} : { ACP_ENV: JSON.stringify(env) }),
    ...(mcpServers === undefined
      ? {}
      : { ACP_MCP_SERVERS: JSON.stringify(mcpServers.map(protocolServer)) }),
    ACP_ALLOW_ALWAYS: String(allowAlways),
  });
}

/** Agents of the Agent Client Protocol, behind a bridge with the API of openhands-agent-server. */
export const acp: AgentKindDefinition = {
  defaultPort: openhands.defaultPort,
  createClient: () => new AcpClient(),
  keepsQuestions: true,
  container: (options) => {
    const container = openhands.container(options);
    return { ...container, env: [...container.env, ...bridgeSettings(options)] };
  },
};
