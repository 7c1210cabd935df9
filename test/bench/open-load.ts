import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { AnswerReader } from './http-load.ts';

export interface OpenLoad {
  /** Milliseconds until an answer of 2xx. */
  readonly accepted: readonly number[];
  /** Milliseconds until a 503. */
  readonly refused: readonly number[];
  /** Requests that had no answer when the time was over and some more. */
  readonly unanswered: number;
  /** Requests whose connection was closed instead of an answer. */
  readonly broken: number;
  /** Requests that were not sent, because all connections waited for answers. */
  readonly held: number;
}

export interface OpenLoadOptions {
  readonly port: number;
  readonly request: string;
  readonly perSecond: number;
  readonly durationMs: number;
  /**
   * Opened and used before: a Node server takes one new connection a turn, so that under load it is
   * these that would wait.
   */
  readonly connections: number;
}

const tickMs = 5;
const atOnce = 50;
const patienceMs = 15_000;

/**
 * Sends `perSecond` requests a second, however long their answers take: the load of many clients
 * that know nothing of each other.
 */
export async function offer({
  port,
  request,
  perSecond,
  durationMs,
  connections,
}: OpenLoadOptions): Promise<OpenLoad> {
  const accepted: number[] = [];
  const refused: number[] = [];
  const free: (() => void)[] = [];
  const sockets = new Set<Socket>();
  let [underWay, held, broken] = [0, 0, 0];
  let isOver = false;
  const open = async () => {
    const socket = connect(port, '127.0.0.1').setNoDelay(true);
    await once(socket, 'connect');
    sockets.add(socket);
    socket.write('GET /alive HTTP/1.1\r\nHost: x\r\n\r\n');
    await once(socket, 'data');
    const reader = new AnswerReader();
    let sentMs = 0;
    const send = () => {
      sentMs = performance.now();
      underWay += 1;
      isWaiting = true;
      socket.write(request, 'latin1');
    };
    let isWaiting = false;
    socket.on('error', () => undefined);
    socket.once('close', () => {
      sockets.delete(socket);
      const at = free.indexOf(send);
      if (at >= 0) free.splice(at, 1);
      if (isWaiting) {
        underWay -= 1;
        broken += 1;
      }
      if (!isOver) void open().catch(() => undefined);
    });
    socket.on('data', (chunk: Buffer) => {
      if (!reader.read(chunk)) return;
      if (reader.status !== '503' && !reader.status.startsWith('2')) throw new Error(reader.head);
      (reader.status === '503' ? refused : accepted).push(performance.now() - sentMs);
      underWay -= 1;
      isWaiting = false;
      if (!reader.isLast) free.push(send);
    });
    free.push(send);
  };
  while (sockets.size < connections) await Promise.all(Array.from({ length: atOnce }, open));
  const began = performance.now();
  for (let sent = 0; performance.now() - began < durationMs;) {
    for (const due = ((performance.now() - began) * perSecond) / 1000; sent < due; sent++) {
      const send = free.shift();
      if (send === undefined) held += 1;
      else send();
    }
    await delay(tickMs);
  }
  isOver = true;
  const until = performance.now() + patienceMs;
  while (underWay > 0 && performance.now() < until) await delay(tickMs);
  const unanswered = underWay;
  for (const socket of sockets) socket.removeAllListeners('close').destroy();
  return { accepted, refused, unanswered, broken, held };
}
