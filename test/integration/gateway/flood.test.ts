import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { connect, type Socket } from 'node:net';
import { eventually } from '../../support/eventually.ts';
import type { Begun, Stats } from '../../support/gateway/gateway-process.ts';
import { StubAgent } from '../../support/gateway/stub-agent.ts';

/**
 * FLOOD=10000 opens this number of connections of each kind, one kind after the other, and waits as
 * long as the product does; by default there are fewer, of all kinds together, and all times and
 * limits are smaller.
 */
const isLong = process.env['FLOOD'] !== undefined;
const connections = Number(process.env['FLOOD'] ?? 1000);
const timeouts = {
  headersMs: 1500,
  requestMs: 2000,
  stallMs: 1500,
  keepAliveMs: 2000,
  lingerMs: 500,
};
const limits = isLong ? {} : { MAX_CONNECTIONS: '500', MAX_CONNECTIONS_PER_ADDRESS: '100' };
/** Number of attackers' addresses, which together may have more connections than there are. */
const addresses = 6;
/**
 * Maximum time without fewer connections until every connection of an attacker is closed. A
 * connection without a time limit is never closed; a busy machine closes one after the other.
 */
const closeMs = isLong ? 180_000 : 120_000;
const maxRssBytes = 400 * 1024 * 1024;

let agent: StubAgent;
let child: ChildProcess;
let begun: Begun;
/** Ends what a test has begun, however it went. */
let cleanups: (() => unknown)[] = [];

beforeAll(async () => {
  agent = await StubAgent.start();
  child = fork(new URL('../../support/gateway/gateway-process.ts', import.meta.url), {
    execArgv: ['--expose-gc'],
    env: {
      ...process.env,
      ...limits,
      RATE_LIMIT_FAILED_KEYS: '0',
      AGENT_PORT: String(agent.port),
      GATEWAY_OPTIONS: JSON.stringify(
        isLong ? {} : { timeouts, proxyLimits: { clientIdleMs: 1500 } },
      ),
    },
  });
  [begun] = (await once(child, 'message')) as [Begun];
});
afterAll(async () => {
  const ended = once(child, 'exit');
  child.disconnect();
  await ended;
  await agent.stop();
});

afterEach(async () => {
  for (const cleanup of cleanups) await cleanup();
  cleanups = [];
});

async function ask(wanted: 'stats' | 'connections'): Promise<unknown> {
  const answer = once(child, 'message');
  child.send(wanted);
  const [now] = (await answer) as [unknown];
  return now;
}
const stats = async () => (await ask('stats')) as Stats;

