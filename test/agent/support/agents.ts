import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { AgentService, type ServiceParts } from '../../support/agent-service.ts';
import { ModelServer } from '../../support/model-server.ts';
import { processFile } from '../../support/process-file.ts';

export { hookMs, startMs, type AgentEvent, type Started } from '../../support/agent-service.ts';

export const modelKey = 'llm-key-of-the-tests';

/** The built program with the real agent and a model, and what a user of it does. */
export class Agents extends AgentService {
  readonly model: ModelServer;

  private constructor(parts: ServiceParts, model: ModelServer) {
    super(parts);
    this.model = model;
  }

  /** `given`: a model that runs already, in place of a new one. */
  static async start(
    env: Readonly<Record<string, string>> = {},
    given?: ModelServer,
  ): Promise<Agents> {
    const model = given ?? (await ModelServer.start());
    const configured = {
      AGENT: 'openhands',
      LLM_MODEL: 'openai/m',
      LLM_BASE_URL: model.baseUrl,
      LLM_API_KEY: modelKey,
      ...env,
    };
    return new Agents(await AgentService.startParts(configured), model);
  }

  override async stop(): Promise<void> {
    await super.stop();
    await this.model[Symbol.asyncDispose]();
  }

  /** Another template with the same agent. */
  async addTemplate(
    name: string,
    { agent = {}, ...spec }: { agent?: object; idleTimeout?: string; models?: object },
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

  /** The agent's process of the only sandbox that runs. */
  agentProcess(): number {
    const pids = this.up
      .agentProcesses()
      .filter((pid) => processFile(pid, 'cmdline').includes('openhands.agent_server'));
    const [pid] = pids;
    if (pids.length !== 1 || pid === undefined) throw new Error(`${pids.length} agents run`);
    return pid;
  }

  /** Names of volumes that are there, for what has to be gone. */
  volumes(): readonly string[] {
    return readdirSync(join(this.up.dataDir, 'node', 'volumes'));
  }
}
