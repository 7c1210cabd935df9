import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';

/** The way in which a provider treats a call. The default is a whole answer with its usage. */
export interface Behaviour {
  /** Tokens that the model reads and writes; default 10 and as many as the request allows. */
  readonly inputTokens?: number;
  readonly cachedTokens?: number;
  readonly outputTokens?: number;
  /** Usage in the answer in place of the true one; null: none. */
  readonly usage?: object | null;
  readonly firstByteMs?: number;
  /** Number of parts of a stream, and the time between two. */
  readonly parts?: number;
  readonly partMs?: number;
  /** Breaks the connection after this many parts. */
  readonly breaksAfter?: number;
  /** Answers in place of all the above. The input is charged, and nothing else. */
  readonly respond?: (response: ServerResponse) => void | Promise<void>;
  readonly fault?:
    | 'hang'
    | 'redirect'
    | 'html'
    | 'error-in-200'
    | 'endless'
    | 'reset'
    | 'garbage'
    | { readonly status: number; readonly headers?: Readonly<Record<string, string>> };
}

export interface ProviderCall {
  readonly path: string;
  /** Path and query as they came. */
  readonly target: string;
  readonly api: 'chat' | 'responses' | 'messages' | 'gemini';
  readonly headers: IncomingMessage['headers'];
  readonly body: Readonly<Record<string, unknown>>;
  readonly bytes: Buffer;
  readonly isStream: boolean;
  readonly maxTokens: number | undefined;
}

/** A request that is charged nothing, for example for the list of models. */
export type FreeCall = Pick<ProviderCall, 'target' | 'headers' | 'bytes'> & {
  readonly method: string;
};

export interface Prices {
  readonly inputPerMillion: number;
  readonly outputPerMillion: number;
  readonly cachedInputPerMillion?: number;
}

const apiOf = (path: string): ProviderCall['api'] | undefined => {
  if (path.endsWith('/chat/completions')) return 'chat';
  if (path.endsWith('/responses')) return 'responses';
  if (path.endsWith('/messages')) return 'messages';
  return /:(stream)?generateContent$/i.test(path) ? 'gemini' : undefined;
};

const objectOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};

function maxTokensOf(body: Readonly<Record<string, unknown>>): number | undefined {
  const config = objectOf(body['generationConfig']);
  const limits = [
    body['max_tokens'],
    body['max_completion_tokens'],
    body['max_output_tokens'],
    config['maxOutputTokens'],
  ];
  return limits.find((limit) => typeof limit === 'number');
}

interface Tokens {
  readonly input: number;
  readonly cached: number;
  readonly output: number;
}

const usageOf = (api: ProviderCall['api'], { input, cached, output }: Tokens): object => {
  switch (api) {
    case 'chat':
      return {
        prompt_tokens: input,
        completion_tokens: output,
        total_tokens: input + output,
        prompt_tokens_details: { cached_tokens: cached },
      };
    case 'responses':
      return {
        input_tokens: input,
        input_tokens_details: { cached_tokens: cached },
        output_tokens: output,
        total_tokens: input + output,
      };
    case 'messages':
      return {
        input_tokens: input - cached,
        cache_read_input_tokens: cached,
        output_tokens: output,
      };
    case 'gemini':
      return {
        promptTokenCount: input,
        cachedContentTokenCount: cached,
        candidatesTokenCount: output,
      };
  }
};

