import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { eventually } from '../../support/eventually.ts';
import { Installation } from '../../support/installation.ts';
import { kubectl } from '../../support/kubectl.ts';
import { ModelServer } from '../../support/model-server.ts';
import type { ConversationRecord } from '../../support/rest-user.ts';

/** Where test/agent/run has installed it. */
const agentsDir = fileURLToPath(new URL('../../../.cache/agents', import.meta.url));
/** For the hooks of a file: no agent is started in them. */
export const hookMs = 60_000;
/** An agent takes 5 to 10 s of a core until it answers: much longer where others want that core. */
export const startMs = 120_000;

const eventsSchema = z.object({ items: z.array(z.looseObject({ kind: z.string() })) });
export type AgentEvent = z.output<typeof eventsSchema>['items'][number];

/** The key that the agents send to the model. */
export const modelKey = 'llm-key-of-the-tests';

const install = (folder: string, env: Readonly<Record<string, string>>): Promise<Installation> =>
  Installation.start({
    dataDir: join(folder, 'data'),
    env: { AGENT: 'openhands', AGENTS_DIR: agentsDir, ...env },
    readyMs: 30_000,
  });

export interface Started {
  readonly id: string;
  readonly sandbox: string;
}

/** The built program with the real agent and a model, and what a user of it does. */
export class Agents {
  readonly model: ModelServer;
  /** For what a test needs on this disk; it goes with the agents. */
  readonly folder: string;
  readonly #env: Readonly<Record<string, string>>;
  #up: Installation;

  private constructor({
    model,
    folder,
    env,
    up,
  }: Pick<Agents, 'model' | 'folder' | 'up'> & { env: Readonly<Record<string, string>> }) {
    this.model = model;
    this.folder = folder;
    this.#env = env;
    this.#up = up;
  }

  static async start(env: Readonly<Record<string, string>> = {}): Promise<Agents> {
    const model = await ModelServer.start();
    const folder = mkdtempSync(join(tmpdir(), 'agents-'));
    const configured = {
      LLM_MODEL: 'openai/m',
      LLM_BASE_URL: model.baseUrl,
      LLM_API_KEY: modelKey,
      ...env,
    };
    return new Agents({ model, folder, env: configured, up: await install(folder, configured) });
  }

  get up(): Installation {
    return this.#up;
  }

  /** Kills everything but the model. */
  kill(): Promise<void> {
    return this.#up.kill();
  }

  /** After `kill`, on what that has left. */
  async startAgain(): Promise<void> {
    this.#up = await install(this.folder, this.#env);
  }

  async stop(): Promise<void> {
    await this.#up.stop();
    await this.model[Symbol.asyncDispose]();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** Starts a conversation and waits until its agent has accepted it. */
  async begin(text: string, more: object = {}): Promise<Started> {
    const { id } = await this.up.start(text, more);
    const task = await this.up.over(id, startMs);
    if (task.status !== 'READY') throw new Error(JSON.stringify(task));
    return { id: task.app_conversation_id ?? '', sandbox: task.sandbox_id ?? '' };
  }

  /**
   * The record once it has these values; when it does not come to them, the error says what it is
   * instead.
   */
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

  /** The output of kubectl. */
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

  /** Another template with the same agent. */
  async addTemplate(
    name: string,
    { agent = {}, ...spec }: { agent?: object; idleTimeout?: string },
  ): Promise<void> {
    const present = z
      .looseObject({
        apiVersion: z.string(),
        kind: z.string(),
        spec: z.looseObject({ agent: z.looseObject({}) }),
      })
      .parse(JSON.parse(await this.k('get', 'sandboxtemplate', 'openhands', '-o', 'json')));
    const { apiVersion, kind } = present;
    await this.apply({
      apiVersion,
      kind,
      metadata: { name },
      spec: { ...present.spec, ...spec, agent: { ...present.spec.agent, ...agent } },
    });
  }

  /** The folder that the agent of a sandbox works in. */
  async workspace(sandbox: string): Promise<string> {
    const volume = await this.k('get', 'pvc', sandbox, '-o', 'jsonpath={.metadata.uid}');
    return join(this.up.dataDir, 'node', 'volumes', volume);
  }

  /** The text of a file of the project once it is there. */
  async file(sandbox: string, name: string): Promise<string> {
    const path = join(await this.workspace(sandbox), 'project', name);
    return eventually(
      `${name} to be there`,
      () => existsSync(path) && readFileSync(path, 'utf8'),
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

  /**
   * A call to the agent itself, through the gateway's proxy, with the session key of the record.
   */
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

  /** Sends a message to a conversation, which is to be worked on. */
  async say(id: string, text: string): Promise<void> {
    const message = { role: 'user', content: [{ type: 'text', text }], run: true };
    const { status, body } = await this.up.call(
      'POST',
      `/api/v1/app-conversations/${id}/send-message`,
      message,
    );
    if (status !== 200) throw new Error(`${status}: ${JSON.stringify(body)}`);
  }

  /** The agent's process of the only sandbox that runs. */
  agentProcess(): number {
    const pids = this.up
      .agentProcesses()
      .filter((pid) =>
        readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('openhands.agent_server'),
      );
    const [pid] = pids;
    if (pids.length !== 1 || pid === undefined) throw new Error(`${pids.length} agents run`);
    return pid;
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

  /** Names of volumes that are there, for what has to be gone. */
  volumes(): readonly string[] {
    return readdirSync(join(this.up.dataDir, 'node', 'volumes'));
  }
}
