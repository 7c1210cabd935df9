import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { processFile } from './process-file.ts';
import { RestUser } from './rest-user.ts';

export { saying } from './rest-user.ts';

export const program = fileURLToPath(new URL('../../dist/main.js', import.meta.url));

export interface UpOptions {
  /** Default: a fresh folder, removed with the installation. */
  readonly dataDir?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly readyMs?: number;
}

/** The built program in a process of its own, as `make run` starts it. */
export class Installation extends RestUser {
  readonly dataDir: string;
  readonly #process: ChildProcess;
  readonly #exited: Promise<number | null>;
  readonly #own: boolean;
  output = '';

  private constructor(dataDir: string, own: boolean, child: ChildProcess) {
    super();
    this.dataDir = dataDir;
    this.#own = own;
    this.#process = child;
    this.#exited = new Promise((resolve) => child.once('exit', resolve));
  }

  static async start({
    dataDir,
    env = {},
    readyMs = 60_000,
  }: UpOptions = {}): Promise<Installation> {
    const folder = dataDir ?? mkdtempSync(join(tmpdir(), 'conversation-operator-'));
    // On a busy machine the gateway would refuse requests of tests as overload.
    const settings = {
      PORT: '0',
      DATA_DIR: folder,
      LOG_LEVEL: 'info',
      LOG_FORMAT: 'json',
      OVERLOAD_DELAY_MS: '0',
      ...env,
    };
    const child = spawn(process.execPath, ['--max-semi-space-size=4', program, 'up'], {
      env: { PATH: process.env['PATH'], HOME: folder, ...settings },
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
      const timer = setTimeout(
        () => reject(new Error(`not ready within ${readyMs} ms:\n${this.output}`)),
        readyMs,
      );
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

  /** Ends like a machine that loses power, without any clean-up. */
  async kill(): Promise<void> {
    this.#process.kill('SIGKILL');
    await this.#exited;
  }

  /** Stops as Ctrl-C does; returns the exit code. */
  async stop(): Promise<number | null> {
    this.#process.kill('SIGTERM');
    const code = await this.#exited;
    if (this.#own) rmSync(this.dataDir, { recursive: true, force: true });
    return code;
  }

  /** Ids of the processes of its agents, and of their children, whatever their parent is. */
  agentProcesses(): number[] {
    const id = readFileSync(join(this.dataDir, 'node', 'node-id'), 'utf8').trim();
    return readdirSync('/proc')
      .filter((entry) => /^\d+$/.test(entry) && Number(entry) !== this.pid)
      .filter((entry) => processFile(entry, 'environ').includes(`CONVERSATION_OPERATOR_NODE=${id}`))
      .map(Number);
  }
}
