import {
  accessSync,
  constants,
  mkdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
  existsSync,
  rmSync,
} from 'node:fs';
import { join, resolve, basename, dirname } from 'node:path';
import { CommandError, unreadable } from './terminal.ts';
import { systemCodeOf } from '@conversation-operator/base/system-code';
import { createServer } from 'node:net';
import { z } from 'zod';
import type { KubeClient } from '@conversation-operator/kube/client';
import { defaultDataDir } from '../config/environment.ts';
import { hashKey, type IssuedKey } from '../gateway/auth/key.ts';
import { apiKeys } from '../resources/api-key.ts';

export class DataFolder {
  readonly path: string;

  /** Creates the folder for this user only. Throws `CommandError` if the folder can not be used. */
  constructor(path: string) {
    this.path = resolve(path);
    try {
      mkdirSync(this.path, { recursive: true, mode: 0o700 });
      if (!statSync(this.path).isDirectory())
        throw new CommandError(`DATA_DIR: ${this.path} is not a folder`);
      accessSync(this.path, constants.R_OK | constants.W_OK | constants.X_OK);
    } catch (error) {
      if (error instanceof CommandError) throw error;
      const code = systemCodeOf(error);
      const problem =
        code === 'EEXIST' || code === 'ENOTDIR'
          ? 'is not a folder'
          : `can't be used (${code ?? String(error)})`;
      throw new CommandError(`DATA_DIR: ${this.path} ${problem}`, { cause: error });
    }
  }

  file(name: string): string {
    return join(this.path, name);
  }

  /** Text of a file without surrounding white space; undefined if the file does not exist. */
  read(name: string): string | undefined {
    try {
      return readFileSync(this.file(name), 'utf8').trim();
    } catch (error) {
      if (systemCodeOf(error) === 'ENOENT') return undefined;
      throw unreadable('DATA_DIR', this.file(name), error);
    }
  }

  /** Writes a file completely or not at all. Only this user can read the file. */
  write(name: string, text: string): void {
    const unfinished = this.file(`.${name}.new`);
    writeFileSync(unfinished, `${text}\n`, { mode: 0o600 });
    renameSync(unfinished, this.file(name));
  }

  /** Content of the file. If the file does not exist, `make` returns the content to write. */
  remember(name: string, make: () => string): string {
    const known = this.read(name);
    if (known !== undefined && known !== '') return known;
    const made = make();
    this.write(name, made);
    return made;
  }
}

const loopback = '127.0.0.1';

/** The stored port if that port is free, else 0 (any port). Stored addresses thus stay valid. */
export async function lastPort(folder: DataFolder, file: string): Promise<number> {
  const last = Number(folder.read(file));
  return Number.isInteger(last) && last > 0 && last < 65_536 && (await isFree(last)) ? last : 0;
}

const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen(port, loopback, () => probe.close(() => resolve(true)));
  });

export const localNamespace = 'default';

export const localKubeconfig = 'kubeconfig';

const file = 'service.json';
const schema = z.object({ url: z.url(), owner: z.string() });

type LocalService = z.output<typeof schema>;

/**
 * Data folder of a service on this machine: DATA_DIR, else the folder of a KUBECONFIG that this
 * program has written, else the default folder. Undefined for any other KUBECONFIG, which belongs
 * to a cluster.
 */
export function localServiceFolder({
  DATA_DIR = '',
  KUBECONFIG = '',
}: Readonly<Record<string, string | undefined>>): string | undefined {
  if (DATA_DIR !== '') return DATA_DIR;
  const folder = KUBECONFIG === '' ? defaultDataDir : dirname(KUBECONFIG);
  const isOurs = KUBECONFIG === '' || basename(KUBECONFIG) === localKubeconfig;
  return isOurs && existsSync(join(folder, file)) ? folder : undefined;
}

/** Stores the service in a file of its data folder. Returns a function that removes the file. */
export function announceService(folder: DataFolder, service: LocalService): () => void {
  folder.write(file, JSON.stringify(service));
  return () => rmSync(folder.file(file), { force: true });
}

export function localService(folder: DataFolder): LocalService | undefined {
  const text = folder.read(file);
  return text === undefined ? undefined : schema.parse(JSON.parse(text));
}

/** The API key that the first start created; undefined if no key is stored or a user revoked it. */
export async function storedFirstKey(
  client: KubeClient,
  folder: DataFolder,
): Promise<IssuedKey | undefined> {
  const key = folder.read('api-key');
  if (key === undefined) return undefined;
  const sha256 = hashKey(key);
  const { items } = await client.list(apiKeys, { namespace: localNamespace });
  const resource = items.find(({ spec }) => spec.sha256 === sha256 && spec.disabled !== true);
  return resource && { key, resource };
}
