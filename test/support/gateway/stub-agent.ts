import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { WebSocketServer, type WebSocket } from 'ws';
import { SandboxCondition, type SandboxState } from '../../../src/resources/sandbox.ts';

export interface SeenRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

type Answering = (request: IncomingMessage, response: ServerResponse) => void;

const is = (type: string) => ({
  type,
  status: 'True' as const,
  reason: type,
  message: '',
  lastTransitionTime: '2026-01-01T00:00:00Z',
});

/** A real HTTP and WebSocket server in an agent's place, which remembers what it was asked. */
export class StubAgent {
  readonly seen: SeenRequest[] = [];
  readonly sockets = new Set<WebSocket>();
  /** The behaviour of the agent in the place of its report of the request. */
  answer: Answering | undefined;
  /** The behaviour of the agent with a WebSocket in the place of an echo. */
  onSocket: ((socket: WebSocket, request: IncomingMessage) => void) | undefined;
  /** The bytes that the agent sends instead of a handshake, before it closes the connection. */
  refusal: string | undefined;
  /** Gets the connection after the handshake: no other code reads or writes on it. */
  onWire: ((wire: Duplex) => void) | undefined;
  readonly connections = new Set<Socket>();
  readonly #server: Server;
  readonly #webSockets = new WebSocketServer({ noServer: true });
  port = 0;

  private constructor() {
    this.#server = createServer((request, response) => {
      if (this.answer === undefined) this.#report(request, response);
      else this.answer(request, response);
    });
    this.#server.on('connection', (socket: Socket) => {
      this.connections.add(socket);
      socket.once('close', () => this.connections.delete(socket));
    });
    this.#server.on('upgrade', (request, socket, head) => {
      this.seen.push({
        method: request.method ?? '',
        url: request.url ?? '',
        headers: request.headers,
        body: '',
      });
      if (this.refusal !== undefined) {
        socket.end(this.refusal);
        return;
      }
      if (this.onWire !== undefined) {
        const accept = createHash('sha1')
          .update(
            `${request.headers['sec-websocket-key'] ?? ''}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`,
          )
          .digest('base64');
        socket.write(
          `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
        );
        this.onWire(socket);
        return;
      }
      this.#webSockets.handleUpgrade(request, socket, head, (connection) => {
        this.sockets.add(connection);
        connection
          .once('close', () => this.sockets.delete(connection))
          .on('error', () => undefined);
        if (this.onSocket === undefined)
          connection.on('message', (data, isBinary) => connection.send(data, { binary: isBinary }));
        else this.onSocket(connection, request);
      });
    });
  }

  /** `host`: any loopback address. */
  static async start(host = '127.0.0.1'): Promise<StubAgent> {
    const agent = new StubAgent();
    agent.#server.listen(0, host);
    await once(agent.#server, 'listening');
    agent.port = (agent.#server.address() as AddressInfo).port;
    return agent;
  }

  /** The status of a sandbox that runs, with this as its agent. */
  get status(): SandboxState {
    return {
      podName: 'pod',
      podUID: 'pod-1',
      podIP: '127.0.0.1',
      agentPort: this.port,
      conditions: [is(SandboxCondition.admitted), is(SandboxCondition.ready)],
    };
  }

  reset(): void {
    this.seen.length = 0;
    this.answer = undefined;
    this.onSocket = undefined;
    this.refusal = undefined;
    this.onWire = undefined;
  }

  async stop(): Promise<void> {
    for (const socket of this.sockets) socket.terminate();
    this.#server.closeAllConnections();
    for (const socket of this.connections) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #report(request: IncomingMessage, response: ServerResponse): void {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      this.seen.push({ method, url, headers, body: Buffer.concat(chunks).toString() });
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ url }));
    });
  }
}
