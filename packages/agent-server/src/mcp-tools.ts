import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@modelcontextprotocol/sdk/client/index.js';
import type { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { jsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/types.js';
import { maskJson, maskText, type Needles } from './mask.ts';
import type { McpServer } from './mcp-servers.ts';

/** Maximum duration of a call, including the connection to its server. */
const callTimeoutMs = 60_000;
const defaultConnectTimeoutMs = 10_000;
/** Maximum time to close an MCP session. No run waits until it is closed. */
const closeTimeoutMs = 2_000;
const maxResponseBytes = 8 * 1024 * 1024;
const maxTools = 500;
const maxPages = 20;
const maxResultCharacters = 30_000;
const maxReasonCharacters = 1_000;

export interface McpTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Readonly<Record<string, unknown>>;
}

export interface McpCall {
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

export interface McpResult {
  /** Text of at most 30,000 characters, with secrets masked. */
  readonly text: string;
  readonly isError: boolean;
}

export interface McpToolsOptions {
  /** Returns the servers of the conversation, of which only those over HTTP are used. */
  readonly servers: () => readonly McpServer[];
  readonly needles: () => Needles;
  /** Maximum duration of connecting to a server and listing its tools; default 10 s. */
  readonly connectTimeoutMs?: number;
}

type HttpServer = Extract<McpServer, { readonly type: 'http' | 'sse' }>;

interface Connection {
  readonly client: Client;
  readonly transport: StreamableHTTPClientTransport;
  readonly tools: readonly McpTool[];
}

/** Tools of a conversation's MCP servers, for one run. The first use of a server connects to it. */
export class McpTools {
  readonly #options: McpToolsOptions;
  readonly #connections = new Map<string, Promise<Connection | undefined>>();

  constructor(options: McpToolsOptions) {
    this.#options = options;
  }

  /** Returns the tools of all servers that answer, in order; of equal names, only the first. */
  async list(signal: AbortSignal): Promise<readonly McpTool[]> {
    const connections = await Promise.all(
      this.#servers().map((server) => this.#connected(server, signal)),
    );
    signal.throwIfAborted();
    const tools = new Map<string, McpTool>();
    for (const tool of connections.flatMap((connection) => connection?.tools ?? []))
      if (!tools.has(tool.name)) tools.set(tool.name, tool);
    return [...tools.values()].map((tool) => ({
      ...tool,
      description: maskText(tool.description, this.#options.needles()),
    }));
  }

  /** Calls a tool on the first server that has it. Returns failures; rejects only if aborted. */
  async call(call: McpCall, signal: AbortSignal): Promise<McpResult> {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(callTimeoutMs)]);
    const silent: string[] = [];
    for (const server of this.#servers()) {
      const connection = await this.#connected(server, limit);
      signal.throwIfAborted();
      if (connection === undefined) silent.push(server.name);
      else if (connection.tools.some(({ name }) => name === call.name))
        return this.#callOn(connection, server, call, { signal, limit });
    }
    const others =
      silent.length === 0 ? '' : ` These servers do not answer: ${silent.sort().join(', ')}.`;
    return this.#failure(`No MCP server of the conversation has the tool ${call.name}.${others}`);
  }

  /** Ends the connections without waiting for their servers. */
  close(): void {
    for (const connection of this.#connections.values()) void connection.then(ended);
    this.#connections.clear();
  }

  #servers(): readonly HttpServer[] {
    return this.#options
      .servers()
      .filter((server): server is HttpServer => 'type' in server && server.type === 'http');
  }

  /** Returns the connection to a server; undefined if the connection fails. */
  #connected(server: HttpServer, signal: AbortSignal): Promise<Connection | undefined> {
    const known = this.#connections.get(server.name);
    if (known !== undefined) return known;
    const { connectTimeoutMs: timeoutMs = defaultConnectTimeoutMs } = this.#options;
    const connecting = connect(server, { signal, timeoutMs }).catch(() => undefined);
    this.#connections.set(server.name, connecting);
    return connecting;
  }

  async #callOn(
    { client }: Connection,
    { name: server }: HttpServer,
    { name, arguments: given }: McpCall,
    { signal, limit }: { readonly signal: AbortSignal; readonly limit: AbortSignal },
  ): Promise<McpResult> {
    const { McpError } = await import('@modelcontextprotocol/sdk/types.js');
    try {
      const result = await client.callTool({ name, arguments: { ...given } }, undefined, {
        signal: limit,
        timeout: callTimeoutMs,
      });
      const needles = this.#options.needles();
      const text = contentOf(maskJson(result, needles));
      return { text: bounded(text, maxResultCharacters), isError: result.isError === true };
    } catch (error) {
      signal.throwIfAborted();
      if (!limit.aborted && error instanceof McpError)
        return this.#failure(
          `The tool ${name} of the MCP server ${server} failed: ${error.message}`,
        );
      // The next call connects again.
      this.#connections.delete(server);
      void ended({ client });
      return this.#failure(
        `The MCP server ${server} has not answered the call of ${name}. The call may have been executed: check its effects before repeating it.`,
      );
    }
  }

  #failure(reason: string): McpResult {
    const text = maskText(reason, this.#options.needles());
    return { text: bounded(text, maxReasonCharacters), isError: true };
  }
}

