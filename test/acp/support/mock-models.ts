import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { z } from 'zod';

/** A part of a user's message: the model answers with a text that names the task. */
export const task = (name: string): string => `[task ${name}]`;
/** A part of a user's message: the model calls the shell once, to append a line to the file. */
export const appendTask = (name: string, file: string): string => `[task ${name}: append ${file}]`;
/** A part of a user's message: the model says nothing to it for as long as the request is open. */
export const holdTask = (name: string): string => `[task ${name}: hold]`;
/** A part of a user's message: the model takes the steps of that script, one after the other. */
export const scriptTask = (name: string): string => `[task ${name}: script]`;
/** As `scriptTask`; a note of the bridge to continue goes on with the step that is next. */
export const storyTask = (name: string): string => `[task ${name}: story]`;
export const answerTo = (name: string): string => `This is about ${name}.`;
export const appendCommand = (file: string): string => `echo once >> ${file}`;
/**
 * Two commands with an equal beginning, which are the same behind a mask of credentials; the second
 * one makes another file.
 */
export function lookalikes(file: string, stolen: string): readonly [string, string] {
  const beginning = `${appendCommand(file)}; : '${'x'.repeat(700)} https://`;
  const end = "@git.example/acme/shop'";
  return [`${beginning}user:word${end}`, `${beginning}'; echo once >> ${stolen}; : '${end}`];
}

/** Matches a task in the last user message, or the bridge's note to an interrupted agent. */
const wishPattern =
  /\[task (?<name>[a-z0-9-]+)(?:: append (?<file>[a-z0-9.-]+)|: (?<hold>hold)|: (?<script>script|story))?\]|The user has (?<verdict>allowed|refused) this tool call.*?echo once >> (?<again>[a-z0-9.-]+)|Continue with the task/gs;

/** One message of a request, whatever the API. */
interface Said {
  readonly by: 'user' | 'model' | 'tool' | 'system';
  readonly text: string;
}

interface Asked {
  readonly messages: readonly Said[];
  readonly tools: readonly string[];
  readonly isStream: boolean;
}

/** First request of a turn, which has a message of the user as the last one. */
export interface PromptSeen {
  /** Name of its task; absent for a note of the bridge alone. */
  readonly name: string | undefined;
  readonly at: number;
  readonly body: string;
}

/**
 * A step of a script: a command of the shell, a call of another tool by the end of its name, or a
 * text, which ends the turn.
 */
export type Step =
  | { readonly command: string }
  | { readonly call: string; readonly input: object }
  | { readonly text: string };

type Reply =
  | { readonly text: string }
  /** The shell; some agents ask before a command only where the model says so. */
  | { readonly command: string; readonly tool: string; readonly asks: boolean }
  | { readonly tool: string; readonly input: object };
/** held: the model says nothing for as long as the request is open. */
type Decision = Reply | 'held';

const parts = z.array(z.looseObject({ type: z.string().optional(), text: z.string().optional() }));
const content = z.union([z.string(), parts]).nullish();
const textOf = (value: z.output<typeof content>): string =>
  typeof value === 'string' ? value : (value ?? []).map(({ text }) => text ?? '').join('\n');

const byRole = (role: string): Said['by'] => {
  if (role === 'user' || role === 'tool') return role;
  return role === 'system' || role === 'developer' ? 'system' : 'model';
};

/** Gemini has the model in the path. */
const modelSchema = z.looseObject({ model: z.string().optional() });
const chatSchema = z.looseObject({
  stream: z.boolean().optional(),
  messages: z.array(z.looseObject({ role: z.string(), content })),
  tools: z.array(z.looseObject({ function: z.looseObject({ name: z.string() }) })).optional(),
});
const responsesSchema = z.looseObject({
  input: z.array(z.looseObject({ type: z.string().optional(), role: z.string().optional() })),
  tools: z
    .array(
      z.looseObject({
        name: z.string().optional(),
        /** The tools of a namespace. */
        tools: z.array(z.looseObject({ name: z.string() })).optional(),
      }),
    )
    .optional(),
});
const messagesSchema = z.looseObject({
  stream: z.boolean().optional(),
  messages: z.array(z.looseObject({ role: z.string(), content })),
  tools: z.array(z.looseObject({ name: z.string() })).optional(),
});
const geminiSchema = z.looseObject({
  contents: z.array(
    z.looseObject({
      role: z.string().optional(),
      parts: z.array(
        z.looseObject({ text: z.string().optional(), functionResponse: z.unknown().optional() }),
      ),
    }),
  ),
  tools: z
    .array(
      z.looseObject({
        functionDeclarations: z.array(z.looseObject({ name: z.string() })).optional(),
      }),
    )
    .optional(),
});

