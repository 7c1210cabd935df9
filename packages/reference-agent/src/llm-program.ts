import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type OpenAI from 'openai';
import type {
  ChatCompletion,
  ChatCompletionMessageToolCall,
  ChatCompletionTool,
} from 'openai/resources/chat/completions';
import * as z from 'zod/mini';
import {
  agentMessage,
  textContent,
  type EventBody,
  type Stats,
  stateEvent,
} from '@conversation-operator/agent-server/events';
import { failureOf } from '@conversation-operator/agent-server/drafts';
import type { Draft } from '@conversation-operator/agent-server/event-log';
import { historyOf, llmFailureOf } from './llm-messages.ts';
import { parseJson } from '@conversation-operator/agent-server/json';
import {
  RunFailure,
  type Model,
  type Program,
  type Run,
} from '@conversation-operator/agent-server/program';
import type { McpTool } from '@conversation-operator/agent-server/mcp-tools';
import {
  actionEvent,
  observationEvent,
  runTerminal,
  runTool,
} from '@conversation-operator/agent-server/tool-events';

const requestTimeoutMs = 300_000;
const defaultTimeoutSeconds = 120;
const maxTimeoutSeconds = 1800;
const maxSkillCharacters = 32_768;
/** Maximum consecutive identical commands. A run that reaches this number is stuck. */
const maxRepetitions = 4;

const prompt = (workingDir: string) =>
  `You are a software agent. You work in ${workingDir} by running shell commands with the terminal tool. Each command runs in a fresh \
/bin/sh there, without a terminal and without input. Read before you change something, and check what you have done. When the task \
is done, or can not be done, call finish with a short report.`;

const ownTools: ChatCompletionTool[] = [
  {
    type: 'function',
    function: {
      name: 'terminal',
      description: 'Runs a shell command and returns its output and exit code.',
      parameters: {
        type: 'object',
        properties: {
          command: { type: 'string' },
          timeout: {
            type: 'integer',
            description: `Seconds, ${defaultTimeoutSeconds} by default.`,
          },
        },
        required: ['command'],
      },
    },
  },
  {
    type: 'function',
    function: {
      name: 'finish',
      description: 'Ends the work on the task.',
      parameters: {
        type: 'object',
        properties: { message: { type: 'string' } },
        required: ['message'],
      },
    },
  },
];

/** Maximum number of MCP tools in a request to the model. */
const maxMcpTools = 100;
const maxDescriptionCharacters = 1_000;
const maxSchemaCharacters = 20_000;
/** Names of tools that the APIs of models accept. */
const toolName = /^[A-Za-z0-9_-]{1,64}$/;

/** Converts MCP tools for the model's API. Omits unusable names and schemas that are too large. */
const offeredTools = (tools: readonly McpTool[]): readonly ChatCompletionTool[] =>
  tools
    .filter(
      ({ name, inputSchema }) =>
        toolName.test(name) &&
        !['terminal', 'finish'].includes(name) &&
        JSON.stringify(inputSchema).length <= maxSchemaCharacters,
    )
    .slice(0, maxMcpTools)
    .map(({ name, description, inputSchema }) => ({
      type: 'function',
      function: {
        name,
        description: description.slice(0, maxDescriptionCharacters),
        parameters: { ...inputSchema },
      },
    }));

const terminalArguments = z.object({
  command: z.string(),
  timeout: z._default(
    z.number().check(z.minimum(1), z.maximum(maxTimeoutSeconds)),
    defaultTimeoutSeconds,
  ),
});
const finishArguments = z.object({ message: z.string() });
const toolArguments = z.record(z.string(), z.unknown());

interface Work {
  readonly client: OpenAI;
  readonly tools: readonly ChatCompletionTool[];
  /** Previous commands and other tool calls of the run, oldest first. */
  readonly commands: string[];
}

/**
 * Works on the task with a model behind an OpenAI-compatible chat completions API, with one tool
 * call at a time, until the model calls the tool `finish` or answers without a tool call.
 */
export class LlmProgram implements Program {
  readonly #settings: Model;

  constructor(settings: Model) {
    this.#settings = settings;
  }

  async work(run: Run): Promise<void> {
    if (run.pendingMessages().length === 0) return;
    // The import costs 25 ms and 5 MB, so only agents with a model import the client.
    const { default: Client } = await import('openai');
    const { baseUrl, apiKey, retries } = this.#settings;
    const client = new Client({
      baseURL: baseUrl ?? null,
      apiKey: apiKey ?? 'none',
      maxRetries: retries,
      timeout: requestTimeoutMs,
    });
    const commands: string[] = [];
    const work: Work = { client, tools: offeredTools(await run.mcpTools()), commands };
    for (let iteration = 0; iteration < run.maxIterations; iteration += 1) {
      run.checkpoint();
      if (await this.#step(run, work)) return;
      if (commands.length >= maxRepetitions && new Set(commands.slice(-maxRepetitions)).size === 1)
        throw stuck();
    }
    throw new RunFailure(
      'MaxIterationsReached',
      `The agent has reached the limit of ${run.maxIterations} steps without finishing.`,
      { classification: { kind: 'agent_action', retryable: true, user_action: 'none' } },
    );
  }

  /** Requests one response and executes its tool call. Returns true when the work is done. */
  async #step(run: Run, work: Work): Promise<boolean> {
    const seen = run.log.entries.length;
    const { completion, stats } = await this.#ask(run, work);
    const message = completion.choices[0]?.message;
    const text = message?.content ?? '';
    const [call] = message?.tool_calls ?? [];
    if (call === undefined) {
      await run.append(
        {
          event: agentMessage(text === '' ? '(The model returned an empty response.)' : text),
          handledThrough: seen,
        },
        stats,
      );
      return true;
    }
    // Further calls of the same response are dropped. The model repeats those that it still needs.
    return this.#act(run, { call, thought: text, responseId: completion.id, seen, stats }, work);
  }

