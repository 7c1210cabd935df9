import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { McpServer as SdkServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';

/** Behaviours of a server in the place of an answer. */
export type Misbehaviour =
  /** Never answers; answers with a status; sends a body of megabytes; ends the connection. */
  'hang' | number | 'flood' | 'reset' | { readonly location: string };

/**
 * An MCP server over HTTP by the published SDK. Its tools: `add {a, b}`, `echo {text}`, `fail`,
 * `throw`, `long {characters}` and `wait`, which answers when `release` is called.
 */
export class TestMcpServer implements AsyncDisposable {
  readonly #server: Server;
  readonly #name: string;
  /** Header that each request needs. */
  readonly key: string;
  /** Names of the tools that were called, oldest first. */
  readonly calls: string[] = [];
  /** Methods of the requests of the protocol, oldest first. */
  readonly methods: string[] = [];
  misbehaviour: Misbehaviour | undefined;
  #waiting: (() => void)[] = [];

  private constructor(name: string, key: string) {
    this.#name = name;
    this.key = key;
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch(() => response.destroy());
    });
  }

  static async start(name = 'tools', key = 'Bearer token-of-mcp'): Promise<TestMcpServer> {
    const server = new TestMcpServer(name, key);
    server.#server.listen(0, '127.0.0.1');
    await once(server.#server, 'listening');
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/mcp`;
  }

  /** Answers the calls of `wait`. */
  release(): void {
    for (const answer of this.#waiting.splice(0)) answer();
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

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const body: unknown = text === '' ? undefined : JSON.parse(text);
    this.methods.push((body as { method?: string } | undefined)?.method ?? request.method ?? '');
    const { misbehaviour } = this;
    if (misbehaviour === 'hang') return;
    if (misbehaviour === 'reset') return void response.socket?.resetAndDestroy();
    if (typeof misbehaviour === 'object')
      return void response.writeHead(307, { ...misbehaviour }).end();
    if (misbehaviour === 'flood') {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(`"${'x'.repeat(9 * 1024 * 1024)}"`);
      return;
    }
    if (misbehaviour !== undefined || request.headers.authorization !== this.key)
      return void response.writeHead(misbehaviour ?? 401).end(`refused: ${this.key}`);
    // Without sessions, each request has a server of its own.
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
    const server = this.#tools();
    response.on('close', () => void server.close());
    await server.connect(transport);
    await transport.handleRequest(request, response, body);
  }

  #tools(): SdkServer {
    const server = new SdkServer({ name: this.#name, version: '1' });
    const said = (text: string) => ({ content: [{ type: 'text' as const, text }] });
    const tool = <T extends z.ZodRawShape>(
      name: string,
      inputSchema: T,
      run: (given: z.output<z.ZodObject<T>>) => object | Promise<object>,
    ) =>
      server.registerTool(name, { description: `Tool ${name}`, inputSchema }, (async (
        given: z.output<z.ZodObject<T>>,
      ) => {
        this.calls.push(name);
        return run(given);
      }) as never);
    tool('add', { a: z.number(), b: z.number() }, ({ a, b }) => said(String(a + b)));
    tool('echo', { text: z.string() }, ({ text }) => said(`${this.#name}: ${text}`));
    tool('fail', {}, () => ({ ...said(`no, ${this.key}`), isError: true }));
    tool('throw', {}, () => {
      throw new Error(`broken, ${this.key}`);
    });
    tool('long', { characters: z.number() }, ({ characters }) => said('x'.repeat(characters)));
    tool('wait', {}, async () => {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
      return said('waited');
    });
    return server;
  }
}
