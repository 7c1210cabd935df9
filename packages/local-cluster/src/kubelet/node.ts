import { timestampOf } from '@conversation-operator/kube/object';
import { availableParallelism, release, totalmem } from 'node:os';
import { isAlreadyExists } from '@conversation-operator/kube/errors';
import type { Clock } from '@conversation-operator/base/clock';
import type { KubeClient } from '@conversation-operator/kube/client';
import { nodes, type Node } from '@conversation-operator/kube/core';
import { systemCodeOf } from '@conversation-operator/base/system-code';
import { createServer, type ListenOptions, type Server } from 'node:net';
import { randomUUID } from 'node:crypto';
import { chmod, lstat, mkdir, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';

/** Address of the node as pods see it. */
export const hostIP = '127.0.0.1';

const architectures: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' };
const maxPods = 500;

export const nodeLabels = (name: string): Readonly<Record<string, string>> => ({
  'kubernetes.io/hostname': name,
  'kubernetes.io/os': process.platform,
  'kubernetes.io/arch': architectures[process.arch] ?? process.arch,
});

interface NodeReport {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly name: string;
  readonly ready: boolean;
}

function statusOf({ name, ready, clock }: NodeReport): NonNullable<Node['status']> {
  const now = timestampOf(clock.now());
  const resources = {
    cpu: String(availableParallelism()),
    memory: `${Math.floor(totalmem() / 1024)}Ki`,
    pods: String(maxPods),
  };
  return {
    capacity: resources,
    allocatable: resources,
    addresses: [
      { type: 'InternalIP', address: hostIP },
      { type: 'Hostname', address: name },
    ],
    conditions: [
      {
        type: 'Ready',
        status: ready ? 'True' : 'False',
        reason: ready ? 'KubeletReady' : 'NodeStopped',
        message: ready ? 'pods run as local processes' : 'the node has been stopped',
        lastHeartbeatTime: now,
        lastTransitionTime: now,
      },
    ],
    nodeInfo: {
      architecture: architectures[process.arch] ?? process.arch,
      bootID: '',
      containerRuntimeVersion: `process://${process.versions.node}`,
      kernelVersion: release(),
      kubeProxyVersion: '',
      kubeletVersion: 'v1.34.0-process',
      machineID: '',
      operatingSystem: process.platform,
      osImage: process.platform,
      systemUUID: '',
    },
  };
}

/** Reports through the Node object whether this node accepts pods. */
export async function reportNode(report: NodeReport): Promise<void> {
  const { client, name } = report;
  const status = statusOf(report);
  try {
    await client.create(nodes, {
      apiVersion: 'v1',
      kind: 'Node',
      metadata: { name, labels: { ...nodeLabels(name) } },
      spec: {},
    });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
  await client.mergePatch(nodes, '', name, { status }, { subresource: 'status' });
}

export interface Reservation {
  readonly address: string;
  release(): Promise<void>;
}

/** Returns a random address of 127.64.0.0/10 whose last two octets are neither 0 nor 255. */
export function loopbackAddress(random: () => number): string {
  const octet = (from: number, count: number) => from + Math.floor(random() * count);
  return `127.${octet(64, 64)}.${octet(1, 254)}.${octet(1, 254)}`;
}

/** Listens only to reserve the address or path, and closes every connection. */
export const listen = (options: ListenOptions): Promise<Server> =>
  new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once('error', reject);
    server.listen(options, () => resolve(server));
  });

export const closed = (server: Server): Promise<void> =>
  new Promise((resolve) => server.close(() => resolve()));

const maxAttempts = 50;

/**
 * Addresses for pods. This process reserves an address by listening on a fixed port of the address:
 * no two nodes of the machine can reserve the same address, and the kernel releases the address
 * when the process ends, even when it is killed.
 */
export class AddressPool {
  readonly #random: () => number;
  readonly #port: number;

  constructor(options: { readonly random: () => number; readonly port: number }) {
    this.#random = options.random;
    this.#port = options.port;
  }

  /** Reserves an address, `preferred` if free. Throws if only 127.0.0.1 is usable (macOS). */
  async reserve(preferred?: string): Promise<Reservation> {
    for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
      const address =
        attempt === 0 && preferred !== undefined ? preferred : loopbackAddress(this.#random);
      try {
        const server = await listen({ host: address, port: this.#port, exclusive: true });
        return { address, release: () => closed(server) };
      } catch (error) {
        if (systemCodeOf(error) === 'EADDRINUSE') continue;
        throw new Error(
          `can't listen on ${address}:${this.#port}: pods need the loopback addresses 127.64.0.0/10, which Linux provides and other systems need as aliases`,
          { cause: error },
        );
      }
    }
    throw new Error(
      `no loopback address is free after ${maxAttempts} attempts; another program, for example a kubelet, may listen on port ${this.#port} of all addresses`,
    );
  }
}

/** Names that are safe as a path segment: uids and DNS labels, without dots and slashes. */
const safeName = /^[A-Za-z0-9]([A-Za-z0-9-]{0,251}[A-Za-z0-9])?$/;

/** Returns the name. Throws for a name that could lead out of its folder. */
export function pathSegment(name: string): string {
  if (!safeName.test(name))
    throw new Error(`not usable as the name of a folder: ${JSON.stringify(name.slice(0, 80))}`);
  return name;
}

export class NodeFolder {
  readonly root: string;

  constructor(dataDir: string) {
    this.root = resolve(dataDir);
  }

  get pods(): string {
    return join(this.root, 'pods');
  }

  get volumes(): string {
    return join(this.root, 'volumes');
  }

  pod(uid: string): string {
    return join(this.pods, pathSegment(uid));
  }

  volume(claimUid: string): string {
    return join(this.volumes, pathSegment(claimUid));
  }

  log(podUid: string, containerName: string): string {
    return join(this.pod(podUid), `${pathSegment(containerName)}.log`);
  }

  async create(): Promise<void> {
    for (const path of [this.root, this.pods, this.volumes])
      await mkdir(path, { recursive: true, mode: 0o700 });
  }

  /** Returns the id of the node, which is unique and the same at every start. */
  async nodeId(): Promise<string> {
    const path = join(this.root, 'node-id');
    const present = await readFile(path, 'utf8').catch(() => '');
    if (/^[0-9a-f-]{36}$/.test(present)) return present;
    const id = randomUUID();
    // The rename is atomic, because a node with a truncated id would not find its processes.
    await writeFile(`${path}.new`, id, { mode: 0o600 });
    await rename(`${path}.new`, path);
    return id;
  }
}

/**
 * Prevents a second node on the same folder, because it would end the processes of the first. The
 * lock is a name in Linux's abstract socket namespace, which the kernel releases when the process
 * ends, even when it is killed. Resolves to the function that releases the lock.
 */
export async function lockNode(nodeId: string): Promise<() => Promise<void>> {
  const path = `\0conversation-operator-node/${nodeId}`;
  const server = await listen({ path }).catch((cause: unknown) => {
    throw new Error('another process runs a node on this data folder', { cause });
  });
  return () => closed(server);
}

/** Removes a tree without following links. Makes read-only folders (of module caches) writable. */
export async function removeTree(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true });
  } catch {
    await makeWritable(path);
    await rm(path, { recursive: true, force: true });
  }
}

async function makeWritable(path: string): Promise<void> {
  if (!(await lstat(path)).isDirectory()) return;
  await chmod(path, 0o700);
  for (const entry of await readdir(path, { withFileTypes: true })) {
    if (entry.isDirectory()) await makeWritable(join(path, entry.name));
  }
}