const chunk = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`;
const event = (type: string, data: object): string => `event: ${type}\n${chunk({ type, ...data })}`;

/** One API of a model: how it is read, and how it answers. */
interface Api {
  /** Names of the shell among the tools of the agents. */
  readonly shells: readonly string[];
  read(body: unknown, path: string): Asked;
  /** Whole answer, or the parts of a stream. */
  write(reply: Reply, id: string, isStream: boolean): object | readonly string[];
}

const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
const description = 'Appends a line to a file';

/** Input of a tool, for shells that take a command, and but for OpenHands' its description. */
function inputOf(reply: Reply): object {
  if ('input' in reply) return reply.input;
  if ('text' in reply) return {};
  const { command, tool } = reply;
  return tool === 'terminal' ? { command } : { command, description };
}

const chatCompletions: Api = {
  shells: ['bash', 'Bash', 'run_shell_command', 'terminal'],
  read: (body) => {
    const { stream, messages, tools = [] } = chatSchema.parse(body);
    return {
      messages: messages.map(({ role, content: said }) => ({
        by: byRole(role),
        text: textOf(said),
      })),
      tools: tools.map((tool) => tool.function.name),
      isStream: stream === true,
    };
  },
  write: (reply, id, isStream) => {
    const message =
      'text' in reply
        ? { role: 'assistant', content: reply.text }
        : {
            role: 'assistant',
            tool_calls: [
              {
                index: 0,
                id: `call_${id}`,
                type: 'function',
                function: {
                  name: reply.tool,
                  arguments: JSON.stringify({
                    ...inputOf(reply),
                    ...(reply.tool === 'run_shell_command' ? { is_background: false } : {}),
                  }),
                },
              },
            ],
          };
    const finish_reason = 'text' in reply ? 'stop' : 'tool_calls';
    const about = { id, created: 1, model: 'm' };
    if (!isStream)
      return {
        ...about,
        object: 'chat.completion',
        usage,
        choices: [{ index: 0, message, finish_reason }],
      };
    const delta = (choice: object, more: object = {}) =>
      chunk({
        ...about,
        object: 'chat.completion.chunk',
        ...more,
        choices: [{ index: 0, finish_reason: null, ...choice }],
      });
    return [
      delta({ delta: message }),
      delta({ delta: {}, finish_reason }, { usage }),
      'data: [DONE]\n\n',
    ];
  },
};

/** The name of a function and that of its namespace, which `read` has joined. */
function functionOf(tool: string): object {
  const [first = '', name] = tool.split('/');
  return name === undefined ? { name: first } : { namespace: first, name };
}

const responses: Api = {
  shells: ['exec_command', 'shell_command', 'shell'],
  read: (body) => {
    const { input, tools = [] } = responsesSchema.parse(body);
    return {
      messages: input.map((item) => ({
        by: item.type?.endsWith('_output') === true ? 'tool' : byRole(item.role ?? ''),
        text: textOf(content.safeParse(item['content']).data),
      })),
      tools: tools.flatMap(({ name = '', tools: inside }) =>
        inside === undefined ? name : inside.map((tool) => `${name}/${tool.name}`),
      ),
      isStream: true,
    };
  },
  write: (reply, id) => {
    const item =
      'text' in reply
        ? {
            id: `m_${id}`,
            type: 'message',
            role: 'assistant',
            status: 'completed',
            content: [{ type: 'output_text', text: reply.text, annotations: [] }],
          }
        : {
            id: `f_${id}`,
            type: 'function_call',
            call_id: `call_${id}`,
            ...functionOf(reply.tool),
            status: 'completed',
            arguments: JSON.stringify(
              'input' in reply
                ? reply.input
                : {
                    ...(reply.tool === 'exec_command'
                      ? { cmd: reply.command }
                      : reply.tool === 'shell'
                        ? { command: ['bash', '-lc', reply.command] }
                        : { command: reply.command }),
                    ...(reply.asks
                      ? { sandbox_permissions: 'require_escalated', justification: description }
                      : {}),
                  },
            ),
          };
    const response = (status: string, output: readonly object[]) => ({
      response: {
        id: `r_${id}`,
        object: 'response',
        created_at: 1,
        status,
        model: 'm',
        output,
        usage: {
          input_tokens: 10,
          input_tokens_details: { cached_tokens: 0 },
          output_tokens: 5,
          output_tokens_details: { reasoning_tokens: 0 },
          total_tokens: 15,
        },
      },
    });
    return [
      event('response.created', response('in_progress', [])),
      event('response.output_item.added', { output_index: 0, item }),
      ...('text' in reply
        ? [
            event('response.output_text.delta', {
              item_id: item.id,
              output_index: 0,
              content_index: 0,
              delta: reply.text,
            }),
          ]
        : []),
      event('response.output_item.done', { output_index: 0, item }),
      event('response.completed', response('completed', [item])),
    ];
  },
};

const messages: Api = {
  shells: ['Bash'],
  read: (body) => {
    const { stream, messages: said, tools = [] } = messagesSchema.parse(body);
    return {
      messages: said.flatMap((message): Said[] =>
        typeof message.content === 'string'
          ? [{ by: byRole(message.role), text: message.content }]
          : (message.content ?? []).map(({ type, text = '' }) => ({
              by: type === 'tool_result' ? 'tool' : byRole(message.role),
              text,
            })),
      ),
      tools: tools.map(({ name }) => name),
      isStream: stream === true,
    };
  },
  write: (reply, id, isStream) => {
    const input = inputOf(reply);
    const block =
      'text' in reply
        ? { type: 'text', text: reply.text }
        : { type: 'tool_use', id: `toolu_${id}`, name: reply.tool, input };
    const stop_reason = 'text' in reply ? 'end_turn' : 'tool_use';
    const about = { id: `m_${id}`, type: 'message', role: 'assistant', model: 'm' };
    const tokens = { input_tokens: 10, output_tokens: 5 };
    if (!isStream) return { ...about, content: [block], stop_reason, usage: tokens };
    const [begun, delta] =
      'text' in reply
        ? [
            { ...block, text: '' },
            { type: 'text_delta', text: reply.text },
          ]
        : [
            { ...block, input: {} },
            { type: 'input_json_delta', partial_json: JSON.stringify(input) },
          ];
    return [
      event('message_start', {
        message: { ...about, content: [], stop_reason: null, usage: tokens },
      }),
      event('content_block_start', { index: 0, content_block: begun }),
      event('content_block_delta', { index: 0, delta }),
      event('content_block_stop', { index: 0 }),
      event('message_delta', { delta: { stop_reason }, usage: { output_tokens: 5 } }),
      event('message_stop', {}),
    ];
  },
};

const gemini: Api = {
  shells: ['run_shell_command'],
  read: (body, path) => {
    const { contents, tools = [] } = geminiSchema.parse(body);
    return {
      messages: contents.flatMap(({ role = 'user', parts: said }) =>
        said.map(({ text = '', functionResponse }) => ({
          by: functionResponse === undefined ? byRole(role) : ('tool' as const),
          text,
        })),
      ),
      tools: tools.flatMap(({ functionDeclarations = [] }) =>
        functionDeclarations.map(({ name }) => name),
      ),
      isStream: path.includes('stream'),
    };
  },
  write: (reply, _id, isStream) => {
    const part =
      'text' in reply
        ? { text: reply.text }
        : { functionCall: { name: reply.tool, args: inputOf(reply) } };
    const answer = {
      candidates: [{ content: { role: 'model', parts: [part] }, finishReason: 'STOP', index: 0 }],
      usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 5, totalTokenCount: 15 },
      modelVersion: 'm',
    };
    return isStream ? [chunk(answer)] : answer;
  },
};

function apiOf(path: string): Api | undefined {
  if (path.endsWith('/chat/completions')) return chatCompletions;
  if (path.endsWith('/responses')) return responses;
  if (path.endsWith('/messages')) return messages;
  return /:(?:stream)?generateContent$/i.test(path) ? gemini : undefined;
}

/**
 * A model behind four APIs at one address: chat completions and responses of OpenAI, messages of
 * Anthropic, Gemini. The last message of the user decides each answer.
 */
export class MockModels implements AsyncDisposable {
  /** Answers by the name of the model in the request, each with the same usage. */
  readonly served = new Map<string, number>();
  readonly #server: Server;
  readonly #prompts: PromptSeen[] = [];
  readonly #scripts = new Map<string, readonly Step[]>();
  /** Commands by the file of their task: the one before, and the one after a verdict. */
  readonly #turns = new Map<string, readonly [string, string]>();
  readonly #requests: { readonly name: string; readonly asked: Asked; readonly body: string }[] =
    [];
  #replies = 0;
  #calls = 0;

  private constructor() {
    this.#server = createServer((request, response) => {
      this.#calls++;
      this.#take(request, response).catch((error: unknown) => {
        response
          .writeHead(400, { 'content-type': 'application/json' })
          .end(JSON.stringify({ error: { message: String(error) } }));
      });
    });
  }

  static async start(): Promise<MockModels> {
    const models = new MockModels();
    models.#server.listen(0, '127.0.0.1');
    await once(models.#server, 'listening');
    return models;
  }

  get baseUrl(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Requests so far, whatever they ask for. */
  get calls(): number {
    return this.#calls;
  }

  /** The prompts with the message of a task as the last message. */
  prompts(name: string): readonly PromptSeen[] {
    return this.#prompts.filter((prompt) => prompt.name === name);
  }

  /** The prompts with a note of the bridge alone. */
  notes(): readonly PromptSeen[] {
    return this.#prompts.filter(({ name }) => name === undefined);
  }

  /** Sets the steps of a script, after which the model answers with a text about the task. */
  script(name: string, ...steps: readonly Step[]): void {
    this.#scripts.set(name, steps);
  }

  /** Sets the commands for a file's task; the second follows once the first was allowed. */
  turn(file: string, commands: readonly [string, string]): void {
    this.#turns.set(file, commands);
  }

  /** Names of the tools in the first request of a script. */
  toolsOf(name: string): readonly string[] {
    return this.#requests.find((request) => request.name === name)?.asked.tools ?? [];
  }

  /** The requests of a script, oldest first. */
  requestsOf(name: string): readonly string[] {
    return this.#requests.filter((request) => request.name === name).map(({ body }) => body);
  }

  /** The last request of a script, which has the outputs of all its steps. */
  lastRequest(name: string): string {
    return this.requestsOf(name).at(-1) ?? '';
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const part of request) chunks.push(part as Buffer);
    const path = (request.url ?? '').split('?')[0] ?? '';
    const api = apiOf(path);
    if (request.method !== 'POST' || api === undefined) {
      response
        .writeHead(404, { 'content-type': 'application/json' })
        .end('{"error":{"message":"unknown path"}}');
      return;
    }
    const body = Buffer.concat(chunks).toString();
    const parsed: unknown = JSON.parse(body);
    const asked = api.read(parsed, path);
    const reply = this.#reply(api, asked, body);
    if (reply === 'held') {
      await once(response, 'close');
      return;
    }
    const { model = '' } = modelSchema.parse(parsed);
    this.served.set(model, (this.served.get(model) ?? 0) + 1);
    const written = api.write(reply, String(++this.#replies), asked.isStream);
    response.writeHead(200, {
      'content-type': asked.isStream ? 'text/event-stream' : 'application/json',
    });
    response.end(Array.isArray(written) ? written.join('') : JSON.stringify(written));
  }

  #reply({ shells }: Api, { messages: said, tools }: Asked, body: string): Decision {
    const wishes = said.flatMap(({ by, text }, index) =>
      by === 'user' ? [...text.matchAll(wishPattern)].map(({ groups }) => ({ index, groups })) : [],
    );
    const newest = wishes.at(-1);
    const isNote = newest?.groups?.['name'] === undefined;
    const story = wishes.findLast(({ groups }) => groups?.['script'] === 'story');
    const { index: last, groups: wish } = (isNote && story) || newest || { index: -1 };
    const { name, file, hold, script, verdict, again } = wish ?? {};
    const shell = shells.find((known) => tools.includes(known));
    const isFirst = said.slice(last + 1).every(({ by }) => by === 'user' || by === 'system');
    // Requests without a shell are for titles and the like.
    if (shell !== undefined && isFirst && last >= 0)
      this.#prompts.push({ name, at: performance.now(), body });
    if (shell !== undefined && isFirst && hold !== undefined) return 'held';
    if (shell !== undefined && script !== undefined && name !== undefined) {
      this.#requests.push({ name, asked: { messages: said, tools, isStream: true }, body });
      const step = this.#scripts.get(name)?.[said.slice(last + 1).filter(isOutput).length];
      if (step !== undefined) return replyOf(step, shell, tools);
    }
    const target = verdict === 'allowed' ? again : file;
    if (shell !== undefined && isFirst && target !== undefined) {
      const [command, next] = this.#turns.get(target) ?? [appendCommand(target)];
      return { tool: shell, command: (verdict && next) ?? command, asks: true };
    }
    return { text: answerTo(name ?? verdict ?? 'nothing') };
  }
}

const isOutput = ({ by }: Said): boolean => by === 'tool';

function replyOf(step: Step, shell: string, tools: readonly string[]): Reply {
  if ('text' in step) return step;
  if ('command' in step) return { tool: shell, command: step.command, asks: false };
  const tool = tools.find((name) => name.endsWith(step.call));
  return tool === undefined
    ? { text: `There is no tool ${step.call}.` }
    : { tool, input: step.input };
}
