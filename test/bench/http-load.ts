import { connect, type Socket } from 'node:net';
import { once } from 'node:events';

export interface Load {
  readonly requestsPerSecond: number;
  /** Milliseconds. */
  readonly latencies: readonly number[];
  /** The share of one processor that this process, the load tool, has used: 0 to 1. */
  readonly ownShare: number;
}

export interface LoadOptions {
  readonly port: number;
  /** The whole request, as it goes over the wire, or a function of the number of the request. */
  readonly request: string | ((turn: number) => string);
  readonly connections: number;
  readonly durationMs: number;
  /** Gets the head of each failed answer; by default the first one ends the load with an error. */
  readonly onRefusal?: (head: string) => void;
  /** Between an answer and the next request on its connection; 0 by default. */
  readonly pauseMs?: number;
}

const headEnd = '\r\n\r\n';

/** Reads answers that say their length, without keeping what is in them. */
export class AnswerReader {
  #rest: Buffer = Buffer.alloc(0);
  #left = 0;
  head = '';

  /** Whether the server closes the connection behind it. */
  get isLast(): boolean {
    return /\r\nconnection: close/i.test(this.head);
  }

  get status(): string {
    return this.head.slice('HTTP/1.1 '.length, 'HTTP/1.1 200'.length);
  }

  /** Whether the answer to the one request under way is whole now. */
  read(chunk: Buffer): boolean {
    if (this.#left > 0) {
      this.#left -= chunk.length;
      return this.#left === 0;
    }
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const end = bytes.indexOf(headEnd);
    if (end < 0) {
      this.#rest = bytes;
      return false;
    }
    this.#rest = Buffer.alloc(0);
    this.head = bytes.toString('latin1', 0, end);
    const length = /content-length: (\d+)/i.exec(this.head)?.[1];
    if (length === undefined) throw new Error(`an answer without a length: ${this.head}`);
    this.#left = Number(length) - (bytes.length - end - headEnd.length);
    return this.#left === 0;
  }
}

/**
 * Sends requests over `connections` connections, each after the answer to the one before. No more
 * than that: what a full HTTP client does for each request would take the half of two cores that
 * the product should have.
 */
export async function load({
  port,
  request,
  connections,
  durationMs,
  onRefusal,
  pauseMs = 0,
}: LoadOptions): Promise<Load> {
  const latencies: number[] = [];
  const textOf = typeof request === 'string' ? () => request : request;
  let turn = 0;
  const usageBefore = process.cpuUsage();
  const began = performance.now();
  const worker = async () => {
    const socket: Socket = connect(port, '127.0.0.1').setNoDelay(true);
    await once(socket, 'connect');
    await new Promise<void>((resolve, reject) => {
      const reader = new AnswerReader();
      let sentMs = 0;
      const send = () => {
        sentMs = performance.now();
        socket.write(textOf(turn++), 'latin1');
      };
      socket.on('data', (chunk: Buffer) => {
        if (!reader.read(chunk)) return;
        const nowMs = performance.now();
        if (reader.status.startsWith('2')) latencies.push(nowMs - sentMs);
        else if (onRefusal === undefined) reject(new Error(reader.head));
        else onRefusal(reader.head);
        if (nowMs - began < durationMs) {
          if (pauseMs === 0) send();
          else setTimeout(send, pauseMs);
        } else socket.end(() => resolve());
      });
      socket.on('error', reject);
      socket.once('close', () => resolve());
      send();
    });
  };
  await Promise.all(Array.from({ length: connections }, worker));
  const elapsedMs = performance.now() - began;
  const { user, system } = process.cpuUsage(usageBefore);
  return {
    requestsPerSecond: (latencies.length * 1000) / elapsedMs,
    latencies,
    ownShare: (user + system) / 1000 / elapsedMs,
  };
}
