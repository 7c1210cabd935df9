import { createHash } from 'node:crypto';
import { createServer, type Server, type Socket } from 'node:net';
import type { Logger } from '@conversation-operator/base/logger';
import type { Sandbox } from '../../resources/sandbox.ts';
import type { Cache } from '../lookup/cache.ts';
import { agentPortName, type AddressOrigins } from './addressing.ts';

/** Stores a text across restarts. */
export interface Memory {
  read(): string | undefined;
  write(text: string): void;
}

export interface LoopbackOriginsOptions {
  readonly sandboxes: Cache<Sandbox>;
  readonly namespace: string;
  /** Called with every connection to one of the addresses. */
  readonly accept: (socket: Socket) => void;
  /** The port that the service itself listens on. */
  readonly port: () => number;
  readonly memory: Memory;
  readonly logger: Logger;
}

interface Listener {
  readonly uid: string;
  readonly sandbox: string;
  readonly address: string;
  readonly server: Server;
  isListening: boolean;
}

const attempts = 20;

/** An address in 127.128.0.0/9, which no pod has; never a network or broadcast address. */
function candidate(text: string): string {
  const bytes = createHash('sha256').update(text).digest();
  const octet = (index: number, from: number, count: number) =>
    from + (bytes.readUInt16BE(index) % count);
  return `127.${octet(0, 128, 127)}.${octet(2, 1, 254)}.${octet(4, 1, 254)}`;
}

/**
 * Loopback addresses for the agents of sandboxes on one machine, at the port of the service. Each
 * address is an origin that needs neither a path nor a DNS name. A sandbox keeps its address as
 * long as it exists, whether it runs or not, and across restarts of the service.
 */
export class LoopbackOrigins implements AddressOrigins {
  readonly #options: LoopbackOriginsOptions;
  readonly #byAddress = new Map<string, Listener>();
  /**
   * Listeners by connection. A connection keeps its listener after the deletion of its sandbox, so
   * that the gateway never treats it as a connection to the service itself.
   */
  readonly #bySocket = new WeakMap<Socket, Listener>();
  readonly #bySandbox = new Map<string, Listener>();
  readonly #pending = new Set<Promise<void>>();
  #remembered = new Map<string, string>();
  #remove: (() => void) | undefined;

  constructor(options: LoopbackOriginsOptions) {
    this.#options = options;
  }

  /** Resolves when every existing sandbox has its address. The service must listen already. */
  async open(): Promise<void> {
    const { sandboxes, namespace, memory } = this.#options;
    this.#remembered = parseMemory(memory.read());
    const before = this.#remembered.size;
    const here = ({ metadata }: Sandbox) => metadata.namespace === namespace;
    this.#remove = sandboxes.addHandler({
      added: (sandbox) => {
        if (here(sandbox)) this.#add(sandbox);
      },
      deleted: (sandbox) => {
        if (here(sandbox)) this.#delete(sandbox);
      },
    });
    const present = new Set(sandboxes.store.list().map(({ metadata }) => metadata.uid));
    for (const key of [...this.#remembered.keys()])
      if (!present.has(key.split('/')[0] ?? '')) this.#remembered.delete(key);
    if (this.#remembered.size !== before) this.#remember();
    await Promise.all(this.#pending);
  }

  close(): void {
    this.#remove?.();
    for (const { server } of this.#byAddress.values()) server.close();
    this.#byAddress.clear();
    this.#bySandbox.clear();
  }

  urlOf(sandbox: string): string | undefined {
    const listener = this.#bySandbox.get(sandbox);
    return listener?.isListening === true
      ? `http://${listener.address}:${this.#options.port()}`
      : undefined;
  }

  named(host: string): string | undefined {
    const end = `:${this.#options.port()}`;
    return host.endsWith(end)
      ? this.#byAddress.get(host.slice(0, -end.length))?.sandbox
      : undefined;
  }

  /** A Content-Security-Policy has no address ranges, so only the port limits this source. */
  get source(): string {
    return `http://*:${this.#options.port()}`;
  }

  match(socket: Socket): string | undefined {
    return this.#bySocket.get(socket)?.sandbox;
  }

  #add({ metadata: { name, uid } }: Sandbox): void {
    const key = keyOf(uid);
    const known = this.#remembered.get(key);
    const address = known ?? this.#choose(key);
    if (address === undefined || this.#byAddress.has(address)) return;
    if (known === undefined) {
      this.#remembered.set(key, address);
      this.#remember();
    }
    const work = this.#listen({ uid, sandbox: name, address }).finally(() =>
      this.#pending.delete(work),
    );
    this.#pending.add(work);
  }

  #delete({ metadata: { name, uid } }: Sandbox): void {
    const listener = this.#bySandbox.get(name);
    if (listener?.uid === uid) {
      listener.server.close();
      this.#byAddress.delete(listener.address);
      this.#bySandbox.delete(name);
    }
    if (this.#remembered.delete(keyOf(uid))) this.#remember();
  }

  #choose(key: string): string | undefined {
    const taken = new Set(this.#remembered.values());
    for (let attempt = 0; attempt < attempts; attempt++) {
      const address = candidate(`${key}/${attempt}`);
      if (!taken.has(address)) return address;
    }
    return undefined;
  }

  async #listen(wish: Pick<Listener, 'uid' | 'sandbox' | 'address'>): Promise<void> {
    const { accept, port, logger } = this.#options;
    // `node:http` creates its server with the same options.
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
      this.#bySocket.set(socket, listener);
      accept(socket);
    });
    const listener: Listener = { ...wish, server, isListening: false };
    this.#byAddress.set(wish.address, listener);
    this.#bySandbox.set(wish.sandbox, listener);
    const { promise, resolve } = Promise.withResolvers<undefined>();
    server.once('error', (error) => {
      // The sandbox is still reachable by its path.
      logger.warn('A sandbox gets no address of its own', {
        sandbox: wish.sandbox,
        address: wish.address,
        error,
      });
      resolve(undefined);
    });
    server.listen({ host: wish.address, port: port(), exclusive: true }, () => {
      listener.isListening = true;
      resolve(undefined);
    });
    await promise;
  }

  #remember(): void {
    const { memory, logger } = this.#options;
    try {
      memory.write(JSON.stringify(Object.fromEntries(this.#remembered)));
    } catch (error) {
      logger.warn(
        'The addresses of sandboxes can not be kept: after a restart they may have others',
        { error },
      );
    }
  }
}

/** The key of a sandbox's address in the stored text. */
const keyOf = (uid: string): string => `${uid}/${agentPortName}`;

function parseMemory(text: string | undefined): Map<string, string> {
  try {
    const entries = Object.entries(JSON.parse(text ?? '{}') as Readonly<Record<string, unknown>>);
    return new Map(
      entries.filter(
        (entry): entry is [string, string] =>
          typeof entry[1] === 'string' && /^127(\.\d{1,3}){3}$/.test(entry[1]),
      ),
    );
  } catch {
    // The stored text is damaged, so every sandbox gets a new address.
    return new Map();
  }
}
