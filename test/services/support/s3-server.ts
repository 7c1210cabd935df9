import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { z } from 'zod';
import type { ObjectStore } from '@conversation-operator/object-store/object-store';
import type { Credentials } from '@conversation-operator/object-store/s3-credentials';
import { createS3Store, type S3StoreOptions } from '@conversation-operator/object-store/s3-store';
import { directly } from '@conversation-operator/outward/outward';
import { eventually } from '../../support/eventually.ts';

const run = promisify(execFile);
const program = (name: string): string => fileURLToPath(new URL(`../s3/${name}`, import.meta.url));

const startedSchema = z.object({
  url: z.url(),
  region: z.string(),
  accessKeyId: z.string(),
  secretAccessKey: z.string(),
  pid: z.number(),
});

/** A real S3 server, in a process of its own. */
export interface S3Server extends AsyncDisposable {
  readonly url: string;
  readonly region: string;
  readonly credentials: Credentials;
  folderOf(bucket: string): string;
  newBucket(name: string): Promise<void>;
  /** A store in a bucket, with the credentials of the server unless others are given. */
  store(options: Partial<S3StoreOptions> & { readonly bucket: string }): ObjectStore;
  /** Ends the process with SIGKILL, in the middle of whatever it does. */
  kill(): Promise<void>;
  /** Serves the same state at the same address again. */
  restart(): Promise<void>;
  /** Serves the same state with other credentials, and rejects those before. */
  rotateKeys(): Promise<void>;
  /** Takes connections and answers nothing, until `wake`. */
  hang(): void;
  wake(): void;
}

export async function startS3Server(): Promise<S3Server> {
  const state = await mkdtemp(join(process.env['SERVICE_STATES'] ?? tmpdir(), 's3-'));
  const start = async (port: string) => {
    const { stdout } = await run(program('up'), [state, port]);
    return startedSchema.parse(JSON.parse(stdout));
  };
  let server = await start('0');
  const { url, region } = server;
  const folderOf = (bucket: string) => join(state, 'data', bucket);
  const credentials = (): Credentials => {
    const { accessKeyId, secretAccessKey } = server;
    return { accessKeyId, secretAccessKey };
  };
  const kill = async () => {
    process.kill(server.pid, 'SIGKILL');
    await eventually('the server has ended', () => !isRunning(server.pid));
  };
  const restart = async () => {
    server = await start(new URL(url).port);
  };
  return {
    url,
    region,
    folderOf,
    kill,
    restart,
    get credentials() {
      return credentials();
    },
    async newBucket(name) {
      await mkdir(folderOf(name));
    },
    store: (options) =>
      createS3Store({
        endpoint: url,
        region,
        outward: directly,
        credentials: () => Promise.resolve(credentials()),
        ...options,
      }),
    rotateKeys: async () => {
      await kill();
      const [access, secret] = [randomBytes(8), randomBytes(20)].map((key) => key.toString('hex'));
      await writeFile(
        join(state, 'secrets'),
        `access=test${access ?? ''}\nsecret=${secret ?? ''}\n`,
      );
      await restart();
    },
    hang: () => {
      process.kill(server.pid, 'SIGSTOP');
    },
    wake: () => {
      process.kill(server.pid, 'SIGCONT');
    },
    async [Symbol.asyncDispose]() {
      await run(program('down'), [state]);
    },
  };
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
