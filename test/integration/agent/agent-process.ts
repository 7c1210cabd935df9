import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, mkdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { AgentConversation, AgentEndpoint, AgentInit } from '../../../src/agent/agent.ts';
import { OpenHandsClient } from '../../../src/agent/openhands-client.ts';

/** The program of the images, which starts faster than its sources. */
const entryPoint = join(import.meta.dirname, '../../../dist/reference-agent.js');

/** Polls until the value is there. The test's own timeout is the limit. */
export async function eventually<T>(
  read: () => Promise<T | undefined> | T | undefined,
): Promise<T> {
  for (;;) {
    const value = await read();
    if (value !== undefined) return value;
    await delay(10);
  }
}

/** Runs one agent after another on the same folder, as pods of a sandbox on its volume. */
export class AgentVolume implements AsyncDisposable {
  readonly client = new OpenHandsClient();
  readonly folder: string;
  readonly workingDir: string;
  readonly init: AgentInit;
  readonly #processes = new Set<ChildProcess>();
  #env: Readonly<Record<string, string>> = {};

  private constructor(folder: string, env: Readonly<Record<string, string>>) {
    this.folder = folder;
    this.workingDir = join(folder, 'project');
    this.#env = env;
    this.init = {
      bootstrapKey: 'bootstrap',
      sessionKey: 'session',
      secretKey: 'secret',
      conversationsPath: join(folder, 'conversations'),
      bashEventsDir: join(folder, 'bash'),
      env: { GREETING: 'hello' },
    };
  }

  static async create(env: Readonly<Record<string, string>> = {}): Promise<AgentVolume> {
    const volume = new AgentVolume(await mkdtemp(join(tmpdir(), 'reference-agent-')), env);
    await mkdir(volume.workingDir);
    return volume;
  }

  /** A dormant agent. */
  async start(
    env: Readonly<Record<string, string>> = {
      OH_DEFERRED_INIT: 'true',
      OH_SECRET_KEY: 'bootstrap',
    },
  ) {
    const child = spawn(process.execPath, [entryPoint, '--port', '0'], {
      env: {
        PATH: process.env['PATH'] ?? '',
        OH_CONVERSATIONS_PATH: this.init.conversationsPath,
        ...this.#env,
        ...env,
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    this.#processes.add(child);
    const address = await new Promise<string>((resolve, reject) => {
      let text = '';
      child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
        const match = /listening on ([^"]+)"/.exec(text);
        if (match?.[1] !== undefined) resolve(match[1]);
      });
      child.once('exit', (code) => reject(new Error(`the agent ended with ${code}: ${text}`)));
    });
    const endpoint: AgentEndpoint = { baseUrl: `http://${address}`, sessionKey: 'session' };
    return {
      endpoint,
      stop: (signal: NodeJS.Signals) => this.#stop(child, signal),
      pid: child.pid ?? 0,
    };
  }

  /** An agent that has its keys. */
  async startReady() {
    const agent = await this.start();
    await this.client.initialise(agent.endpoint, this.init);
    return agent;
  }

  /** The conversation as soon as it has one of the statuses. */
  until(
    endpoint: AgentEndpoint,
    id: string,
    ...statuses: readonly string[]
  ): Promise<AgentConversation> {
    return eventually(async () => {
      const conversation = await this.client.conversation(endpoint, id);
      return conversation !== undefined && statuses.includes(conversation.reportedStatus)
        ? conversation
        : undefined;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#processes].map((child) => this.#stop(child, 'SIGKILL')));
    await this.client.close();
    await rm(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  /** Exit code; null when the signal itself ended it. */
  async #stop(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
    if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
    return child.exitCode;
  }
}

export interface WireEvent {
  readonly id: string;
  readonly kind: string;
  readonly source: string;
  readonly timestamp: string;
  readonly [field: string]: unknown;
}

/** A plain call, for what the client has no method for. */
export async function call(
  { baseUrl, sessionKey }: AgentEndpoint,
  route: string,
  body?: unknown,
): Promise<{ readonly status: number; readonly body: unknown }> {
  const [method = 'GET', path = '/'] = route.split(' ');
  const response = await fetch(`${baseUrl}${path}`, {
    method,
    headers: { 'x-session-api-key': sessionKey },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: await response.json() };
}

export async function eventsOf(
  endpoint: AgentEndpoint,
  id: string,
  query = '',
): Promise<readonly WireEvent[]> {
  const { body } = await call(endpoint, `GET /api/conversations/${id}/events/search?${query}`);
  return (body as { items: WireEvent[] }).items;
}

/** A message of shell code blocks. */
export const script = (...blocks: readonly string[]) =>
  ({
    content: [
      { type: 'text', text: blocks.map((block) => `\`\`\`sh\n${block}\n\`\`\``).join('\n') },
    ],
  }) as const;
