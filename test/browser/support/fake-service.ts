import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { anAccount } from '../../support/page-records.ts';
import { aUsageReport } from '../../support/page-usage.ts';
import { TestGateway } from '../../support/gateway/test-gateway.ts';
import type { Snapshot } from '../../../src/web/wire.ts';

const webDirectory = fileURLToPath(new URL('../../../dist/web', import.meta.url));

export interface Answer {
  readonly status: number;
  readonly json: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** The answer to a request that accepts CSV only. */
  readonly csv?: string;
}

export interface Call {
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
  /** The header Idempotency-Key; undefined where there is none. */
  readonly key?: string;
}

const json = (status: number, body: unknown): Answer => ({ status, json: body });

/** A service with a real gateway's pages and a test's records. `emit` sends to each open stream. */
export class FakeService {
  /** Calls of the page, without the stream and the reads. */
  readonly calls: Call[] = [];
  /** Answers by method and path; otherwise a write is a success. */
  readonly answers = new Map<
    string,
    Answer | Promise<Answer> | ((query: URLSearchParams) => Answer | Promise<Answer>)
  >();
  snapshots: readonly Snapshot[] = [];
  /** Status with which the stream is refused; undefined: it is not. */
  streamStatus: number | undefined;
  /** Status of each answer, the stream included; undefined: as the other fields say. */
  status: number | undefined;
  url = '';
  /** Number of streams that were opened, also of those that have ended. */
  openedStreams = 0;
  readonly #gateway: TestGateway;
  readonly #server: Server;
  readonly #streams = new Set<ServerResponse>();
  /** The cookie of a session of the gateway, whose pages need one. */
  #cookie = '';
  #lastId = 0;

  private constructor(gateway: TestGateway) {
    this.#gateway = gateway;
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  static async start(): Promise<FakeService> {
    const gateway = await TestGateway.start({ webDirectory });
    const service = new FakeService(gateway);
    const { headers } = await fetch(`${gateway.url}/login`, {
      method: 'POST',
      body: new URLSearchParams({ api_key: gateway.alice }),
      headers: { origin: gateway.url, 'sec-fetch-site': 'same-origin' },
      redirect: 'manual',
    });
    service.#cookie = headers.getSetCookie()[0]?.split(';')[0] ?? '';
    await service.#listen(0);
    const { port } = service.#server.address() as AddressInfo;
    service.url = `http://127.0.0.1:${port}`;
    return service;
  }

  /** Accepts no connection until `comeBack`. */
  async goAway(): Promise<void> {
    this.#server.closeAllConnections();
    this.#streams.clear();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  comeBack(): Promise<void> {
    return this.#listen(Number(new URL(this.url).port));
  }

  get openStreams(): number {
    return this.#streams.size;
  }

  emit(event: string, data: unknown): void {
    for (const stream of this.#streams) this.#send(stream, event, data);
  }

  /** Ends every stream, as a restart of the service does. */
  breakStreams(): void {
    for (const stream of this.#streams) stream.destroy();
    this.#streams.clear();
  }

  async stop(): Promise<void> {
    await this.goAway();
    await this.#gateway.stop();
  }

  #listen(port: number): Promise<void> {
    return new Promise((resolve) => this.#server.listen(port, '127.0.0.1', resolve));
  }

  #send(stream: ServerResponse, event: string, data: unknown): void {
    stream.write(`id: ${++this.#lastId}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  }

  #stream(response: ServerResponse): void {
    if (this.streamStatus !== undefined) {
      response.writeHead(this.streamStatus).end('{}');
      return;
    }
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    response.flushHeaders();
    for (const snapshot of this.snapshots) this.#send(response, 'snapshot', snapshot);
    this.#streams.add(response);
    this.openedStreams += 1;
    response.on('close', () => this.#streams.delete(response));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = 'GET', url = '/' } = request;
    const { pathname, searchParams } = new URL(url, this.url);
    if (this.status !== undefined && pathname.startsWith('/api/'))
      response.writeHead(this.status).end('{}');
    else if (pathname === '/api/v1/stream') this.#stream(response);
    else if (pathname === '/login') response.end('<!doctype html><title>Sign in</title>');
    else if (!pathname.startsWith('/api/')) await this.#pass(url, response);
    else {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const text = Buffer.concat(chunks).toString();
      const body: unknown = text === '' ? undefined : JSON.parse(text);
      if (method !== 'GET') {
        const { 'idempotency-key': key } = request.headers;
        this.calls.push({
          method,
          path: pathname,
          body,
          ...(typeof key === 'string' ? { key } : {}),
        });
      }
      const fallback = json(200, method === 'GET' ? readsOf(pathname) : { success: true });
      const given = this.answers.get(`${method} ${pathname}`) ?? fallback;
      const answer = await (typeof given === 'function' ? given(searchParams) : given);
      if (answer.csv !== undefined && request.headers.accept === 'text/csv') {
        response.writeHead(200, { 'content-type': 'text/csv' }).end(answer.csv);
        return;
      }
      response.writeHead(answer.status, { 'content-type': 'application/json', ...answer.headers });
      response.end(JSON.stringify(answer.json));
    }
  }

  async #pass(url: string, response: ServerResponse): Promise<void> {
    const answer = await fetch(`${this.#gateway.url}${url}`, {
      headers: { cookie: this.#cookie },
      redirect: 'manual',
    });
    const headers = Object.fromEntries(answer.headers);
    delete headers['content-encoding'];
    delete headers['content-length'];
    response.writeHead(answer.status, headers);
    response.end(Buffer.from(await answer.arrayBuffer()));
  }
}

const aSpec = {
  display_name: null,
  description: null,
  agent: { kind: 'openhands', name: 'openhands', asks: false },
  default_model: null,
  allowed_models: null,
  invalid_reason: null,
};

function readsOf(path: string): unknown {
  if (path === '/api/v1/handovers') return [];
  if (path === '/api/v1/usage') return aUsageReport();
  if (path === '/api/v1/users/me') return anAccount();
  if (path.endsWith('/timeline')) return [];
  if (path.endsWith('/resources')) return { namespace: 'default', yaml: '' };
  if (path.endsWith('/sandbox-specs/search'))
    return {
      items: [
        { ...aSpec, id: 'default', display_name: 'Node 24' },
        { ...aSpec, id: 'broken', invalid_reason: 'The image has no name.' },
        { ...aSpec, id: 'small', default_model: 'small-1', allowed_models: ['big-1', 'mid-*'] },
      ],
      next_page_id: null,
    };
  if (path.endsWith('/repositories/search'))
    return { items: [{ full_name: 'acme/app' }, { full_name: 'acme/docs' }], next_page_id: null };
  if (path.endsWith('/branches/search'))
    return { items: [{ name: 'main' }, { name: 'dev' }], next_page_id: null };
  return { items: [], next_page_id: null };
}
