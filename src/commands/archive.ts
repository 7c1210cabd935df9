import type { KubeClient } from '@conversation-operator/kube/client';
import { type ObjectStore, StoreError } from '@conversation-operator/object-store/object-store';
import { SandboxKeys } from '../agent/keys.ts';
import { type ArchiveAddress, type ArchiveState, isGone } from '../archive/layout.ts';
import type { HistoryReader } from '../archive/history.ts';
import { type ArchiveWriter, writerOf } from '../archive/installation.ts';
import { archivesOf, newestHead } from '../archive/stored-archives.ts';
import { conversations, type Conversation } from '../resources/conversation.ts';
import { CommandError } from './terminal.ts';
import { mkdirSync, existsSync } from 'node:fs';
import { createFolderStore } from '@conversation-operator/object-store/folder-store';
import { directoryCredentials } from '@conversation-operator/object-store/s3-credentials';
import { createS3Store } from '@conversation-operator/object-store/s3-store';
import { createCodec, type Codec } from '../archive/codec.ts';
import { measuredStore, type MeasuredStore } from '../archive/measured-store.ts';
import { createHistoryReader } from '../archive/reader.ts';
import { type OutwardRuntime, withOutward } from './outward.ts';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import {
  readArchiveToolConfig,
  toolArchiveOf,
  type ArchiveConfig,
  type ArchiveToolConfig,
} from '../config/archive.ts';
import { DataFolder } from './data-folder.ts';
import { localMasterKey, readMasterKeys } from './credential-files.ts';
import { createRuntime, loggerOf } from './process.ts';

export interface ArchiveAccess {
  readonly store: Pick<ObjectStore, 'list' | 'delete'>;
  readonly reader: Pick<HistoryReader, 'search' | 'all' | 'count' | 'newest'>;
  /** Installation that has written the newest head of an archive. Throws `StoreError`. */
  readonly writerOf: (address: ArchiveAddress) => Promise<ArchiveWriter>;
  readonly keys: Pick<SandboxKeys, 'knows'>;
}

export interface ArchivedConversation extends ArchiveAddress {
  readonly name: string;
  /** `status.archive.head`. Undefined: the conversation has no archive. */
  readonly head: string | undefined;
  /** `status.archive.events`. Undefined: the status has no number of events for `head`. */
  readonly events: number | undefined;
  /** `status.archive.expiredTime`. */
  readonly expiredTime: string | undefined;
}

export interface Archive extends ArchiveAddress {
  /** Undefined: no Conversation has this UID. */
  readonly conversation: ArchivedConversation | undefined;
  /** Whether the store has an object of the archive. */
  readonly isStored: boolean;
}

export const archivedConversation = ({ metadata, status }: Conversation): ArchivedConversation => ({
  namespace: metadata.namespace,
  uid: metadata.uid,
  name: metadata.name,
  head: status?.archive?.head,
  events: status?.archive?.events ?? 0,
  expiredTime: status?.archive?.expiredTime,
});

/**
 * Lists the archives of a namespace, and Conversations whose archive is missing. The function reads
 * the store first: a Conversation exists before its archive, so that the later list of
 * Conversations has the Conversation of every archive.
 */
export async function archivesIn(
  client: KubeClient,
  namespace: string,
  store: Pick<ObjectStore, 'list'>,
): Promise<readonly Archive[]> {
  const stored = new Set(await Array.fromAsync(archivesOf(store, namespace)));
  const { items } = await client.listMapped(conversations, archivedConversation, { namespace });
  const byUid = new Map(items.map((conversation) => [conversation.uid, conversation]));
  const named = items.filter(({ head }) => head !== undefined).map(({ uid }) => uid);
  return [...new Set([...stored, ...named])]
    .sort()
    .map((uid) => ({ namespace, uid, conversation: byUid.get(uid), isStored: stored.has(uid) }));
}

export type ArchiveSource = Omit<Archive, 'isStored'>;

/**
 * Returns the state that the Conversation of an archive names. If the Conversation names no head,
 * returns the newest state in the store. Without a Conversation, returns the newest head. Throws
 * `StoreError`, and `ArchiveError` if this state can not be read.
 */
export async function stateOf(
  { store, reader }: ArchiveAccess,
  { namespace, uid, conversation }: ArchiveSource,
): Promise<ArchiveState | undefined> {
  if (conversation !== undefined && conversation.head === undefined)
    return newestOf({ reader }, conversation);
  const head = conversation?.head ?? (await newestHead(store, { namespace, uid }));
  return head === undefined ? undefined : { namespace, uid, head };
}

/**
 * Like `stateOf`, but the newest head replaces a head that does not exist, for example after a
 * restore of the cluster. Throws `StoreError`, and `ArchiveError` if the newest head is unreadable.
 */
