import { execFile } from 'node:child_process';
import { mkdir, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { z } from 'zod';
import type { ObjectStore } from '@conversation-operator/object-store/object-store';
import type { Credentials } from '@conversation-operator/object-store/s3-credentials';
import { createS3Store, type S3StoreOptions } from '@conversation-operator/object-store/s3-store';
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
  readonly credentials: Credentials;
  newBucket(name: string): Promise<void>;
  /** A store in a bucket, with the credentials of the server unless others are given. */
  store(options: Partial<S3StoreOptions> & { readonly bucket: string }): ObjectStore;
  /** Ends the process with SIGKILL, in the middle of whatever it does. */
  kill(): Promise<void>;
  /** Serves the same state at the same address again. */
  restart(): Promise<void>;
}

export async function startS3Server(): Promise<S3Server> {
  const state = await mkdtemp(join(process.env['SERVICE_STATES'] ?? tmpdir(), 's3-'));
  const start = async (port: string) => {
    const { stdout } = await run(program('up'), [state, port]);
    return startedSchema.parse(JSON.parse(stdout));
  };
  let server = await start('0');
  const { url, region, accessKeyId, secretAccessKey } = server;
  return {
    url,
    credentials: { accessKeyId, secretAccessKey },
    async newBucket(name) {
      await mkdir(join(state, 'data', name));
    },
    store: (options) =>
      createS3Store({
        ...{ endpoint: url, region },
        credentials: () => Promise.resolve({ accessKeyId, secretAccessKey }),
        ...options,
      }),
    kill: async () => {
      process.kill(server.pid, 'SIGKILL');
      await eventually('the server has ended', () => !isRunning(server.pid));
    },
    restart: async () => {
      server = await start(new URL(url).port);
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
