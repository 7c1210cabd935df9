import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LocalKubelet } from '../../../src/kubelet/local-kubelet.ts';
import type { LocalKubeletOptions } from '../../../src/kubelet/options.ts';
import { systemClock } from '@conversation-operator/base/clock';
import { silentLogger } from '@conversation-operator/base/logger';
import { pods, type Pod } from '../../../../kube/src/core.ts';
import type { NewObject } from '../../../../kube/src/object.ts';
import { eventually } from '../../../../../test/support/eventually.ts';
import { FakeKubeClient } from '../../../../../test/support/fake-kube-client.ts';
import { images } from './programs.ts';

type Spec = NonNullable<Pod['spec']>;
type Container = Spec['containers'][number];
type ContainerStatus = NonNullable<NonNullable<Pod['status']>['containerStatuses']>[number];

export const quickProbe = { httpGet: { port: 8000, path: '/' }, periodSeconds: 1 };

export const podOf = (
  name: string,
  container: Partial<Container>,
  spec: Partial<Spec> = {},
): NewObject<Pod> => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace: 'default', name },
  spec: { containers: [{ name: 'main', image: 'server', ...container }], ...spec },
});

/** Processes with a text in their environment or command line, as a test's data folder is. */
export async function processesWith(text: string): Promise<readonly number[]> {
  const found: number[] = [];
  for (const entry of await readdir('/proc')) {
    if (!/^\d+$/.test(entry) || Number(entry) === process.pid) continue;
    const read = (file: string) => readFile(`/proc/${entry}/${file}`, 'latin1').catch(() => '');
    if ((await Promise.all([read('environ'), read('cmdline')])).join('').includes(text))
      found.push(Number(entry));
  }
  return found;
}

/** Processes `sleep <seconds>`, whatever their environment. */
export const sleepers = (seconds: string): Promise<readonly number[]> =>
  processesWith(`sleep\0${seconds}\0`);

/** Whether a process runs. A zombie does not, which stays until its parent ends. */
export async function isAlive(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => '');
  return stat !== '' && !/\) [ZX] /.test(stat);
}

export const ask = (podIP: string, path = '/'): Promise<string> =>
  new Promise((resolve, reject) => {
    request({ host: podIP, port: 8000, path, agent: false }, (response) => {
      let body = '';
      response.on('data', (chunk: Buffer) => (body += chunk.toString()));
      response.on('end', () => resolve(body));
    })
      .once('error', reject)
      .end();
  });

/** A node with real processes over an API server in memory. */
export class Machine {
  readonly client = new FakeKubeClient();
  readonly dataDir: string;
  readonly node: LocalKubelet;

  static async start(options: Partial<LocalKubeletOptions> = {}): Promise<Machine> {
    const machine = new Machine(await mkdtemp(join(tmpdir(), 'local-kubelet-')), options);
    await machine.node.start();
    return machine;
  }

  constructor(dataDir: string, options: Partial<LocalKubeletOptions> = {}) {
    this.dataDir = dataDir;
    this.node = new LocalKubelet({
      client: this.client,
      dataDir,
      images,
      clock: systemClock,
      random: Math.random,
      logger: silentLogger,
      ...options,
    });
  }

  /** Ends everything and checks that no process is left. */
  async close(): Promise<void> {
    await this.node.stop();
    expect(await processesWith(this.dataDir)).toEqual([]);
    await rm(this.dataDir, { recursive: true, force: true });
  }

  create(pod: NewObject<Pod>): Promise<Pod> {
    return this.client.create(pods, pod);
  }

  /** The pod once its first container is as expected. */
  until(
    name: string,
    what: string,
    check: (status: ContainerStatus, pod: Pod) => boolean,
  ): Promise<Pod> {
    return eventually(`${name} to be ${what}`, async () => {
      const pod = await this.client.get(pods, 'default', name);
      const status = pod.status?.containerStatuses?.[0];
      return status !== undefined && check(status, pod) ? pod : undefined;
    });
  }

  ready(name: string): Promise<Pod> {
    return this.until(name, 'ready', ({ ready }) => ready);
  }

  gone(name: string): Promise<boolean> {
    return eventually(`${name} to be gone`, () =>
      this.client.get(pods, 'default', name).then(
        () => false,
        () => true,
      ),
    );
  }

  async log(
    pod: Pod,
    options: { tailLines?: number; previous?: boolean } = {},
  ): Promise<string | undefined> {
    const stream = this.node.open(pod.metadata.uid, 'main', {
      follow: false,
      previous: false,
      signal: new AbortController().signal,
      ...options,
    });
    if (stream === undefined) return undefined;
    let text = '';
    for await (const chunk of stream) text += Buffer.from(chunk).toString();
    return text;
  }
}

export const addressOf = (pod: Pod): string => pod.status?.podIP ?? '';
export const firstStatus = (pod: Pod): ContainerStatus | undefined =>
  pod.status?.containerStatuses?.[0];