/** Waits while connections are closed, for as long as that takes. */
async function untilConnections(most: number): Promise<void> {
  let [fewest, since] = [Infinity, performance.now()];
  for (;;) {
    // Without the other figures, because a collection takes the time of what closes them.
    const now = (await ask('connections')) as number;
    if (now <= most) return;
    if (now < fewest) [fewest, since] = [now, performance.now()];
    if (performance.now() - since > closeMs)
      throw new Error(`${now} connections, and never fewer than ${fewest}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Connections from several addresses. */
class Attackers {
  readonly #sockets: Socket[] = [];
  readonly #timers: NodeJS.Timeout[] = [];

  async open(count: number, begin: (socket: Socket, index: number) => void): Promise<void> {
    for (let index = 0; index < count; index += 50) {
      await Promise.all(
        Array.from({ length: Math.min(50, count - index) }, (_, offset) =>
          this.#open(index + offset, begin),
        ),
      );
    }
  }

  /** Writes the text byte by byte. */
  trickle(socket: Socket, text: string): void {
    let at = 0;
    const timer = setInterval(() => {
      if (socket.destroyed) clearInterval(timer);
      else socket.write(text[at++ % text.length] ?? '');
    }, 700);
    this.#timers.push(timer);
  }

  stop(): void {
    for (const timer of this.#timers) clearInterval(timer);
    for (const socket of this.#sockets) socket.destroy();
  }

  async #open(index: number, begin: (socket: Socket, index: number) => void): Promise<void> {
    const socket = connect({
      port: begun.port,
      host: '127.0.0.1',
      localAddress: `127.0.0.${2 + (index % addresses)}`,
    });
    this.#sockets.push(socket);
    socket.on('error', () => undefined).resume();
    await Promise.race([once(socket, 'connect'), once(socket, 'close')]);
    begin(socket, index);
  }
}

/** Another client, who only wants an answer, on a new connection each time. */
class Bystander {
  readonly times: number[] = [];
  readonly failures: unknown[] = [];
  #isOver = false;
  #done: Promise<void> | undefined;

  start(): void {
    this.#done = this.#run();
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#done;
  }

  get p99(): number {
    return (
      this.times.toSorted((left, right) => left - right)[Math.floor(this.times.length * 0.99)] ??
      Infinity
    );
  }

  async #run(): Promise<void> {
    while (!this.#isOver) {
      const began = performance.now();
      try {
        await this.#ask();
        this.times.push(performance.now() - began);
      } catch (error) {
        this.failures.push(error);
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  #ask(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<undefined>();
    const headers = { authorization: `Bearer ${begun.key}` };
    const path = '/api/v1/app-conversations/search?limit=1';
    httpRequest(
      { host: '127.0.0.1', port: begun.port, path, headers, agent: false, timeout: 30_000 },
      (response) => {
        response.resume().once('end', () => {
          if (response.statusCode === 200) resolve(undefined);
          else reject(new Error(`answered ${response.statusCode ?? 0}`));
        });
      },
    )
      .once('error', reject)
      .end();
    return promise;
  }
}

const keyed = () => `Host: x\r\nAuthorization: Bearer ${begun.otherKey}\r\n`;
const start = '/api/v1/app-conversations';
const ids = Array.from(
  { length: 100 },
  (_, index) => `ids=${index.toString(16).padStart(32, '0')}`,
).join('&');

type Attack = (attackers: Attackers, socket: Socket) => void;

const attacks: Readonly<Record<string, Attack>> = {
  'say nothing': () => undefined,
  'send headers byte by byte': (attackers, socket) =>
    attackers.trickle(socket, 'GET / HTTP/1.1\r\nHost: x\r\nX-A: aaaaaaaaaaaaaaaaaaaaaaaaaaaa'),
  'send a body byte by byte': (attackers, socket) => {
    socket.write(
      `POST ${start} HTTP/1.1\r\n${keyed()}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n`,
    );
    attackers.trickle(socket, '{"a":"aaaaaaaaaaa');
  },
  'send a body byte by byte without a key': (attackers, socket) => {
    socket.write(
      `POST ${start} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n`,
    );
    attackers.trickle(socket, 'a');
  },
  'send no body to an agent': (_attackers, socket) => {
    const headers = `Host: x\r\nX-Session-API-Key: ${begun.sessionKey}\r\nContent-Length: 10\r\n`;
    socket.write(`POST /sandboxes/sbx-1/AGENT_SERVER/x HTTP/1.1\r\n${headers}\r\n`);
  },
  'read nothing of large answers': (_attackers, socket) => {
    socket.pause();
    socket.write(`GET ${start}/start-tasks?${ids} HTTP/1.1\r\n${keyed()}\r\n`);
  },
  'read nothing of many answers': (_attackers, socket) => {
    socket.pause();
    socket.write(`GET ${start}/search HTTP/1.1\r\n${keyed()}\r\n`.repeat(30));
  },
  'are kept alive': (_attackers, socket) => socket.write('GET /alive HTTP/1.1\r\nHost: x\r\n\r\n'),
};
const isCostly = (kind: string) => kind.startsWith('read nothing');
const [cheap, costly] = [false, true].map((wanted) =>
  Object.keys(attacks).filter((kind) => isCostly(kind) === wanted),
);
let turn = 0;
const mixed: Attack = (attackers, socket) => {
  turn += 1;
  const kinds = (turn % 40 === 0 ? costly : cheap) ?? [];
  attacks[kinds[Math.floor(turn / 40 + turn) % kinds.length] ?? '']?.(attackers, socket);
};

describe(`${connections} connections at once that`, () => {
  it.each<[string, Attack]>(isLong ? Object.entries(attacks) : [['do any of this', mixed]])(
    '%s are closed in time, harm no other client and leave nothing',
    async (kind, begin) => {
      const before = await stats();
      const attackers = new Attackers();
      const bystander = new Bystander();
      cleanups.push(
        () => attackers.stop(),
        () => bystander.stop(),
      );
      bystander.start();
      // Megabytes for each of these: making them would take what the bystander waits for.
      const count = isCostly(kind) ? connections / 20 : connections;
      await attackers.open(count, (socket) => begin(attackers, socket));
      const during = await stats();
      // The bystander's own may be among them.
      await untilConnections(before.connections + 1);
      await bystander.stop();
      const after = await eventually('nothing is left of them', async () => {
        const now = await stats();
        return now.connections <= before.connections &&
          now.heapBytes < before.heapBytes + 20 * 1024 * 1024
          ? now
          : undefined;
      });
      const mib = (bytes: number) => Math.round(bytes / 1024 / 1024);
      const summary = `${kind}: ${count} connections, ${during.connections} let in, p99 ${Math.round(bystander.p99)} ms of ${bystander.times.length}, rss ${mib(before.rssBytes)}, ${mib(during.rssBytes)}, ${mib(after.rssBytes)} MiB`;
      if (isLong) process.stdout.write(`${summary}\n`);
      expect({ summary, failures: bystander.failures.map(String) }).toEqual({
        summary,
        failures: [],
      });
      expect(during.rssBytes).toBeLessThan(maxRssBytes);
    },
    5 * closeMs,
  );
});
