import type { Server } from 'node:net';
import { systemCodeOf } from './system-code.ts';

/** Host on which a server listens at all IPv4 and IPv6 addresses of the machine. */
export const everyAddress = '::';
const everyIPv4Address = '0.0.0.0';

/** Whether servers that listen on this host are reachable at every address of the machine. */
export const isEveryAddress = (host: string): boolean =>
  host === everyAddress || host === everyIPv4Address;

/** Returns the host as URLs contain it: an IPv6 address gets brackets. */
export const hostInUrl = (host: string): string => (host.includes(':') ? `[${host}]` : host);

/** Converts an IPv4-mapped IPv6 address (`::ffff:1.2.3.4`) to IPv4; other texts stay unchanged. */
export function withoutMapping(address: string): string {
  const dotted = /^(?:::|(?:0{1,4}:){5})ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (dotted !== undefined) return dotted;
  const groups = /^(?:::|(?:0{1,4}:){5})ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/i.exec(address);
  if (groups === null) return address;
  const bytes = groups.slice(1).flatMap((group) => {
    const number = Number.parseInt(group, 16);
    return [number >> 8, number & 255];
  });
  return bytes.join('.');
}

export interface ListenAddress {
  /** `::` means all IPv4 and IPv6 addresses, or all IPv4 addresses if the system has no IPv6. */
  readonly host: string;
  readonly port: number;
  readonly backlog?: number;
}

const withoutIPv6: ReadonlySet<string | undefined> = new Set(['EAFNOSUPPORT', 'EADDRNOTAVAIL']);

/** Resolves to the port when the server listens. Rejects with the error of `server.listen`. */
export async function listenAt(server: Server, address: ListenAddress): Promise<number> {
  try {
    await listening(server, address);
  } catch (error) {
    if (address.host !== everyAddress || !withoutIPv6.has(systemCodeOf(error))) throw error;
    await listening(server, { ...address, host: everyIPv4Address });
  }
  const bound = server.address();
  return typeof bound === 'object' && bound !== null ? bound.port : address.port;
}

function listening(server: Server, address: ListenAddress): Promise<void> {
  return new Promise((resolve, reject) => {
    const onListening = () => {
      server.off('error', onError);
      resolve();
    };
    const onError = (error: Error) => {
      server.off('listening', onListening);
      reject(error);
    };
    server.once('error', onError);
    server.once('listening', onListening);
    server.listen(address);
  });
}