async function connect(
  { url, headers }: HttpServer,
  { signal, timeoutMs }: { readonly signal: AbortSignal; readonly timeoutMs: number },
): Promise<Connection> {
  // The import is dynamic, because most conversations have no MCP server. The server's deadline
  // starts after the import, which takes seconds on a busy machine.
  const [{ Client: McpClient }, { StreamableHTTPClientTransport: Transport }] = await Promise.all([
    import('@modelcontextprotocol/sdk/client/index.js'),
    import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
  ]);
  const client = new McpClient(
    { name: 'reference-agent', version: '1' },
    { jsonSchemaValidator: acceptance },
  );
  const transport = new Transport(new URL(url), {
    requestInit: { headers: headers.map(({ name, value }): [string, string] => [name, value]) },
    fetch: boundedFetch,
    reconnectionOptions: {
      initialReconnectionDelay: 1_000,
      maxReconnectionDelay: 1_000,
      reconnectionDelayGrowFactor: 1,
      maxRetries: 0,
    },
  });
  const options = {
    signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    timeout: timeoutMs,
  };
  try {
    await client.connect(transport, options);
    const tools: McpTool[] = [];
    let cursor: string | undefined;
    for (let page = 0; page < maxPages && tools.length < maxTools; page++) {
      const list = await client.listTools(cursor === undefined ? {} : { cursor }, options);
      for (const { name, description = '', inputSchema } of list.tools)
        tools.push({ name, description, inputSchema });
      cursor = list.nextCursor;
      if (cursor === undefined) break;
    }
    return { client, transport, tools: tools.slice(0, maxTools) };
  } catch (error) {
    await client.close();
    throw error;
  }
}

/** Accepts every result, because a check would compile the server's schema to code. */
const acceptance: jsonSchemaValidator = {
  getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
};

async function ended(
  connection: { readonly client: Client; readonly transport?: Connection['transport'] } | undefined,
): Promise<void> {
  const late = sleep(closeTimeoutMs, undefined, { ref: false });
  const over = connection?.transport?.terminateSession().catch(() => undefined);
  await Promise.race([over, late]);
  await connection?.client.close().catch(() => undefined);
}

/** Limits the response's size. Rejects GET requests: nothing would read their message stream. */
async function boundedFetch(url: string | URL, init?: RequestInit): Promise<Response> {
  if (init?.method === 'GET') return new Response(null, { status: 405 });
  const response = await fetch(url, init);
  if (response.body === null) return response;
  let size = 0;
  const limit = new TransformStream<Uint8Array, Uint8Array>({
    transform: (chunk, controller) => {
      size += chunk.length;
      if (size > maxResponseBytes) controller.error(new Error('the response is too long'));
      else controller.enqueue(chunk);
    },
  });
  const { status, statusText, headers } = response;
  return new Response(response.body.pipeThrough(limit), { status, statusText, headers });
}

/** Returns the texts of a result, whose format the client has checked. */
function contentOf(result: unknown): string {
  const { content = [], structuredContent } = result as {
    readonly content?: readonly {
      readonly type: string;
      readonly text?: string;
      readonly resource?: { readonly uri?: string; readonly text?: string };
    }[];
    readonly structuredContent?: unknown;
  };
  if (content.length === 0 && structuredContent !== undefined)
    return JSON.stringify(structuredContent);
  return content
    .map(({ type, text, resource }) => text ?? resource?.text ?? `[${resource?.uri ?? type}]`)
    .join('\n');
}

const bounded = (text: string, maxCharacters: number): string =>
  text.length <= maxCharacters
    ? text
    : `${text.slice(0, maxCharacters - 50)}… (${text.length - maxCharacters + 50} characters omitted)`;
