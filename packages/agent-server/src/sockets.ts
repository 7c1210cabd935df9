import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import type { RawData, WebSocket, WebSocketServer } from 'ws';
import * as z from 'zod/mini';
import { parseUuid } from '@conversation-operator/base/uuid';
import { messageBody } from './bodies.ts';
import type { Conversation } from './conversation.ts';
import type { AgentEvent } from './events.ts';
import { parseJson } from './json.ts';
import { fullStateEvent } from './presenters.ts';

export interface SocketsOptions {
  readonly accepts: (key: string | string[] | undefined) => boolean;
  /** Finds a conversation by its id of 32 hexadecimal digits. */
  readonly find: (id: string) => Conversation | undefined;
  readonly log: (message: string, error?: unknown) => void;
}

const path = /^\/sockets\/events\/([^/]+)$/;
const unauthorized = 4001;
const unknownConversation = 4004;
const firstFrameTimeoutMs = 10_000;
const pingIntervalMs = 20_000;
const maxFrameBytes = 1024 * 1024;
/** Maximum unsent bytes, beyond which a connection closes. Clients can request missed events. */
const maxBufferedBytes = 16 * 1024 * 1024;
/** Maximum unsent bytes, beyond which a connection gets stored events but no StreamingDelta. */
const maxLiveBufferedBytes = 1024 * 1024;
const replayPage = 100;

const authFrame = z.object({ type: z.literal('auth'), session_api_key: z.string() });

/** WebSocket at `/sockets/events/{id}`: sends events of a conversation and receives messages. */
export class Sockets {
  readonly #options: SocketsOptions;
  readonly #open = new Set<WebSocket>();
  #server: WebSocketServer | undefined;

  constructor(options: SocketsOptions) {
    this.#options = options;
  }

  async upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on('error', () => socket.destroy());
    const url = new URL(request.url ?? '/', 'http://agent');
    const id = path.exec(url.pathname)?.[1];
    if (id === undefined) {
      reject(socket, '404 Not Found');
      return;
    }
    const header = request.headers['x-session-api-key'];
    const key = url.searchParams.get('session_api_key') ?? header;
    if (key !== undefined && !this.#options.accepts(key)) {
      reject(socket, '403 Forbidden');
      return;
    }
    try {
      // The import is dynamic, because agents without WebSocket clients do not need the library.
      const { WebSocketServer: Server } = await import('ws');
      this.#server ??= new Server({
        noServer: true,
        maxPayload: maxFrameBytes,
        perMessageDeflate: false,
      });
      this.#server.handleUpgrade(request, socket, head, (connection) =>
        this.#accept(connection, { id, url, authorised: key !== undefined }),
      );
    } catch (error) {
      this.#options.log('a WebSocket could not be opened', error);
      socket.destroy();
    }
  }

  close(): void {
    for (const connection of this.#open) connection.close(1001);
  }

  #accept(
    connection: WebSocket,
    {
      id,
      url,
      authorised,
    }: { readonly id: string; readonly url: URL; readonly authorised: boolean },
  ): void {
    this.#open.add(connection);
    const ping = setInterval(() => connection.ping(), pingIntervalMs);
    connection.on('close', () => {
      clearInterval(ping);
      this.#open.delete(connection);
    });
    connection.on('error', (error) => this.#options.log('a WebSocket failed', error));
    const begin = () => {
      const conversation = this.#options.find(parseUuid(id) ?? '');
      if (conversation === undefined)
        connection.close(unknownConversation, 'Conversation not found');
      else this.#serve(connection, conversation, url.searchParams);
    };
    if (authorised) begin();
    else this.#awaitKey(connection, begin);
  }

  #awaitKey(connection: WebSocket, begin: () => void): void {
    const timer = setTimeout(
      () => connection.close(unauthorized, 'Unauthorized'),
      firstFrameTimeoutMs,
    );
    connection.once('close', () => clearTimeout(timer));
    connection.once('message', (data) => {
      clearTimeout(timer);
      const frame = authFrame.safeParse(parseFrame(data)).data;
      if (this.#options.accepts(frame?.session_api_key)) begin();
      else connection.close(unauthorized, 'Unauthorized');
    });
  }

  #serve(connection: WebSocket, conversation: Conversation, query: URLSearchParams): void {
    // Events stored during the replay wait, so the client gets each event once and in order.
    let waiting: AgentEvent[] | undefined = [];
    const deliver = (events: readonly AgentEvent[]) => {
      for (const event of events) send(connection, event);
      if (events.some(endsRun)) send(connection, fullStateEvent(conversation));
    };
    const unsubscribe = conversation.log.subscribe((events) => {
      if (waiting === undefined) deliver(events);
      else waiting.push(...events);
    });
    const unsubscribeLive = conversation.live.subscribe((delta) => {
      if (waiting === undefined && connection.bufferedAmount <= maxLiveBufferedBytes)
        send(connection, delta);
    });
    connection.on('close', () => {
      unsubscribe();
      unsubscribeLive();
    });
    connection.on('message', (data) => {
      const message = messageBody.safeParse(parseFrame(data)).data;
      if (message === undefined) return;
      const { run: _run, ...rest } = message;
      conversation
        .post(rest, { run: true })
        .catch((error: unknown) => this.#options.log('a message could not be stored', error));
    });
    replay(connection, conversation, query)
      .then(() => {
        send(connection, fullStateEvent(conversation));
        deliver(waiting ?? []);
        waiting = undefined;
      })
      .catch((error: unknown) => {
        this.#options.log('events could not be replayed', error);
        connection.close(1011);
      });
  }
}

const endsRun = (event: AgentEvent): boolean =>
  event.kind === 'ConversationStateUpdateEvent' &&
  event.key === 'execution_status' &&
  event.value !== 'running';

/** Sends the events that are stored when the replay starts. */
async function replay(
  connection: WebSocket,
  { log }: Conversation,
  query: URLSearchParams,
): Promise<void> {
  const mode = query.get('resend_mode');
  const after = (query.get('after_timestamp') ?? '').replace(/Z$/, '').replace(' ', 'T');
  if (mode !== 'all' && mode !== 'since') return;
  const entries =
    mode === 'all' ? [...log.entries] : log.entries.filter(({ timestamp }) => timestamp >= after);
  for (let start = 0; start < entries.length; start += replayPage) {
    for (const event of await log.read(entries.slice(start, start + replayPage)))
      send(connection, event);
  }
}

function send(connection: WebSocket, event: object): void {
  if (connection.bufferedAmount > maxBufferedBytes) connection.terminate();
  if (connection.readyState === connection.OPEN) connection.send(JSON.stringify(event));
}

function reject(socket: Duplex, status: string): void {
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
}

const parseFrame = (data: RawData): unknown =>
  parseJson(
    (Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as Buffer)).toString('utf8'),
  );
