import { connect, type Socket } from 'node:net';
import { once } from 'node:events';

export interface Load {
  readonly requestsPerSecond: number;
  /** Milliseconds. */
  readonly latencies: readonly number[];
}

const headEnd = '\r\n\r\n';

/** The length of the response that a buffer begins with; undefined while it is not whole. */
function responseLength(bytes: Buffer): number | undefined {
  const end = bytes.indexOf(headEnd);
  if (end < 0) return undefined;
  const head = bytes.toString('latin1', 0, end);
  if (!head.startsWith('HTTP/1.1 2')) throw new Error(head);
  const length = end + headEnd.length + Number(/content-length: (\d+)/i.exec(head)?.[1]);
  return bytes.length >= length ? length : undefined;
}

/** Sends one and the same request again and again over so many connections, each after the answer to the one before. */
export async function load(options: { port: number; request: string; connections: number; durationMs: number }): Promise<Load> {
  const { port, request, connections, durationMs } = options;
  const latencies: number[] = [];
  const began = performance.now();
  const worker = async () => {
    const socket: Socket = connect(port, '127.0.0.1').setNoDelay(true);
    await once(socket, 'connect');
    await new Promise<void>((resolve, reject) => {
      let sentMs = 0;
      let rest: Buffer = Buffer.alloc(0);
      const send = () => {
        sentMs = performance.now();
        socket.write(request);
      };
      socket.on('data', (chunk: Buffer) => {
        rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
        const length = responseLength(rest);
        if (length === undefined) return;
        rest = rest.subarray(length);
        const nowMs = performance.now();
        latencies.push(nowMs - sentMs);
        if (nowMs - began < durationMs) send();
        else socket.end(() => resolve());
      });
      socket.on('error', reject);
      socket.once('close', () => resolve());
      send();
    });
  };
  await Promise.all(Array.from({ length: connections }, worker));
  return { requestsPerSecond: (latencies.length * 1000) / (performance.now() - began), latencies };
}
