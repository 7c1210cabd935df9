import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { agentsFolder } from './agents-folder.ts';
import { eventually } from './eventually.ts';
import { tracesOfKey } from './key-scan.ts';
import { Installation } from './installation.ts';
import { kubectl } from './kubectl.ts';
import type { ConversationRecord } from './rest-user.ts';

/** Maximum time of the hooks of a file, which start no agent. */
export const hookMs = 120_000;
/** An agent takes 5 to 10 s of a core until it answers: much longer where others want that core. */
export const startMs = 240_000;

const eventsSchema = z.object({ items: z.array(z.looseObject({ kind: z.string() })) });
export type AgentEvent = z.output<typeof eventsSchema>['items'][number];

const install = (folder: string, env: Readonly<Record<string, string>>): Promise<Installation> =>
  Installation.start({ dataDir: join(folder, 'data'), env: { AGENTS_DIR: agentsFolder, ...env } });

export interface Started {
  readonly id: string;
  readonly sandbox: string;
}

export interface ServiceParts {
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  readonly up: Installation;
}

/** The built program with real agents, and what a user of it does. */
export class AgentService {
  /** Folder for the files of a test, removed with the agents. */
  readonly folder: string;
  readonly #env: Readonly<Record<string, string>>;
  #up: Installation;

  protected constructor({ folder, env, up }: ServiceParts) {
    this.folder = folder;
    this.#env = env;
    this.#up = up;
  }

  protected static async startParts(env: Readonly<Record<string, string>>): Promise<ServiceParts> {
    const folder = mkdtempSync(join(tmpdir(), 'agents-'));
    return { folder, env, up: await install(folder, env) };
  }

  get up(): Installation {
    return this.#up;
  }

  /** Kills everything but the model. */
  kill(): Promise<void> {
    return this.#up.kill();
  }

  /** Starts the service again after `kill`, on the data that is left. */
  async startAgain(): Promise<void> {
    this.#up = await install(this.folder, this.#env);
  }

  async stop(): Promise<void> {
    await this.#up.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  async stopKeyless(): Promise<void> {
    try {
      await this.expectKeyless();
    } finally {
      await this.stop();
    }
  }

  /** Throws if the sandboxes that are there, or what is left of others, have the key of the model. */
  async expectKeyless(): Promise<void> {
    const traces = await tracesOfKey(this.#up, this.#env['LLM_API_KEY'] ?? '');
    if (traces.length > 0) throw new Error(`The key of the model is in ${traces.join(', ')}`);
  }

  /** Starts a conversation and waits until its agent has accepted it. */
  async begin(text: string, more: object = {}): Promise<Started> {
    const { id } = await this.up.start(text, more);
    const task = await this.up.over(id, startMs);
    if (task.status !== 'READY') throw new Error(JSON.stringify(task));
    return { id: task.app_conversation_id ?? '', sandbox: task.sandbox_id ?? '' };
  }

  /** The record once it has these values; on a time-out, the error shows the record instead. */
  async reaches(
    id: string,
    values: Partial<ConversationRecord>,
    timeoutMs = startMs,
  ): Promise<ConversationRecord> {
    try {
      return await this.up.reaches(id, values, timeoutMs);
    } catch (error) {
      const { sandbox_status, sandbox_status_reason, execution_status, title } =
        await this.up.conversation(id);
      const status = await this.k('get', 'conversation', id, '-o', 'jsonpath={.status}');
      const seen = JSON.stringify({
        sandbox_status,
        sandbox_status_reason,
        execution_status,
        title,
      });
      throw new Error(`${id} should have ${JSON.stringify(values)}, and has ${seen}\n${status}`, {
        cause: error,
      });
    }
  }

  async k(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await kubectl(this.up.kubeconfig, args);
    if (code !== 0) throw new Error(stderr);
    return stdout;
  }

  async apply(object: object): Promise<void> {
    const { code, stderr } = await kubectl(
      this.up.kubeconfig,
      ['apply', '-f', '-'],
      JSON.stringify(object),
    );
    if (code !== 0) throw new Error(stderr);
  }

  /** The folder that the agent of a sandbox works in. */
  async workspace(sandbox: string): Promise<string> {
    const volume = await this.k('get', 'pvc', sandbox, '-o', 'jsonpath={.metadata.uid}');
    return join(this.up.dataDir, 'node', 'volumes', volume);
  }

  /** The text of a file of the project once the file has one. */
  async file(sandbox: string, name: string): Promise<string> {
    const path = join(await this.workspace(sandbox), 'project', name);
    return eventually(
      `${name} to be there`,
      // A shell makes a file before it writes to it.
      () => existsSync(path) && (readFileSync(path, 'utf8') || undefined),
      startMs,
    );
  }

  async fileNow(sandbox: string, name: string): Promise<string | undefined> {
    const path = join(await this.workspace(sandbox), 'project', name);
    return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
  }

  /** The events of the agent, oldest first, as the gateway passes them on. */
  async events(id: string, query = ''): Promise<readonly AgentEvent[]> {
    const { body } = await this.up.call(
      'GET',
      `/api/v1/conversation/${id}/events/search?limit=100${query}`,
    );
    return eventsSchema.parse(body).items;
  }

  /** A call to the agent through the gateway's proxy, with the session key of the record. */
  async agent(id: string, method: string, path: string, body?: object): Promise<unknown> {
    const { conversation_url: url, session_api_key: key } = await this.up.conversation(id);
    const response = await fetch(`${url ?? ''}${path}`, {
      method,
      headers: { 'X-Session-API-Key': key ?? '', 'Content-Type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
    return response.json();
  }

  /** Sends a message to a conversation, which is to be worked on, now or once the agent answers. */
  async say(id: string, text: string): Promise<void> {
    const message = { role: 'user', content: [{ type: 'text', text }], run: true };
    const { status, body } = await this.up.call(
      'POST',
      `/api/v1/app-conversations/${id}/send-message`,
      message,
    );
    if (status !== 200 && status !== 202) throw new Error(`${status}: ${JSON.stringify(body)}`);
  }

  /** How many sandboxes of an owner may run. */
  async limit(limit: number): Promise<void> {
    await this.k(
      'patch',
      'conversationquota',
      'default',
      '--type',
      'merge',
      '-p',
      JSON.stringify({ spec: { limit } }),
    );
  }

  async delete(id: string): Promise<void> {
    await this.up.call('DELETE', `/api/v1/app-conversations/${id}`);
  }
}
