import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import type { AcpVendorName } from '@conversation-operator/agent-server/acp/vendors';
import { apiVersion } from '../../../src/resources/group.ts';
import { acpAgentNames } from '../../../src/resources/acp-settings.ts';
import { AgentService, startMs, type ServiceParts } from '../../support/agent-service.ts';
import { eventually } from '../../support/eventually.ts';
import { processFile } from '../../support/process-file.ts';
import { GitServer } from '../../support/git-server.ts';
import { liftingFiles } from './lifting-files.ts';
import { MockModels } from './mock-models.ts';

export const modelKey = 'llm-key-of-the-tests';

export const names: readonly AcpVendorName[] = acpAgentNames;

const approvalsSchema = z.array(z.looseObject({ id: z.string(), conversation_id: z.string() }));
const inboxSchema = z.object({ items: approvalsSchema });

/** How a person answers a question. */
export type Way = 'rest' | 'kubectl' | 'ui';

/** The built program with all agents of the table of vendors, and a mock of their models. */
export class AcpAgents extends AgentService {
  readonly models: MockModels;
  /** Folder with the files that programs of the repository acme/hostile make. */
  readonly ranFolder: string;
  /** Model to which the repository acme/hostile sends its requests. */
  readonly foreign: MockModels;
  readonly #host: GitServer;

  private constructor(
    parts: ServiceParts,
    { models, foreign }: { readonly models: MockModels; readonly foreign: MockModels },
    host: GitServer,
    ran: string,
  ) {
    super(parts);
    this.ranFolder = ran;
    this.models = models;
    this.foreign = foreign;
    this.#host = host;
  }

  /** `given`: models that run already, in place of new ones. */
  static async start(
    env: Readonly<Record<string, string>> = {},
    given?: MockModels,
  ): Promise<AcpAgents> {
    const models = given ?? (await MockModels.start());
    const foreign = await MockModels.start();
    const ran = mkdtempSync(join(tmpdir(), 'acp-ran-'));
    const host = await GitServer.start({
      repositories: {
        'acme/shop': { files: { 'README.md': 'A shop.\n' } },
        'acme/hostile': { files: liftingFiles(join(ran, 'ran'), foreign.baseUrl) },
      },
    });
    const parts = await AgentService.startParts({
      AGENTS: names.join(),
      LLM_MODEL: 'm',
      LLM_BASE_URL: models.baseUrl,
      LLM_API_KEY: modelKey,
      GIT_HOSTS: JSON.stringify({ github: host.url }),
      ...env,
    });
    return new AcpAgents(parts, { models, foreign }, host, ran);
  }

  override async stop(): Promise<void> {
    await super.stop();
    await this.#host.stop();
    rmSync(this.ranFolder, { recursive: true, force: true });
    await this.models[Symbol.asyncDispose]();
    await this.foreign[Symbol.asyncDispose]();
  }

  /** The id of the question that a conversation waits with, in its record and in the inbox. */
  async question(id: string): Promise<string> {
    const record = await eventually(
      `a question of ${id}`,
      async () => {
        const { pending_approval, execution_status, ...rest } = await this.up.conversation(id);
        if (execution_status === 'error') throw new Error(JSON.stringify(rest));
        return execution_status === 'waiting_for_confirmation' && (pending_approval ?? undefined);
      },
      startMs,
    );
    const { body } = await this.up.call('GET', '/api/v1/approvals');
    const listed = inboxSchema.parse(body).items.map((item) => [item.conversation_id, item.id]);
    expect(listed).toContainEqual([id, record.id]);
    return record.id;
  }

