import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { silentLogger } from '@conversation-operator/base/logger';
import { loadConnection } from '@conversation-operator/kube/kubeconfig';
import type { KubeClient } from '@conversation-operator/kube/client';
import { SandboxKeys } from '../../../src/agent/keys.ts';
import { modelRelayAccessOf } from '../../../src/agent/model-relay.ts';
import { connect, createRuntime } from '../../../src/commands/process.ts';
import { conversationQuotas } from '../../../src/resources/conversation-quota.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import { sandboxTemplates } from '../../../src/resources/sandbox-template.ts';
import { sandboxes } from '../../../src/resources/sandbox.ts';
import { eventually } from '../eventually.ts';
import { freePort } from '../free-port.ts';
import { program } from '../installation.ts';
import { modelKey } from './relay-scene.ts';

const clusterScript = fileURLToPath(new URL('../cluster-process.ts', import.meta.url));
const namespace = 'default';

interface Replica {
  readonly port: number;
  child: ChildProcess | undefined;
}

export interface ReplicasOptions {
  readonly replicas: number;
  readonly providerUrl: string;
  /** Price of the model `m`, in USD per million tokens. */
  readonly inputPerMillion: number;
  readonly outputPerMillion: number;
  /** Budget of each owner in USD. */
  readonly budget: number;
}

/** Relays and an API server in processes of their own; conversations without agents. */
export class RelayReplicas implements AsyncDisposable {
  readonly #folder = mkdtempSync(join(tmpdir(), 'relay-replicas-'));
  readonly #masterKey = randomBytes(32);
  readonly #options: ReplicasOptions;
  readonly #replicas: Replica[] = [];
  #cluster: ChildProcess | undefined;
  #client: KubeClient | undefined;
  #close: () => void = () => undefined;
  output = '';

  private constructor(options: ReplicasOptions) {
    this.#options = options;
  }

  static async start(options: ReplicasOptions): Promise<RelayReplicas> {
    const started = new RelayReplicas(options);
    await started.#startCluster();
    for (let index = 0; index < options.replicas; index++)
      started.#replicas.push({ port: await freePort(), child: undefined });
    await Promise.all(started.#replicas.map((_, index) => started.startReplica(index)));
    return started;
  }

  get client(): KubeClient {
    if (this.#client === undefined) throw new Error('the cluster has not started');
    return this.#client;
  }

  async #startCluster(): Promise<void> {
    const folder = this.#folder;
    writeFileSync(join(folder, 'master'), this.#masterKey);
    mkdirSync(join(folder, 'models'));
    writeFileSync(join(folder, 'models', 'platform'), modelKey);
    const agent = join(dirname(program), 'reference-agent.js');
    this.#cluster = this.#spawn([clusterScript, folder, agent]);
    await eventually('the cluster ready', () => this.output.includes('ready\n'));
    const { connection } = await loadConnection({ kubeconfig: join(folder, 'kubeconfig') });
    const { client, transport } = connect(connection, createRuntime(silentLogger));
    this.#client = client;
    this.#close = () => void transport.close();
    const { providerUrl, budget } = this.#options;
    await client.mergePatch(conversationQuotas, namespace, 'default', {
      spec: { budget: { amount: budget } },
    });
    await client.mergePatch(sandboxTemplates, namespace, 'default', {
      spec: { agent: { model: 'openai/m', baseUrl: `${providerUrl}/v1`, credential: 'platform' } },
    });
  }

  #spawn(args: readonly string[], env: NodeJS.ProcessEnv = {}): ChildProcess {
    const child = spawn(process.execPath, args, {
      env: {
        PATH: process.env['PATH'],
        HOME: this.#folder,
        KUBECONFIG: join(this.#folder, 'kubeconfig'),
        ...env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
    return child;
  }

  /** Starts a replica at its port, and resolves when it listens. */
  async startReplica(index: number): Promise<void> {
    const replica = this.#replicas[index];
    if (replica === undefined) throw new Error(`there is no replica ${index}`);
    const { inputPerMillion, outputPerMillion } = this.#options;
    replica.child = this.#spawn([program, 'relay'], {
      NAMESPACE: namespace,
      MASTER_KEY_FILES: join(this.#folder, 'master'),
      LOG_FORMAT: 'json',
      METRICS_PORT: '0',
      HOST: '127.0.0.1',
      AGENT_SIDE_PORT: String(replica.port),
      AGENT_CREDENTIALS_DIR: join(this.#folder, 'models'),
      MODELS_PRICES: JSON.stringify([{ model: 'm', inputPerMillion, outputPerMillion }]),
    });
    await eventually('a relay listens', () => this.#listens(replica.port));
  }

  async #listens(port: number): Promise<boolean | undefined> {
    const answer = await fetch(`http://127.0.0.1:${port}/alive`).catch(() => undefined);
    return answer?.status === 200 ? true : undefined;
  }

  /** Ends a replica like a machine that loses power. */
  async killReplica(index: number): Promise<void> {
    const child = this.#replicas[index]?.child;
    if (child === undefined || child.exitCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }

  /** Ends a replica as Kubernetes does. */
  async stopReplica(index: number): Promise<void> {
    const child = this.#replicas[index]?.child;
    if (child === undefined || child.exitCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    await exited;
  }

  /** Lets the API server answer nobody, or everybody again. */
  pauseApiServer(isPaused: boolean): void {
    this.#cluster?.kill(isPaused ? 'SIGSTOP' : 'SIGCONT');
  }

  /** A conversation in a sandbox, and where each replica has its model. */
  async conversation(index: number, owner: string) {
    const name = index.toString(16).padStart(32, '0');
    const { client } = this;
    const sandbox = await client.create(sandboxes, {
      apiVersion: 'conversation-operator.dev/v1alpha1',
      kind: 'Sandbox',
      metadata: { name: `sbx-${name}`, namespace },
      spec: { owner, templateName: 'default', replicas: 1 },
    });
    const keys = new SandboxKeys([this.#masterKey]);
    const withStatus = await client.mergePatch(
      sandboxes,
      namespace,
      sandbox.metadata.name,
      { status: { masterKeyId: keys.currentKeyId } },
      { subresource: 'status' },
    );
    const created = await client.create(conversations, {
      apiVersion: 'conversation-operator.dev/v1alpha1',
      kind: 'Conversation',
      metadata: { name, namespace },
      spec: {
        owner,
        templateName: 'default',
        initialMessage: { role: 'user', content: [{ type: 'text', text: 'Hi' }], run: true },
      },
    });
    await client.mergePatch(
      conversations,
      namespace,
      name,
      {
        status: {
          start: {
            status: 'READY',
            transitions: [{ status: 'READY', time: new Date().toISOString() }],
          },
          sandboxName: sandbox.metadata.name,
          sandboxUID: sandbox.metadata.uid,
        },
      },
      { subresource: 'status' },
    );
    return this.#replicas.map(({ port }) =>
      modelRelayAccessOf(
        { conversation: created, sandbox: withStatus },
        { url: `http://127.0.0.1:${port}`, keys },
      ),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.pauseApiServer(false);
    for (const index of this.#replicas.keys()) await this.killReplica(index);
    this.#close();
    const cluster = this.#cluster;
    if (cluster !== undefined && cluster.exitCode === null) {
      const exited = once(cluster, 'exit');
      cluster.kill('SIGTERM');
      await exited;
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
