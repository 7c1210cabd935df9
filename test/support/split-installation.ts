import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually } from './eventually.ts';
import { freePort } from './free-port.ts';
import { program } from './installation.ts';

const clusterScript = fileURLToPath(new URL('cluster-process.ts', import.meta.url));
const agentProgram = join(dirname(program), 'reference-agent.js');
/** Lease times so short that a killed operator is replaced within a second. */
const lease = {
  LEASE_DURATION_SECONDS: '1',
  LEASE_RENEW_DEADLINE_SECONDS: '0.6',
  LEASE_RETRY_PERIOD_SECONDS: '0.2',
};

/** Each operator listens at an address of its own, as each pod does. */
const notificationHosts = ['127.0.0.1', '127.0.0.2', '127.0.0.3', '127.0.0.4'];

interface Running {
  readonly child: ChildProcess;
  output: string;
}

export interface SplitOptions {
  /** Whether agents send webhooks; they do by default. */
  readonly webhooks?: boolean;
  /** More settings of the operator and the gateway. */
  readonly env?: Readonly<Record<string, string>>;
}

/** The built program as in a cluster: gateway, operators and embedded cluster are processes. */
export class SplitInstallation {
  readonly dataDir: string;
  readonly kubeconfig: string;
  readonly #environment: NodeJS.ProcessEnv;
  readonly #operators = new Map<string, Running>();
  #others: Running[] = [];
  #gateway: Running | undefined;
  #added = 0;
  url = '';
  key = '';

  private constructor(dataDir: string) {
    this.dataDir = dataDir;
    this.kubeconfig = join(dataDir, 'kubeconfig');
    const masterKey = join(dataDir, 'master');
    writeFileSync(masterKey, randomBytes(32));
    this.#environment = {
      PATH: process.env['PATH'],
      HOME: dataDir,
      KUBECONFIG: this.kubeconfig,
      NAMESPACE: 'default',
      MASTER_KEY_FILES: masterKey,
      LOG_FORMAT: 'json',
      METRICS_PORT: '0',
      HEALTH_PORT: '0',
      HOST: '127.0.0.1',
      PORT: '0',
      OVERLOAD_DELAY_MS: '0',
      ...lease,
    };
  }

  static async start(
    dataDir: string,
    { webhooks = true, env = {} }: SplitOptions = {},
  ): Promise<SplitInstallation> {
    const installation = new SplitInstallation(dataDir);
    const agentSidePort = String(await freePort());
    const notificationPort = String(await freePort());
    Object.assign(installation.#environment, {
      AGENT_SIDE_PORT: agentSidePort,
      NOTIFICATION_PORT: notificationPort,
      OPERATOR_NOTIFICATION_URLS: notificationHosts
        .map((host) => `http://${host}:${notificationPort}`)
        .join(','),
      ...(webhooks ? { AGENT_SIDE_URL: `http://127.0.0.1:${agentSidePort}` } : {}),
      ...env,
    });
    const cluster = installation.#spawn([clusterScript, dataDir, agentProgram]);
    installation.#others.push(cluster);
    await eventually('the cluster ready', () => cluster.output.includes('ready\n'));
    const environment = installation.#environment;
    const make = [program, 'keys', 'create', '--owner', 'local'];
    installation.key = execFileSync(process.execPath, make, {
      env: environment,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
      .toString()
      .trim();
    await installation.startGateway();
    return installation;
  }

  /** Starts the gateway at its earlier port, if it had one. */
  async startGateway(): Promise<void> {
    const gateway = this.#spawn(
      [program, 'gateway'],
      this.url === '' ? {} : { PORT: new URL(this.url).port },
    );
    this.#gateway = gateway;
    const port = await eventually(
      'the gateway listens',
      () => /"port":(\d+)/.exec(gateway.output)?.[1],
    );
    this.url = `http://127.0.0.1:${port}`;
  }

  async killGateway(): Promise<void> {
    const gateway = this.#gateway;
    this.#gateway = undefined;
    if (gateway !== undefined) await killed(gateway);
  }

  #spawn(args: readonly string[], more: NodeJS.ProcessEnv = {}): Running {
    const child = spawn(process.execPath, args, {
      env: { ...this.#environment, ...more },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const running: Running = { child, output: '' };
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (running.output += chunk.toString()));
    return running;
  }

  addOperator(name: string, env: NodeJS.ProcessEnv = {}): void {
    const NOTIFICATION_HOST = notificationHosts[this.#added++ % notificationHosts.length];
    this.#operators.set(
      name,
      this.#spawn([program, 'operator'], { POD_NAME: name, NOTIFICATION_HOST, ...env }),
    );
  }

  pidOf(operator: string): number {
    return this.#operators.get(operator)?.child.pid ?? 0;
  }

  /** Ends like a machine that loses power; does nothing where no operator has this name. */
  async killOperator(name: string): Promise<void> {
    const operator = this.#operators.get(name);
    if (operator === undefined || !this.#operators.delete(name)) return;
    await killed(operator);
  }

  hasOperator(name: string): boolean {
    return this.#operators.has(name);
  }

  async stop(): Promise<void> {
    for (const name of [...this.#operators.keys()]) await this.killOperator(name);
    await this.killGateway();
    // The cluster last: it ends the agents.
    for (const { child } of this.#others.reverse()) {
      const exited = once(child, 'exit');
      if (child.exitCode === null && child.kill('SIGTERM')) await exited;
    }
    this.#others = [];
  }
}

async function killed({ child }: Running): Promise<void> {
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}
