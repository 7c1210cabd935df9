import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { conversationSchema } from '../../src/gateway/views/conversation.ts';
import { startTaskSchema, type StartTask } from '../../src/gateway/views/start-task.ts';
import { eventually } from './eventually.ts';

export type ConversationRecord = z.output<typeof conversationSchema>;

export const program = fileURLToPath(new URL('../../dist/main.js', import.meta.url));

export interface UpOptions {
  /** Absent: a fresh one, removed with the installation. */
  readonly dataDir?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly readyMs?: number;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
}

/** The built program in a process of its own, as `make run` starts it. */
export class Installation {
  readonly dataDir: string;
  readonly #process: ChildProcess;
  readonly #exited: Promise<number | null>;
  readonly #own: boolean;
  output = '';
  url = '';
  key = '';

  private constructor(dataDir: string, own: boolean, child: ChildProcess) {
    this.dataDir = dataDir;
    this.#own = own;
    this.#process = child;
    this.#exited = new Promise((resolve) => child.once('exit', resolve));
  }

  static async start({ dataDir, env = {}, readyMs = 20_000 }: UpOptions = {}): Promise<Installation> {
    const folder = dataDir ?? mkdtempSync(join(tmpdir(), 'conversation-operator-'));
    const child = spawn(process.execPath, ['--max-semi-space-size=4', program, 'up'], {
      env: { PATH: process.env['PATH'], HOME: folder, PORT: '0', DATA_DIR: folder, LOG_LEVEL: 'info', LOG_FORMAT: 'json', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const installation = new Installation(folder, dataDir === undefined, child);
    await installation.#untilReady(readyMs);
    return installation;
  }

  get kubeconfig(): string {
    return join(this.dataDir, 'kubeconfig');
  }

  get pid(): number {
    return this.#process.pid ?? 0;
  }

  async #untilReady(readyMs: number): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`not ready within ${readyMs} ms:\n${this.output}`)), readyMs);
      const onData = (chunk: Buffer) => {
        this.output += chunk.toString();
        if (/^ready$/m.test(this.output)) {
          clearTimeout(timer);
          resolve();
        }
      };
      this.#process.stdout?.on('data', onData);
      this.#process.stderr?.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
      this.#process.once('exit', (code) => {
        clearTimeout(timer);
        reject(new Error(`ended with ${String(code)}:\n${this.output}`));
      });
    });
    this.url = /REST service\s+(\S+)/.exec(this.output)?.[1] ?? '';
    this.key = readFileSync(join(this.dataDir, 'api-key'), 'utf8').trim();
  }

  /** A call to the REST service with the first key. */
  async call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    const response = await fetch(`${this.url}${path}`, {
      method,
      headers: { Authorization: `Bearer ${this.key}`, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }), ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text === '' ? undefined : (JSON.parse(text) as unknown) };
  }

  /** Starts a conversation; throws when it is not accepted. */
  async start(text: string, more: object = {}): Promise<StartTask> {
    const { status, body } = await this.call('POST', '/api/v1/app-conversations', { ...saying(text), ...more });
    if (status !== 200) throw new Error(`${status}: ${JSON.stringify(body)}`);
    return startTaskSchema.parse(body);
  }

  async startTask(id: string): Promise<StartTask> {
    const { body } = await this.call('GET', `/api/v1/app-conversations/start-tasks?ids=${id}`);
    const [task] = z.array(startTaskSchema).parse(body);
    if (task === undefined) throw new Error(`there is no start task ${id}`);
    return task;
  }

  /** The start task once it is READY or in ERROR. */
  over(id: string, timeoutMs?: number): Promise<StartTask> {
    return eventually(
      `start ${id} READY or ERROR`,
      async () => {
        const task = await this.startTask(id);
        return ['READY', 'ERROR'].includes(task.status) && task;
      },
      timeoutMs,
    );
  }

  async conversation(id: string): Promise<ConversationRecord> {
    const { body } = await this.call('GET', `/api/v1/app-conversations?ids=${id}`);
    const [record] = z.array(conversationSchema).parse(body);
    if (record === undefined) throw new Error(`there is no conversation ${id}`);
    return record;
  }

  /** The conversation once it has these values. */
  reaches(id: string, values: Partial<ConversationRecord>, timeoutMs?: number): Promise<ConversationRecord> {
    return eventually(
      `${id} to have ${JSON.stringify(values)}`,
      async () => {
        const record: ConversationRecord = await this.conversation(id);
        return isDeepStrictEqual({ ...record, ...values }, record) && record;
      },
      timeoutMs,
    );
  }

  /** As a machine that loses power would: nothing is tidied up. */
  async kill(): Promise<void> {
    this.#process.kill('SIGKILL');
    await this.#exited;
  }

  /** As Ctrl-C does. Returns the exit code. */
  async stop(): Promise<number | null> {
    this.#process.kill('SIGTERM');
    const code = await this.#exited;
    if (this.#own) rmSync(this.dataDir, { recursive: true, force: true });
    return code;
  }

  /** Ids of the processes of its agents, and of what they run, whoever their parent is. */
  agentProcesses(): number[] {
    const id = readFileSync(join(this.dataDir, 'node', 'node-id'), 'utf8').trim();
    return readdirSync('/proc').flatMap((entry) => {
      if (!/^\d+$/.test(entry) || Number(entry) === this.pid) return [];
      try {
        return readFileSync(`/proc/${entry}/environ`, 'utf8').includes(`CONVERSATION_OPERATOR_NODE=${id}`) ? [Number(entry)] : [];
      } catch {
        return [];
      }
    });
  }
}

export const saying = (text: string) => ({ initial_message: { content: [{ type: 'text', text }] } });