const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`;
const event = (type: string, value: object): string =>
  `event: ${type}\n${data({ type, ...value })}`;

/** Resolves when the client has read, or has left. */
export async function untilTaken(response: ServerResponse): Promise<void> {
  const over = new AbortController();
  const { signal } = over;
  const events = ['drain', 'close'].map((name) => once(response, name, { signal }));
  await Promise.race(events);
  over.abort();
  await Promise.allSettled(events);
}

/** A whole answer in the shape of the API. */
function answerOf(api: ProviderCall['api'], usage: object | null): object {
  switch (api) {
    case 'chat':
      return {
        id: 'c',
        object: 'chat.completion',
        model: 'm',
        choices: [
          { index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'Yes.' } },
        ],
        ...(usage === null ? {} : { usage }),
      };
    case 'responses':
      return {
        id: 'r',
        object: 'response',
        status: 'completed',
        output: [],
        ...(usage === null ? {} : { usage }),
      };
    case 'messages':
      return {
        id: 'm',
        type: 'message',
        role: 'assistant',
        content: [{ type: 'text', text: 'Yes.' }],
        stop_reason: 'end_turn',
        ...(usage === null ? {} : { usage }),
      };
    case 'gemini':
      return {
        candidates: [
          { content: { role: 'model', parts: [{ text: 'Yes.' }] }, finishReason: 'STOP' },
        ],
        ...(usage === null ? {} : { usageMetadata: usage }),
      };
  }
}

/** The events of a stream: what comes first, one part, and what comes last. */
function eventsOf(
  { api, body }: Pick<ProviderCall, 'api' | 'body'>,
  usage: object | null,
): readonly [first: string, part: string, last: string] {
  const asksUsage = objectOf(body['stream_options'])['include_usage'] === true;
  switch (api) {
    case 'chat':
      return [
        data({ choices: [{ index: 0, delta: { role: 'assistant' }, finish_reason: null }] }),
        data({ choices: [{ index: 0, delta: { content: 'word ' }, finish_reason: null }] }),
        data({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }) +
          (usage === null || !asksUsage ? '' : data({ choices: [], usage })) +
          'data: [DONE]\n\n',
      ];
    case 'responses':
      return [
        event('response.created', { response: { id: 'r', status: 'in_progress' } }),
        event('response.output_text.delta', { delta: 'word ' }),
        event('response.completed', { response: answerOf('responses', usage) }),
      ];
    case 'messages':
      return [
        event('message_start', {
          message: { id: 'm', type: 'message', ...(usage === null ? {} : { usage }) },
        }) + event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
        event('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'word ' } }),
        event('content_block_stop', { index: 0 }) +
          event('message_delta', {
            delta: { stop_reason: 'end_turn' },
            ...(usage === null ? {} : { usage }),
          }) +
          event('message_stop', {}),
      ];
    case 'gemini':
      return [
        '',
        data({ candidates: [{ content: { parts: [{ text: 'word ' }] } }] }),
        data(answerOf('gemini', usage)),
      ];
  }
}

/**
 * A provider of models behind four APIs, which knows what it charges: `chargedNanos` is the truth
 * about a budget, whatever the answer said and whether or not it arrived.
 */
export class ChargingProvider implements AsyncDisposable {
  readonly calls: ProviderCall[] = [];
  readonly freeCalls: FreeCall[] = [];
  /** Calls whose client left before the end of the answer. */
  readonly left: ProviderCall[] = [];
  /** Decides on each call. */
  behave: (call: ProviderCall, index: number) => Behaviour = () => ({});
  chargedNanos = 0;
  /** Calls that are being answered, and the most of them at once. */
  underWay = 0;
  peakUnderWay = 0;
  readonly #server: Server;
  readonly #prices: Prices;

  private constructor(prices: Prices) {
    this.#prices = prices;
    this.#server = createServer((request, response) => {
      // A client that leaves breaks the answer, which the charge does not depend on.
      this.#take(request, response).catch(() => response.destroy());
    });
  }

  static async start(
    prices: Prices = { inputPerMillion: 1, outputPerMillion: 10 },
  ): Promise<ChargingProvider> {
    const provider = new ChargingProvider(prices);
    provider.#server.listen(0, '127.0.0.1');
    await once(provider.#server, 'listening');
    return provider;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Cost of the tokens here, in 1e-9 USD. */
  nanosOf({ input, cached, output }: Tokens): number {
    const {
      inputPerMillion,
      outputPerMillion,
      cachedInputPerMillion = inputPerMillion,
    } = this.#prices;
    const perToken = (perMillion: number): number => perMillion * 1000;
    return (
      (input - cached) * perToken(inputPerMillion) +
      cached * perToken(cachedInputPerMillion) +
      output * perToken(outputPerMillion)
    );
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
    const bytes = Buffer.concat(chunks);
    const target = request.url ?? '';
    const path = target.split('?')[0] ?? '';
    const api = apiOf(path);
    const { headers, method = '' } = request;
    if (api === undefined || method !== 'POST') {
      this.freeCalls.push({ method, target, headers, bytes });
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ data: [{ id: 'm' }], input_tokens: 3 }));
      return;
    }
    const body = objectOf(JSON.parse(bytes.toString()));
    const call: ProviderCall = {
      path,
      target,
      api,
      headers,
      body,
      bytes,
      isStream: body['stream'] === true || path.includes(':stream'),
      maxTokens: maxTokensOf(body),
    };
    this.calls.push(call);
    this.underWay += 1;
    this.peakUnderWay = Math.max(this.peakUnderWay, this.underWay);
    response.once('close', () => {
      if (!response.writableFinished) this.left.push(call);
    });
    try {
      await this.#answer(call, response, this.behave(call, this.calls.length - 1));
    } finally {
      this.underWay -= 1;
    }
  }

  async #answer(call: ProviderCall, response: ServerResponse, behaviour: Behaviour): Promise<void> {
    const { fault, firstByteMs = 0, parts = 3, partMs = 0, breaksAfter = Infinity } = behaviour;
    if (firstByteMs > 0) await wait(firstByteMs);
    if (behaviour.respond !== undefined) {
      this.chargedNanos += this.nanosOf({
        input: behaviour.inputTokens ?? 10,
        cached: 0,
        output: 0,
      });
      await behaviour.respond(response);
      return;
    }
    if (fault !== undefined && fault !== 'endless' && fault !== 'garbage') {
      await this.#fail(fault, response);
      return;
    }
    const tokens: Tokens = {
      input: behaviour.inputTokens ?? 10,
      cached: behaviour.cachedTokens ?? 0,
      output: behaviour.outputTokens ?? call.maxTokens ?? 5,
    };
    const usage = behaviour.usage === undefined ? usageOf(call.api, tokens) : behaviour.usage;
    if (!call.isStream) {
      this.chargedNanos += this.nanosOf(tokens);
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(fault === 'garbage' ? '{"choices": [' : JSON.stringify(answerOf(call.api, usage)));
      return;
    }
    // The input is charged at the begin, and the output part by part, even if nobody reads it.
    this.chargedNanos += this.nanosOf({ ...tokens, output: 0 });
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const [first, part, last] = eventsOf(call, usage);
    response.write(first);
    const count = fault === 'endless' ? Infinity : parts;
    for (let index = 0; index < count; index++) {
      if (index >= breaksAfter || response.destroyed) {
        response.destroy();
        return;
      }
      const share =
        count === Infinity
          ? Number(index < tokens.output)
          : Math.floor((tokens.output * (index + 1)) / count) -
            Math.floor((tokens.output * index) / count);
      this.chargedNanos += this.nanosOf({ input: 0, cached: 0, output: share });
      const isTaken = response.write(fault === 'garbage' ? 'data: {"choices":[\n\n' : part);
      if (!isTaken) await untilTaken(response);
      if (partMs > 0) await wait(partMs);
    }
    response.end(last);
  }

  async #fail(fault: Behaviour['fault'], response: ServerResponse): Promise<void> {
    if (fault === 'hang') {
      await once(response, 'close');
    } else if (fault === 'reset') {
      response.destroy();
    } else if (fault === 'redirect') {
      response.writeHead(307, { location: 'http://127.0.0.1:1/elsewhere' }).end();
    } else if (fault === 'html') {
      response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Welcome</h1>');
    } else if (fault === 'error-in-200') {
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ error: { message: 'overloaded', type: 'server_error' } }));
    } else if (typeof fault === 'object') {
      response
        .writeHead(fault.status, { 'content-type': 'application/json', ...fault.headers })
        .end(JSON.stringify({ error: { message: `status ${fault.status}` } }));
    }
  }
}
