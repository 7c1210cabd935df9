import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { createHash, randomUUID, timingSafeEqual } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import { listenAt } from '@conversation-operator/base/addresses';
import { commandBody, hooksBody, initBody, parse, skillsBody, type WebhookBody } from './bodies.ts';
import { Commands } from './commands.ts';
import { conversationRoutes, type Ready } from './conversation-routes.ts';
import { Conversations } from './conversations.ts';
import { dispositionOf, download, readBody, upload } from './file-transfer.ts';
import { Git } from './git/git.ts';
import { gitRoutes } from './git/routes.ts';
import { HttpError, type Download, Router, type RouteResponse } from './router.ts';
import { parseJson } from './json.ts';
import type { Programs } from './program.ts';
import { SecretBox } from './secrets.ts';
import { commandEnvironment, SettingsError, type Settings } from './settings.ts';
import { projectHooks, projectSkills } from './skills.ts';
import { Sockets } from './sockets.ts';
import { Webhooks, type WebhookSettings } from './webhooks.ts';

/** Version of the OpenHands protocol, of which this server implements a subset. */
const version = '1.58.0';
/** Display name of the reference agent. Servers for other agents have no display name. */
const title = 'Reference agent';
const maxCommandOutputBytes = 8 * 1024 * 1024;

interface ReadyState extends Ready {
  readonly webhooks: Webhooks;
  readonly sessionKeys: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

interface Keys {
  readonly sessionKeys: readonly string[];
  readonly secretKey: string;
  readonly conversationsPath: string;
  readonly env: Readonly<Record<string, string>>;
  readonly webhooks: readonly WebhookSettings[];
}

const webhookOf = (body: WebhookBody): WebhookSettings => ({
  baseUrl: body.base_url,
  headers: body.headers,
  bufferSize: body.event_buffer_size,
  flushDelayMs: body.flush_delay * 1000,
  retries: body.num_retries,
  retryDelayMs: body.retry_delay * 1000,
  maxQueuedEvents: body.max_queue_size,
  maxQueuedBytes: body.max_queue_bytes,
  maxBatchBytes: body.max_batch_bytes,
});

/** Whether the header equals one of the keys. The constant-time comparison reveals no key. */
function acceptsKey(keys: readonly string[], header: string | string[] | undefined): boolean {
  const candidate = Array.isArray(header) ? header[0] : header;
  if (candidate === undefined) return false;
  const given = digest(candidate);
  return keys.map((key) => timingSafeEqual(digest(key), given)).includes(true);
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

export class AgentServer {
  readonly #settings: Settings;
  readonly #programs: Programs;
  readonly #commands = new Commands();
  readonly #router = new Router();
  readonly #sockets: Sockets;
  readonly #server: Server;
  readonly #log: (message: string, error?: unknown) => void;
  readonly #startedMs = performance.now();
  #lastActivityMs = performance.now();
  #ready: ReadyState | undefined;
  #initialising: Promise<void> | undefined;

  constructor({
    settings,
    programs,
    log,
  }: {
    readonly settings: Settings;
    readonly programs: Programs;
    readonly log: (message: string, error?: unknown) => void;
  }) {
    this.#settings = settings;
    this.#programs = programs;
    this.#log = log;
    // An import of node:http would also load the client `fetch`, which costs 15 MB and 20 ms.
    this.#server = process
      .getBuiltinModule('node:http')
      .createServer((request, response) => void this.#serve(request, response));
    this.#sockets = new Sockets({
      accepts: (key) => this.#accepts(key),
      find: (id) => this.#ready?.conversations.get(id),
      log,
    });
    this.#server.on(
      'upgrade',
      (request, socket, head) => void this.#sockets.upgrade(request, socket, head),
    );
    this.#addRoutes();
  }