  async #ask(
    run: Run,
    { client, tools }: Work,
  ): Promise<{ completion: ChatCompletion; stats: Draft }> {
    const messages = historyOf(
      await run.log.read(
        run.log.entries.filter(({ kind }) => kind !== 'ConversationStateUpdateEvent'),
      ),
    );
    const body = {
      model: this.#settings.model,
      messages: [{ role: 'system' as const, content: await systemPrompt(run) }, ...messages],
      tools: [...ownTools, ...tools],
    };
    try {
      const completion = await client.chat.completions.create(body, { signal: run.signal });
      return { completion, stats: { event: statsUpdate(run.stats, completion) } };
    } catch (error) {
      run.signal.throwIfAborted();
      throw llmFailureOf(error);
    }
  }

  async #act(
    run: Run,
    step: {
      readonly call: ChatCompletionMessageToolCall;
      readonly thought: string;
      readonly responseId: string;
      readonly seen: number;
      readonly stats: Draft;
    },
    { tools, commands }: Work,
  ): Promise<boolean> {
    const { call, thought, responseId, seen, stats } = step;
    const name = call.type === 'function' ? call.function.name : call.type;
    const given = call.type === 'function' ? parseJson(call.function.arguments) : undefined;
    const terminal = name === 'terminal' ? terminalArguments.safeParse(given).data : undefined;
    if (terminal !== undefined) {
      commands.push(terminal.command);
      const { command, timeout: timeoutSeconds } = terminal;
      const action = { toolCallId: call.id, responseId, thought, command, timeoutSeconds };
      await runTerminal(run, action, { after: [stats] });
      return false;
    }
    const id = randomUUID();
    const finish = name === 'finish' ? finishArguments.safeParse(given).data : undefined;
    const origin = { toolCallId: call.id, responseId, thought };
    if (finish !== undefined) {
      const { message } = finish;
      const observation = observationEvent(name, call.id, id, {
        kind: 'FinishObservation',
        content: textContent(message),
        is_error: false,
      });
      await run.append(
        { id, event: actionEvent(name, origin, given, { kind: 'FinishAction', message }) },
        { event: observation, handledThrough: seen },
        stats,
      );
      return true;
    }
    commands.push(`${name} ${JSON.stringify(given)}`);
    const isOffered = tools.some((tool) => tool.type === 'function' && tool.function.name === name);
    const data = isOffered ? toolArguments.safeParse(given).data : undefined;
    if (data !== undefined) {
      await runTool(run, { ...origin, name, given: data }, { after: [stats] });
      return false;
    }
    const event = actionEvent(name, origin, given, null);
    const error = `There is no tool ${name} that takes these arguments. Use terminal {command, timeout?} or finish {message}${tools.length === 0 ? '' : ', or another tool as it is described'}.`;
    await run.append({ id, event }, ...failureOf(event, error), stats);
    return false;
  }
}

const stuck = () =>
  new RunFailure(
    'Stuck',
    `The agent has repeated the same command ${maxRepetitions} times in a row.`,
    {
      classification: { kind: 'agent_action', retryable: false, user_action: 'none' },
      status: 'stuck',
    },
  );

async function systemPrompt(run: Run): Promise<string> {
  const rules = run.loadProjectSkills
    ? await readFile(join(run.workingDir, 'AGENTS.md'), 'utf8').catch(() => '')
    : '';
  return [
    prompt(run.workingDir),
    ...(rules === ''
      ? []
      : [`The repository's own rules (AGENTS.md):\n${rules.slice(0, maxSkillCharacters)}`]),
    ...(run.systemMessageSuffix === undefined ? [] : [run.systemMessageSuffix]),
  ].join('\n\n');
}

function statsUpdate(stats: Stats, { usage }: ChatCompletion): EventBody {
  const before = stats.usage_to_metrics['default']?.accumulated_token_usage;
  return stateEvent({
    key: 'stats',
    value: {
      usage_to_metrics: {
        default: {
          // The agent does not know the price of a token.
          accumulated_cost: 0,
          accumulated_token_usage: {
            prompt_tokens: (before?.prompt_tokens ?? 0) + (usage?.prompt_tokens ?? 0),
            completion_tokens: (before?.completion_tokens ?? 0) + (usage?.completion_tokens ?? 0),
          },
        },
      },
    },
  });
}
