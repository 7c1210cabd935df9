import { once } from 'node:events';
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { SandboxCondition, type SandboxState } from '../../../src/resources/sandbox.ts';

const is = (type: string) => ({
  type,
  status: 'True' as const,
  reason: type,
  message: '',
  lastTransitionTime: '2026-01-01T00:00:00Z',
});

/** A server in place of an agent that sends arbitrary bytes instead of HTTP to any request. */
export class HostileAgent {
  /** Received bytes, in latin1, from all connections together. */
  received = '';
  /** Called when the head of a request is there. */
  say: (socket: Socket) => void = () => undefined;
  readonly connections = new Set<Socket>();
  readonly #server: Server;
  port = 0;

  private constructor() {
    this.#server = createServer((socket) => {
      this.connections.add(socket);
      socket.on('error', () => undefined).once('close', () => this.connections.delete(socket));
      socket.on('data', (chunk: Buffer) => {
        const text = chunk.toString('latin1');
        this.received += text;
        if (text.includes('\r\n\r\n')) this.say(socket);
      });
    });
  }

  static async start(): Promise<HostileAgent> {
    const agent = new HostileAgent();
    agent.#server.listen(0, '127.0.0.1');
    await once(agent.#server, 'listening');
    agent.port = (agent.#server.address() as AddressInfo).port;
    return agent;
  }

  get status(): SandboxState {
    return {
      podName: 'pod',
      podUID: 'pod-1',
      podIP: '127.0.0.1',
      agentPort: this.port,
      conditions: [is(SandboxCondition.admitted), is(SandboxCondition.ready)],
    };
  }

  /** Sends this text, and closes the connection or waits. */
  answerWith(text: string, end = true): void {
    // One buffer for all connections: a test that measures memory measures its own.
    const bytes = Buffer.from(text, 'latin1');
    this.say = (socket) => {
      socket.write(bytes);
      if (end) socket.end();
    };
  }

  /** Sends this text byte by byte. */
  answerSlowly(text: string, everyMs: number): void {
    this.say = (socket) => {
      const bytes = Buffer.from(text, 'latin1');
      let said = 0;
      const timer = setInterval(() => {
        socket.write(bytes.subarray(said, said + 1));
        said += 1;
        if (said >= bytes.length) clearInterval(timer);
      }, everyMs);
      socket.once('close', () => clearInterval(timer));
    };
  }

  /** Sends this text again and again, as fast as the client takes it. */
  answerWithout(end: string, start = ''): void {
    this.say = (socket) => {
      const flood = Buffer.from(end.repeat(Math.ceil(16_384 / end.length)), 'latin1');
      const pour = () => {
        while (!socket.destroyed && socket.write(flood));
        socket.once('drain', pour);
      };
      socket.write(Buffer.from(start, 'latin1'));
      pour();
    };
  }

  async stop(): Promise<void> {
    for (const socket of this.connections) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