  /** Resolves when the server accepts connections. */
  async start(): Promise<AddressInfo> {
    const { deferredInit, sessionKeys, secretKey, conversationsPath, env, host, port } =
      this.#settings;
    if (!deferredInit) {
      await this.#makeReady({
        sessionKeys,
        secretKey: secretKey ?? sessionKeys[0] ?? '',
        conversationsPath,
        env,
        webhooks: [],
      });
    }
    await listenAt(this.#server, { host, port });
    const address = this.#server.address();
    if (address === null || typeof address === 'string')
      throw new Error('the server listens on no port');
    return address;
  }

  /** Pauses running conversations, kills commands and closes connections. */
  async stop(): Promise<void> {
    this.#server.close();
    await this.#initialising?.catch(() => undefined);
    await this.#ready?.conversations.close();
    await this.#ready?.webhooks.close();
    this.#commands.close();
    this.#sockets.close();
    this.#server.closeAllConnections();
  }

  #addRoutes(): void {
    const on = this.#router.on.bind(this.#router);
    on('GET /alive', () => ({ body: { status: 'ok' } }));
    on('GET /health', () => ({ body: { status: 'ok' } }));
    on('GET /ready', () => ({ body: { status: 'ready' } }));
    on('GET /server_info', () => ({ body: this.#serverInfo() }));
    on('GET /', () => ({ body: this.#serverInfo() }));
    if (this.#settings.deferredInit) {
      on('GET /api/init', () => ({
        body: { state: this.#ready === undefined ? 'dormant' : 'ready', error: null },
      }));
      on('POST /api/init', async (call) =>
        this.#initialise(call.request.headers['x-init-api-key'], await call.body()),
      );
    }
    on('POST /api/bash/execute_bash_command', async (call) =>
      this.#executeCommand(await call.body()),
    );
    on('POST /api/file/upload', async ({ request, url }) => ({
      body: await upload(request, url.searchParams.get('path') ?? ''),
    }));
    on('GET /api/file/download', async ({ url }) => {
      this.#touch();
      return { download: await download(url.searchParams.get('path') ?? '') };
    });
    gitRoutes(this.#router, () => this.#newGit());
    on('GET /api/tools', () => ({ body: ['terminal', 'finish'] }));
    on('POST /api/skills', async (call) => {
      const { load_project, project_dir } = parse(skillsBody, await call.body(), 'body');
      const skills = load_project && project_dir != null ? await projectSkills(project_dir) : [];
      const sources = {
        sandbox: 0,
        registered_marketplaces: 0,
        sdk_base: 0,
        org: 0,
        project: skills.length,
      };
      return { body: { skills, sources } };
    });
    on('POST /api/hooks', async (call) => {
      const { project_dir } = parse(hooksBody, await call.body(), 'body');
      return {
        body: {
          hook_config: project_dir == null ? null : ((await projectHooks(project_dir)) ?? null),
        },
      };
    });
    conversationRoutes(this.#router, () => this.#assertReady());
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      send(response, await this.#respond(request));
    } catch (error) {
      send(response, this.#errorResponse(error));
    }
  }

  async #respond(request: IncomingMessage): Promise<RouteResponse> {
    const url = new URL(request.url ?? '/', 'http://agent');
    const path = url.pathname;
    // `/api/init` has a key of its own, and exists only with deferred init.
    if (path.startsWith('/api/') && path !== '/api/init') {
      this.#assertReady();
      if (!this.#accepts(request.headers['x-session-api-key']))
        throw new HttpError(401, 'Unauthorized');
    }
    const found = this.#router.find(request.method ?? '', path);
    if (found === undefined) throw new HttpError(404, 'Not Found');
    if (found === 'other-method') throw new HttpError(405, 'Method Not Allowed');
    return found.handler({ request, url, params: found.params, body: () => readJson(request) });
  }

  #errorResponse(error: unknown): RouteResponse {
    if (error instanceof HttpError && error.status < 500)
      return { status: error.status, body: { detail: error.detail } };
    const status = error instanceof HttpError ? error.status : 500;
    if (!(error instanceof HttpError)) this.#log('a request failed', error);
    const reason = error instanceof Error ? error.message : String(error);
    const exception = error instanceof HttpError ? `${status}: ${reason}` : reason;
    return {
      status,
      body: {
        detail: 'Internal Server Error',
        exception,
        error_id: randomUUID().replaceAll('-', ''),
      },
    };
  }

  #assertReady(): ReadyState {
    if (this.#ready === undefined) {
      throw new HttpError(503, "server is in deferred-init state 'dormant'; POST /api/init first");
    }
    return this.#ready;
  }

  #accepts(key: string | string[] | undefined): boolean {
    return this.#ready !== undefined && acceptsKey(this.#ready.sessionKeys, key);
  }

  async #initialise(key: string | string[] | undefined, body: unknown): Promise<RouteResponse> {
    if (!acceptsKey([this.#settings.secretKey ?? ''], key))
      throw new HttpError(401, 'Unauthorized');
    const init = parse(initBody, body, 'body');
    await this.#initialising?.catch(() => undefined);
    if (this.#ready !== undefined) throw new HttpError(400, 'server already in state: ready');
    this.#initialising = this.#makeReady({
      sessionKeys: init.session_api_keys,
      secretKey: init.secret_key ?? init.session_api_keys[0] ?? '',
      conversationsPath: init.conversations_path ?? this.#settings.conversationsPath,
      env: { ...this.#settings.env, ...init.env },
      webhooks: (init.webhooks ?? []).map(webhookOf),
    });
    await this.#initialising.catch((error: unknown) => {
      throw error instanceof SettingsError ? new HttpError(422, error.message) : error;
    });
    return { body: { state: 'ready', error: null, title } };
  }

  async #makeReady({
    sessionKeys,
    secretKey,
    conversationsPath,
    env,
    webhooks: settings,
  }: Keys): Promise<void> {
    const secretBox = new SecretBox(secretKey);
    const webhooks = new Webhooks({ settings, sessionKey: sessionKeys[0], log: this.#log });
    const conversations = await Conversations.open({
      path: resolve(conversationsPath),
      env,
      secretBox,
      commands: this.#commands,
      programs: this.#programs,
      maxConcurrentRuns: this.#settings.maxConcurrentRuns,
      touch: () => this.#touch(),
      onOpen: (conversation) => webhooks.follow(conversation),
      onError: this.#log,
    });
    this.#ready = { conversations, secretBox, webhooks, sessionKeys, env };
  }

  async #executeCommand(body: unknown): Promise<RouteResponse> {
    const { command, cwd, timeout } = parse(commandBody, body, 'body');
    const { env } = this.#assertReady();
    this.#touch();
    const timestamp = new Date().toISOString();
    const { exitCode, stdout, stderr } = await this.#commands.run({
      command,
      cwd: cwd ?? process.cwd(),
      env: commandEnvironment(env),
      timeoutMs: timeout * 1000,
      maxOutputBytes: maxCommandOutputBytes,
    });
    const id = () => randomUUID().replaceAll('-', '');
    const output = {
      exit_code: exitCode,
      stdout: stdout === '' ? null : stdout,
      stderr: stderr === '' ? null : stderr,
    };
    return {
      body: { id: id(), command_id: id(), timestamp, order: 0, ...output, kind: 'BashOutput' },
    };
  }

  #newGit(): Git {
    const { env } = this.#assertReady();
    this.#touch();
    return new Git({ guard: this.#commands.guard, env: commandEnvironment(env) });
  }

  #serverInfo(): object {
    const secondsSince = (thenMs: number) => Math.floor((performance.now() - thenMs) / 1000);
    return {
      uptime: secondsSince(this.#startedMs),
      idle_time: secondsSince(this.#lastActivityMs),
      title,
      version,
      usable_tools: ['terminal', 'finish'],
      capabilities: ['idempotent_conversation_create_v1'],
    };
  }

  #touch(): void {
    this.#lastActivityMs = performance.now();
  }
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  const body = await readBody(request);
  if (body.length === 0) return undefined;
  const value = parseJson(body.toString('utf8'));
  if (value !== undefined) return value;
  throw new HttpError(422, [{ type: 'json_invalid', loc: ['body'], msg: 'JSON decode error' }]);
}

function send(response: ServerResponse, result: RouteResponse): void {
  if (response.destroyed) {
    if ('download' in result) result.download.content.destroy();
    return;
  }
  if ('download' in result) {
    sendFile(response, result.download);
    return;
  }
  const { status = 200, body } = result;
  const text = JSON.stringify(body);
  // The connection closes, because the parser would read the rest of an unread body as a request.
  const closing = !response.req.complete ? { connection: 'close' } : {};
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    ...closing,
  });
  response.end(text);
}

/** Sends a file. Breaks the connection if the file has become shorter than its content-length. */
function sendFile(response: ServerResponse, { name, bytes, content }: Download): void {
  response.writeHead(200, {
    'content-type': 'application/octet-stream',
    'content-length': bytes,
    'content-disposition': dispositionOf(name),
  });
  let sent = 0;
  content.on('data', (chunk: Buffer) => (sent += chunk.length));
  content.once('error', () => response.destroy());
  content.once('end', () => {
    if (sent < bytes) response.destroy();
  });
  response.once('close', () => content.destroy());
  content.pipe(response);
}