export async function presentStateOf(
  access: ArchiveAccess,
  archive: ArchiveSource,
): Promise<ArchiveState | undefined> {
  const state = await stateOf(access, archive);
  if (state === undefined || archive.conversation?.head === undefined) return state;
  try {
    await access.reader.count(state, {});
    return state;
  } catch (error) {
    if (!isGone(error)) throw error;
    return (await newestOf(access, archive.conversation)) ?? state;
  }
}

/** Newest state in the store. Throws `StoreError`, or `ArchiveError` for an unreadable head. */
export const newestOf = (
  { reader }: Pick<ArchiveAccess, 'reader'>,
  { namespace, uid, expiredTime }: ArchivedConversation,
): Promise<ArchiveState | undefined> => reader.newest({ namespace, uid }, expiredTime);

/** The archives of Conversations with these names or UIDs; all archives if `names` is empty. */
export function chosenOf(
  archives: readonly Archive[],
  names: readonly string[],
  namespace: string,
): readonly Archive[] {
  const isNamed = ({ uid, conversation }: Archive, name: string) =>
    uid === name || conversation?.name === name;
  const unknown = names.filter((name) => !archives.some((archive) => isNamed(archive, name)));
  if (unknown.length > 0)
    throw new CommandError(
      `there is no archive of ${unknown.join(', ')} in namespace ${namespace}`,
    );
  return names.length === 0
    ? archives
    : archives.filter((archive) => names.some((name) => isNamed(archive, name)));
}

export const nameOf = ({ conversation }: Archive): string => conversation?.name ?? '';

/** Reports an error of the store in one line, because its cause is the configuration or network. */
export async function withStore<R>(work: Promise<R>): Promise<R> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    throw new CommandError(`the store of the archive has failed: ${error.message}`, {
      cause: error,
    });
  }
}

export interface OpenArchive {
  readonly store: MeasuredStore;
  readonly codec: Codec;
  readonly reader: HistoryReader;
}

/** Opens the archive that the settings name. `stack` closes it. Undefined: they name none. */
export function openArchive<C extends ArchiveConfig>(
  config: C,
  keys: SandboxKeys,
  runtime: OutwardRuntime,
  stack: AsyncDisposableStack,
): OpenArchive | Extract<C, undefined>;
export function openArchive(
  config: ArchiveConfig,
  keys: SandboxKeys,
  runtime: OutwardRuntime,
  stack: AsyncDisposableStack,
): OpenArchive | undefined {
  if (config === undefined) return undefined;
  const store = measuredStore(storeOf(config, runtime), runtime);
  stack.defer(() => store.close());
  const codec = createCodec({ keys, encrypt: config.encrypt });
  return { store, codec, reader: createHistoryReader({ store, codec }) };
}

/** Opens the store of an archive. The disposal of `stack` closes the store. */
export function openStore(
  config: NonNullable<ArchiveConfig>,
  runtime: OutwardRuntime,
  stack: AsyncDisposableStack,
): ObjectStore {
  const store = storeOf(config, runtime);
  stack.defer(() => store.close());
  return store;
}

function storeOf(
  config: NonNullable<ArchiveConfig>,
  { clock, outward }: OutwardRuntime,
): ObjectStore {
  if (config.kind === 'folder') return createFolderStore({ directory: config.directory, clock });
  const { credentialsDirectory: directory } = config;
  const credentials = directory === undefined ? undefined : directoryCredentials(directory);
  return createS3Store({ ...config, credentials, clock, outward });
}

/** Creates the folder of a local archive. Only the current user can read the folder. */
export function createLocalArchive(config: ArchiveConfig): void {
  if (config?.kind === 'folder') mkdirSync(config.directory, { recursive: true, mode: 0o700 });
}

/** Opens the archive that environment variables name, for the commands of `archive`. */
export function openArchiveAccess(): Promise<ArchiveAccess & AsyncDisposable> {
  const config = readArchiveToolConfig(process.env);
  const archive = toolArchiveOf(config);
  if (archive.kind === 'folder' && !existsSync(archive.directory))
    throw new CommandError(
      `there is no archive in ${archive.directory}: set ARCHIVE_DIR or ARCHIVE_S3_BUCKET as for the server, or DATA_DIR as for make run`,
    );
  const stack = new AsyncDisposableStack();
  const logger = loggerOf({ LOG_LEVEL: 'error', LOG_FORMAT: undefined });
  const runtime = withOutward(config, createRuntime(logger));
  const keys = keysOf(config);
  const { store, codec, reader } = openArchive(archive, keys, runtime, stack);
  return Promise.resolve({
    store,
    reader,
    keys,
    writerOf: (address) => writerOf({ store, codec }, address),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  });
}

/** The server's keys, else a random key: it decrypts no archive, and no archive counts as `own`. */
function keysOf({ MASTER_KEY_FILES: files, DATA_DIR: directory }: ArchiveToolConfig): SandboxKeys {
  if (files !== undefined) return readMasterKeys(files);
  return existsSync(join(directory, 'master-key'))
    ? localMasterKey(new DataFolder(directory))
    : new SandboxKeys([randomBytes(32)]);
}