  async answer(
    id: string,
    approval: string,
    decision: 'approve' | 'reject',
    way: Way = 'rest',
  ): Promise<void> {
    const reason = decision === 'reject' ? 'Not this one.' : undefined;
    switch (way) {
      case 'rest': {
        const path = `/api/v1/app-conversations/${id}/approvals/${approval}`;
        const { status, body } = await this.up.call('POST', path, { decision, reason });
        expect([status, body]).toMatchObject([200, { success: true }]);
        return;
      }
      case 'kubectl': {
        const spec = { approvals: [{ id: approval, decision, by: 'alice', reason }] };
        await this.k(
          ...['patch', 'conversation', id, '--type', 'merge', '-p', JSON.stringify({ spec })],
        );
        return;
      }
      case 'ui':
        await this.agent(id, 'POST', '/events/respond_to_confirmation', {
          accept: decision === 'approve',
          ...(reason === undefined ? {} : { reason }),
        });
    }
  }

  /** Processes of sandboxes, each with its descendants; the bridge of a sandbox is the first. */
  processes(): readonly ProcessTree[] {
    const pids = this.up.agentProcesses();
    const parents = new Map(pids.map((pid) => [pid, parentOf(pid)]));
    return pids
      .filter((pid) => processFile(pid, 'cmdline').includes('reference-agent'))
      .map((bridge) => ({ bridge, children: descendants(bridge, parents) }));
  }

  /** The bridge of the only sandbox that runs, and the processes of its agent. */
  process(): ProcessTree {
    const trees = this.processes();
    const [tree] = trees;
    if (trees.length !== 1 || tree === undefined) throw new Error(`${trees.length} bridges run`);
    return tree;
  }

  /** Pauses a sandbox, and waits until its processes have ended. */
  async pause(id: string, sandbox: string): Promise<void> {
    await this.up.call('POST', `/api/v1/sandboxes/${sandbox}/pause`);
    await this.reaches(id, { sandbox_status: 'PAUSED' });
    await this.#untilEnded();
  }

  /** Kills the processes of the agent, and waits until the bridge has noticed. */
  async killAgent(): Promise<void> {
    const { children } = this.process();
    for (const pid of children) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch (error) {
        // The end of one process may end another.
        if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
      }
    }
    await eventually('the agent to end', () => !existsSync(`/proc/${children[0] ?? 0}`), startMs);
  }

  /** Keeps one warm sandbox of a template, and waits until it is ready. `removeAll` ends that. */
  async keepWarmSandbox(templateName: string): Promise<void> {
    await this.apply({
      apiVersion,
      kind: 'SandboxPool',
      metadata: { name: templateName },
      spec: { templateName, replicas: 1, refill: { delay: '10m' } },
    });
    await eventually(
      'a warm sandbox to be ready',
      async () =>
        (await this.k('get', 'sandboxpool', templateName, '-o', 'jsonpath={..readyReplicas}')) ===
        '1',
      startMs,
    );
  }

  /** Deletes the pools and the conversations, and waits until their processes have ended. */
  async removeAll(): Promise<void> {
    await this.k('delete', 'sandboxpools', '--all');
    const listed = (await this.k('get', 'conversations', '-o', 'name')).split('\n');
    for (const name of listed.filter((line) => line !== ''))
      await this.delete(name.split('/').at(-1) ?? '');
    await this.#untilEnded();
  }

  async #untilEnded(): Promise<void> {
    await eventually('the processes to end', () => this.processes().length === 0, startMs);
  }
}

export interface ProcessTree {
  readonly bridge: number;
  readonly children: readonly number[];
}

const parentOf = (pid: number): number =>
  Number(/^PPid:\s*(\d+)/m.exec(processFile(pid, 'status'))?.[1] ?? 0);

function descendants(pid: number, parents: ReadonlyMap<number, number>): readonly number[] {
  const children = [...parents].flatMap(([child, parent]) => (parent === pid ? [child] : []));
  return children.flatMap((child) => [child, ...descendants(child, parents)]);
}

/** Memory of processes in MiB, in which shared pages count in part. */
export const memoryOf = (pids: readonly number[]): number =>
  Math.round(
    pids
      .map((pid) => Number(/^Pss:\s*(\d+)/m.exec(processFile(pid, 'smaps_rollup'))?.[1] ?? 0))
      .reduce((sum, kib) => sum + kib, 0) / 1024,
  );
