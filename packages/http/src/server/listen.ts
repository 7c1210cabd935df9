import type { Server } from 'node:http';
import { hostInUrl, listenAt } from '@conversation-operator/base/addresses';
import { sleep, type Clock } from '@conversation-operator/base/clock';
import { systemCodeOf } from '@conversation-operator/base/system-code';

/**
 * Connections that the system keeps until they are accepted. The system drops any more silently,
 * and a client that connects again does so after 1 s, 3 s, 7 s: under load health checks would
 * fail. As many as Linux allows by default.
 */
const maxWaitingConnections = 4096;

/** A server can't listen on its address. The message is one line, for a person at a terminal. */
export class ListenError extends Error {
  override readonly name = 'ListenError';
}

export interface ListenOptions {
  /** Name of the server in the message of a `ListenError`, for example "the gateway". */
  readonly name: string;
  /** `::` means all addresses, and all IPv4 addresses where the system has no IPv6. */
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

/**
 * Accepts no new connections, waits for the requests under way, and closes the remaining
 * connections after `graceMs`.
 */
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
      // A connection that was busy when close was called becomes idle later, and would be kept
      // alive.
      server.closeIdleConnections();
      await sleep(clock, 50, closed.signal);
    }
  } catch {
    // The server has closed before the timeout.
  }
  server.closeAllConnections();
  await end;
}
