import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { z } from 'zod';

/** A call of a tool, or a text, which ends a run. */
type Completion = { readonly tool: string; readonly arguments: object } | { readonly text: string };

/** Answers in the place of a completion. */
type Failure =
  | { readonly status: number; readonly retryAfterSeconds?: number }
  /** Never an answer; half of one that is JSON; a connection that is closed. */
  | 'hang'
  | 'malformed'
  | 'reset';

export type ModelAnswer =
  Completion | Failure | { readonly afterMs: number; readonly answer: Completion | Failure };

const messageSchema = z.object({
  role: z.string(),
  content: z
    .union([
      z.string(),
      z.array(z.looseObject({ type: z.string(), text: z.string().optional() })),
      z.null(),
    ])
    .optional(),
  tool_calls: z.array(z.unknown()).optional(),
  tool_call_id: z.string().optional(),
});

const bodySchema = z.looseObject({
  model: z.string(),
  messages: z.array(messageSchema),
  tools: z.array(z.looseObject({ function: z.looseObject({ name: z.string() }) })).optional(),
  stream: z.boolean().optional(),
  stream_options: z.looseObject({ include_usage: z.boolean().optional() }).optional(),
});

export interface ModelMessage {
  readonly role: string;
  readonly content: string;
  readonly tool_calls?: readonly unknown[];
}

export interface ModelRequest {
  readonly authorization: string | undefined;
  readonly model: string;
  readonly messages: readonly ModelMessage[];
  /** Names of the tools that the model may call. */
  readonly tools: readonly string[];
}

/** One script: the requests to it, and its remaining answers. */
interface Script {
  readonly answers: readonly ModelAnswer[];
  readonly requests: ModelRequest[];
}

export const tool = (command: string): Completion => ({ tool: 'terminal', arguments: { command } });
export const finish: Completion = { tool: 'finish', arguments: { message: 'all done' } };

/** A part of the user's message that names the script of the conversation. */
export const marker = (name: string): string => `[script ${name}]`;
const markerPattern = /\[script ([a-z0-9-]+)\]/;

/** The usage of each completion. */
export const usage = { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 };

/**
 * An OpenAI-compatible model that follows a script: nothing is random, and no time passes but what
 * an answer asks for. A request of a conversation whose user's message has a marker gets the next
 * answer of that script, any other one the next of those given at the start; the last answer again
 * and again. One without tools is for a title.
 */
export class ModelServer implements AsyncDisposable {
  readonly #scripts = new Map<string, Script>();
  readonly #server: Server;
  /** Requests for a title. */
  readonly titles: ModelRequest[] = [];

