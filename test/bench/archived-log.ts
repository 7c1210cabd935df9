import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { createFolderStore } from '@conversation-operator/object-store/folder-store';
import type { ObjectStore } from '@conversation-operator/object-store/object-store';
import { SandboxKeys } from '../../src/agent/keys.ts';
import { agentEventOf, type EventSource } from '../../src/archive/agent-event.ts';
import { createCodec } from '../../src/archive/codec.ts';
import { extendArchive } from '../../src/archive/extend.ts';
import { conversations } from '../../src/resources/conversation.ts';
import { startS3Server } from '../services/support/s3-server.ts';
import { namespace } from './api-server.ts';
import { eventId, eventText, indexOf } from './event-log.ts';
import { masterKey } from './gateway-process.ts';

/** A store, and the environment in which programs use the same one. */
export interface BenchStore {
  readonly store: ObjectStore;
  readonly env: Readonly<Record<string, string>>;
}

export function openFolder(directory: string): BenchStore {
  mkdirSync(directory);
  return { store: createFolderStore({ directory }), env: { ARCHIVE_DIR: directory } };
}

/**
 * A bucket of a real S3 server on this machine, until the stack ends. Programs get its keys from a
 * folder, because without one they ask the metadata service of the machine.
 */
export async function openBucket(
  stack: AsyncDisposableStack,
  credentials: string,
): Promise<BenchStore> {
  const bucket = 'bench';
  const server = stack.use(await startS3Server());
  await server.newBucket(bucket);
  mkdirSync(credentials);
  writeFileSync(join(credentials, 'access-key-id'), server.credentials.accessKeyId);
  writeFileSync(join(credentials, 'secret-access-key'), server.credentials.secretAccessKey);
  return {
    store: server.store({ bucket }),
    env: {
      ARCHIVE_S3_BUCKET: bucket,
      ARCHIVE_S3_ENDPOINT: server.url,
      ARCHIVE_S3_CREDENTIALS_DIR: credentials,
    },
  };
}

const pageSize = 100;

/**
 * A log of that many events, without the way over HTTP.
 * @param text The JSON of each event, by its index.
 */
const logOf = (count: number, text: (index: number) => string): EventSource => ({
  page: (from) => {
    const start = from === undefined ? 0 : indexOf(from);
    const end = Math.min(start + pageSize, count);
    const events = Array.from({ length: end - start }, (_, index) =>
      agentEventOf(Buffer.from(text(start + index))),
    ).filter((event) => event !== undefined);
    return Promise.resolve({ events, invalid: 0, next: end < count ? eventId(end) : undefined });
  },
});

/** Stores the archive of a conversation, and what its status says of it. */
export async function addArchive(
  client: HttpKubeClient,
  store: ObjectStore,
  {
    id,
    events,
    text = eventText,
  }: { readonly id: string; readonly events: number; readonly text?: (index: number) => string },
): Promise<void> {
  const { metadata } = await client.get(conversations, namespace, id);
  const codec = createCodec({ keys: new SandboxKeys([masterKey]), encrypt: false });
  const extension = await extendArchive({ namespace, uid: metadata.uid }, undefined, {
    store,
    codec,
    source: logOf(events, text),
    installation: 'bench',
    maxBytes: Infinity,
    maxEvents: Infinity,
    signal: new AbortController().signal,
  });
  const { head, bytes } = extension;
  if (head === undefined || extension.events !== events)
    throw new Error('the archive is not whole');
  const archive = { head, events, bytes, time: '2026-03-01T12:00:04Z' };
  await client.mergePatch(
    conversations,
    namespace,
    id,
    { status: { archive } },
    { subresource: 'status' },
  );
}
