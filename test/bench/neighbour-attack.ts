import { connect, type Socket } from 'node:net';

/**
 * One owner that does its worst, with ten keys and from several addresses, until it is ended.
 * Connections that are closed are opened again; what is answered is asked again. Its first argument
 * is an `Attack`, its output a line with what it was answered, each second.
 */
export interface Attack {
  readonly port: number;
  readonly keys: readonly string[];
  /** Conversations in sandboxes whose agents are silent. */
  readonly conversations: readonly string[];
  /** Sandboxes with their session keys. */
  readonly sandboxes: readonly { readonly name: string; readonly sessionKey: string }[];
}

const attack = JSON.parse(process.argv[2] ?? '{}') as Attack;
/** Retry delay of a closed connection: without it the client takes the machine, not the gateway. */
const pauseMs = 50;
const addresses = 8;
const answered = new Map<string, number>();
let turn = 0;
const next = <T>(values: readonly T[]): T => {
  const value = values[(turn += 1) % values.length];
  if (value === undefined) throw new Error('there is nothing to choose from');
  return value;
};

const picture = `data:image/png;base64,${'A'.repeat(230_000)}`;
const large = JSON.stringify({
  initial_message: {
    content: [
      { type: 'text', text: 'See the screenshots.' },
      { type: 'image', image_urls: [picture, picture, picture, picture] },
    ],
  },
});
const small = JSON.stringify({
  initial_message: { content: [{ type: 'text', text: 'x'.repeat(50_000) }] },
});

const asking = (line: string, body?: string): string =>
  `${line} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${next(attack.keys)}\r\n` +
  (body === undefined
    ? '\r\n'
    : `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
const toAgent = (path: string, more = '', withKey = true): string => {
  const { name, sessionKey } = next(attack.sandboxes);
  return `GET /sandboxes/${name}/AGENT_SERVER${path} HTTP/1.1\r\nHost: x\r\n${withKey ? `X-Session-API-Key: ${sessionKey}\r\n` : ''}${more}\r\n`;
};
const upgrade =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n';
const base = '/api/v1/app-conversations';
const tasks = () =>
  `${base}/start-tasks?${attack.conversations
    .slice(0, 100)
    .map((id) => `ids=${id}`)
    .join('&')}`;
const unknown = () =>
  `${base}?${Array.from({ length: 100 }, () => `ids=${(turn += 1).toString(16).padStart(32, 'f')}`).join('&')}`;

interface Kind {
  readonly connections: number;
  readonly request: () => string;
  /** Reads nothing of the answer. */
  readonly isDeaf?: true;
}

const kinds: Readonly<Record<string, Kind>> = {
  'event reads of silent agents': {
    connections: 100,
    request: () => asking(`GET /api/v1/conversation/${next(attack.conversations)}/events/search`),
  },
  'slow requests to agents': { connections: 300, request: () => toAgent('/slow') },
  'answers of agents that are not read': {
    connections: 200,
    request: () => toAgent('/pour'),
    isDeaf: true,
  },
  WebSockets: { connections: 200, request: () => toAgent('/sockets/events', upgrade) },
  'WebSockets without a key': {
    connections: 100,
    request: () => toAgent('/sockets/events', upgrade, false),
  },
  'stream-starts': { connections: 300, request: () => asking(`POST ${base}/stream-start`, small) },
  'answers that are not read': {
    connections: 100,
    request: () => asking(`GET ${tasks()}`),
    isDeaf: true,
  },
  'starts of the largest size': { connections: 20, request: () => asking(`POST ${base}`, large) },
  'searches in everything': {
    connections: 20,
    request: () => asking(`GET ${base}/search?limit=100&title__contains=e&sort_order=TITLE`),
  },
  'pages of a hundred': { connections: 20, request: () => asking(`GET ${base}/search?limit=100`) },
  'requests that never end': {
    connections: 300,
    request: () => 'GET / HTTP/1.1\r\nHost: x\r\nX-A: a',
  },
  'reads of what does not exist': { connections: 10, request: () => asking(`GET ${unknown()}`) },
};

const statusIn = (chunk: Buffer): string | undefined =>
  /^HTTP\/1\.1 (\d{3})/.exec(chunk.toString('latin1', 0, 12))?.[1];
const count = (name: string, status: string) =>
  answered.set(`${name}: ${status}`, (answered.get(`${name}: ${status}`) ?? 0) + 1);

function run(name: string, { request, isDeaf }: Kind, index: number): void {
  const again = () => setTimeout(() => run(name, { request, isDeaf } as Kind, index), pauseMs);
  const socket: Socket = connect({
    port: attack.port,
    host: '127.0.0.1',
    localAddress: `127.0.0.${2 + (index % addresses)}`,
  });
  socket
    .on('error', () => undefined)
    .once('close', () => {
      count(name, 'closed');
      again();
    });
  socket.once('connect', () => {
    socket.write(request(), 'latin1');
    if (isDeaf === true) {
      socket.pause();
      return;
    }
    socket.on('data', (chunk: Buffer) => {
      const status = statusIn(chunk);
      if (status === undefined) return;
      count(name, status);
      // A stream continues until the connection ends.
      if (status !== '101' && !name.startsWith('stream'))
        setTimeout(() => !socket.destroyed && socket.write(request(), 'latin1'), pauseMs);
      else if (status === '429') socket.destroy();
    });
  });
}

let index = 0;
/** ATTACK=starts: only what has this in its name. */
const wanted = Object.entries(kinds).filter(([name]) => name.includes(process.env['ATTACK'] ?? ''));
for (const [name, kind] of wanted)
  for (let each = 0; each < kind.connections; each++) run(name, kind, (index += 1));
setInterval(() => {
  process.stdout.write(`${JSON.stringify(Object.fromEntries(answered))}\n`);
}, 1000);