  private constructor(answers: readonly ModelAnswer[]) {
    this.script('', ...answers);
    this.#server = createServer((request, response) => {
      this.#take(request, response).catch((error: unknown) => {
        response
          .writeHead(400, { 'content-type': 'application/json' })
          .end(JSON.stringify({ error: { message: String(error) } }));
      });
    });
  }

  static async start(...answers: readonly ModelAnswer[]): Promise<ModelServer> {
    const model = new ModelServer(answers);
    await model.listen(0);
    return model;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get baseUrl(): string {
    return `http://127.0.0.1:${this.port}/v1`;
  }

  /** Sets the answers for conversations with this marker. */
  script(name: string, ...answers: readonly ModelAnswer[]): void {
    this.#scripts.set(name, { answers, requests: [] });
  }

  /** Requests other than those for titles: of a script, or of conversations without a marker. */
  requests(name = ''): readonly ModelRequest[] {
    return this.#scripts.get(name)?.requests ?? [];
  }

  /** Listens again after `close`. */
  async listen(port: number, host = '127.0.0.1'): Promise<void> {
    this.#server.listen(port, host);
    await once(this.#server, 'listening');
  }

  /** Closes the server: from then on nothing answers at its port. */
  async close(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#server.listening) await this.close();
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    if (request.method !== 'POST' || request.url !== '/v1/chat/completions') {
      response.writeHead(404).end();
      return;
    }
    const body = bodySchema.parse(JSON.parse(Buffer.concat(chunks).toString()));
    const asked = requestOf(body, request.headers.authorization);
    const stream =
      body.stream === true ? { withUsage: body.stream_options?.include_usage === true } : undefined;
    if ((body.tools ?? []).length === 0) {
      this.titles.push(asked);
      send(response, { text: 'A title' }, this.titles.length, stream);
      return;
    }
    const script = this.#scripts.get(markerOf(asked)) ?? { answers: [], requests: [] };
    script.requests.push(asked);
    const number = script.requests.length;
    const answer = script.answers[number - 1] ?? script.answers.at(-1) ?? 'hang';
    const isLate = typeof answer === 'object' && 'afterMs' in answer;
    if (isLate) await new Promise((resolve) => setTimeout(resolve, answer.afterMs));
    send(response, isLate ? answer.answer : answer, number, stream);
  }
}

const textOf = (content: z.output<typeof messageSchema>['content']): string =>
  typeof content === 'string' ? content : (content ?? []).map(({ text }) => text ?? '').join('\n');

const requestOf = (
  { model, messages, tools = [] }: z.output<typeof bodySchema>,
  authorization: string | undefined,
): ModelRequest => ({
  authorization,
  model,
  messages: messages.map(({ role, content, tool_calls: calls }) => ({
    role,
    content: textOf(content),
    ...(calls === undefined ? {} : { tool_calls: calls }),
  })),
  tools: tools.map((each) => each.function.name),
});

const markerOf = ({ messages }: ModelRequest): string =>
  messages
    .filter(({ role }) => role === 'user')
    .flatMap(({ content }) => markerPattern.exec(content)?.[1] ?? [])[0] ?? '';

function send(
  response: ServerResponse,
  answer: Completion | Failure,
  number: number,
  stream: { withUsage: boolean } | undefined,
): void {
  if (answer === 'hang') return;
  if (answer === 'reset') return void response.socket?.resetAndDestroy();
  if (answer === 'malformed')
    return void response
      .writeHead(200, { 'content-type': 'application/json' })
      .end('{"choices":[{"mess');
  if ('status' in answer) {
    const retry =
      answer.retryAfterSeconds === undefined
        ? {}
        : { 'retry-after': String(answer.retryAfterSeconds) };
    response.writeHead(answer.status, { 'content-type': 'application/json', ...retry });
    response.end(
      JSON.stringify({
        error: {
          message: `the model says ${answer.status}`,
          type: 'test',
          code: String(answer.status),
        },
      }),
    );
    return;
  }
  if (stream === undefined) {
    response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify(completion(answer, number)));
    return;
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  for (const chunk of chunksOf(answer, number, stream.withUsage))
    response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  response.end('data: [DONE]\n\n');
}

const head = (number: number, object: string) => ({
  id: `completion-${number}`,
  object,
  created: 0,
  model: 'm',
});
const finishReason = (answer: Completion) => ('text' in answer ? 'stop' : 'tool_calls');
const callOf = (answer: Extract<Completion, { tool: string }>, number: number) => ({
  id: `call-${number}`,
  type: 'function',
  function: { name: answer.tool, arguments: JSON.stringify(answer.arguments) },
});

const messageOf = (answer: Completion, number: number) =>
  'text' in answer
    ? { role: 'assistant', content: answer.text }
    : { role: 'assistant', content: null, tool_calls: [callOf(answer, number)] };

const completion = (answer: Completion, number: number) => ({
  ...head(number, 'chat.completion'),
  choices: [{ index: 0, finish_reason: finishReason(answer), message: messageOf(answer, number) }],
  usage,
});

function chunksOf(answer: Completion, number: number, withUsage: boolean): readonly object[] {
  const chunk = (delta: object, reason: string | null = null) => ({
    ...head(number, 'chat.completion.chunk'),
    choices: [{ index: 0, delta, finish_reason: reason }],
  });
  const halves = (text: string) => [text.slice(0, text.length / 2), text.slice(text.length / 2)];
  const deltas =
    'text' in answer
      ? halves(answer.text).map((content) => chunk({ content }))
      : halves(JSON.stringify(answer.arguments)).map((part, half) => {
          const { id, type } = callOf(answer, number);
          const call =
            half === 0
              ? { id, type, function: { name: answer.tool, arguments: part } }
              : { function: { arguments: part } };
          return chunk({ tool_calls: [{ index: 0, ...call }] });
        });
  return [
    chunk({ role: 'assistant', content: null }),
    ...deltas,
    chunk({}, finishReason(answer)),
    ...(withUsage ? [{ ...head(number, 'chat.completion.chunk'), choices: [], usage }] : []),
  ];
}
