import type { Server, ServerResponse } from 'node:http';
import { hostInUrl, listenAt } from '@conversation-operator/base/addresses';
import { sleep, type Clock } from '@conversation-operator/base/clock';
import { systemCodeOf } from '@conversation-operator/base/system-code';

/**
 * Maximum connections that the system queues for acceptance. The system silently drops further
 * ones, and clients retry after 1 s, 3 s, 7 s: with a shorter queue, health checks would fail under
 * load. The value is Linux's default maximum.
 */
const maxWaitingConnections = 4096;

/** A server can't listen on its address. The message is one line for a terminal. */
export class ListenError extends Error {
  override readonly name = 'ListenError';
}

export interface ListenOptions {
  /** Name of the server in the message of a `ListenError`, for example "the gateway". */
  readonly name: string;
  /** `::` means all addresses, or all IPv4 addresses if the system has no IPv6. */
  readonly host: string;
  /** 0 means any free port. */
  readonly port: number;
}

/** Resolves when the server listens. Rejects with a `ListenError`. */
export async function listenOn(
  server: Server,
  { name, host, port }: ListenOptions,
): Promise<{ readonly port: number }> {
  try {
    return { port: await listenAt(server, { host, port, backlog: maxWaitingConnections }) };
  } catch (error) {
    const why =
      systemCodeOf(error) === 'EADDRINUSE'
        ? 'the port is in use'
        : error instanceof Error
          ? error.message
          : String(error);
    const where = `${hostInUrl(host)}:${port}`;
    throw new ListenError(`${name} can't listen on ${where}: ${why}`, { cause: error });
  }
}

/** Accepts no more connections, waits for requests, and closes the rest after `graceMs`. */
export async function closeServer(server: Server, clock: Clock, graceMs: number): Promise<void> {
  if (!server.listening) return;
  const closed = new AbortController();
  const end = new Promise<void>((resolve) => {
    server.close(() => {
      closed.abort();
      resolve();
    });
  });
  const deadline = clock.monotonic() + graceMs;
  try {
    while (clock.monotonic() < deadline) {
      // A connection that was busy when close was called becomes idle later, and would stay open.
      server.closeIdleConnections();
      await sleep(clock, 50, closed.signal);
    }
  } catch {
    // The server has closed before the timeout.
  }
  server.closeAllConnections();
  await end;
}

/** The unfinished responses. At a shutdown, `close` calls the `end` function of each response. */
export class OpenStreams {
  readonly #ends = new Set<() => void>();
  #closed = false;

  get size(): number {
    return this.#ends.size;
  }

  /** Calls `end` once: in `close`, or now if that was called. Returns a function to cancel this. */
  add(end: () => void): () => void {
    if (this.#closed) {
      end();
      return () => undefined;
    }
    this.#ends.add(end);
    return () => {
      this.#ends.delete(end);
    };
  }

  close(): void {
    this.#closed = true;
    for (const end of [...this.#ends]) end();
    this.#ends.clear();
  }
}

/**
 * During a shutdown, sends `Connection: close` with the last response of each connection, unless
 * its headers were sent before. Without this header, a client could not know whether a request that
 * it sends at the close is executed.
 */
export class LastResponses {
  readonly #underWay = new Set<ServerResponse>();
  #begun = false;

  /** Adds a response whose headers have not been sent. */
  add(response: ServerResponse): void {
    if (this.#begun) {
      mark(response);
      return;
    }
    this.#underWay.add(response);
    response.once('close', () => this.#underWay.delete(response));
  }

  /** Makes each response whose headers have not been sent the last one of its connection. */
  begin(): void {
    this.#begun = true;
    for (const response of this.#underWay) if (!response.headersSent) mark(response);
  }
}

const mark = (response: ServerResponse): void => {
  response.setHeader('connection', 'close');
};
