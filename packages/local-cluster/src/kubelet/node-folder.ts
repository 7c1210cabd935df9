import { randomUUID } from 'node:crypto';
import { chmod, lstat, mkdir, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { closed, listen } from './address-pool.ts';

/**
 * Names that are safe as a path segment: uids of the API server and DNS labels, without dots and
 * slashes.
 */
const safeName = /^[A-Za-z0-9]([A-Za-z0-9-]{0,251}[A-Za-z0-9])?$/;

/** Returns the name, or throws for a name that could lead out of its folder. */
export function pathSegment(name: string): string {
  if (!safeName.test(name))
    throw new Error(`not usable as the name of a folder: ${JSON.stringify(name.slice(0, 80))}`);
  return name;
}

/** Paths of the files of the node. */
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

  get runs(): string {
    return join(this.root, 'runs');
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
    for (const path of [this.root, this.pods, this.volumes, this.runs])
      await mkdir(path, { recursive: true, mode: 0o700 });
  }

  /** Returns the id of the node, which is unique and the same at every start. */
  async nodeId(): Promise<string> {
    const path = join(this.root, 'node-id');
    const present = await readFile(path, 'utf8').catch(() => '');
    if (/^[0-9a-f-]{36}$/.test(present)) return present;
    const id = randomUUID();
    // The rename is atomic, because after a crash a truncated id would not match the markers of
    // running processes.
    await writeFile(`${path}.new`, id, { mode: 0o600 });
    await rename(`${path}.new`, path);
    return id;
  }
}

/**
 * Prevents a second node on the same folder, which would end the processes of this one. The lock is
 * a name in the abstract socket namespace of Linux, which the kernel releases when the process
 * ends, even when it is killed. Resolves to the function that releases the lock.
 */
export async function lockNode(nodeId: string): Promise<() => Promise<void>> {
  const path = `\0conversation-operator-node/${nodeId}`;
  const server = await listen({ path }).catch((cause: unknown) => {
    throw new Error('another process runs a node on this data folder', { cause });
  });
  return () => closed(server);
}

/**
 * Removes a tree. Symbolic links are removed and never followed; folders without write permission
 * (module caches) are made writable.
 */
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
