import { mkdirSync, existsSync } from 'node:fs';
import { createFolderStore } from '@conversation-operator/object-store/folder-store';
import type { ObjectStore } from '@conversation-operator/object-store/object-store';
import { credentialsFromEnvironment } from '@conversation-operator/object-store/s3-credentials';
import { createS3Store } from '@conversation-operator/object-store/s3-store';
import { SandboxKeys } from '../agent/keys.ts';
import { createCodec, type Codec } from '../archive/codec.ts';
import type { HistoryReader } from '../archive/history.ts';
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
import type { ArchiveAccess } from './archive.ts';
import { writerOf } from '../archive/installation.ts';
import { CommandError } from './terminal.ts';
import { DataFolder } from './data-folder.ts';
import { localMasterKey, readMasterKeys } from './master-keys.ts';
import { createRuntime, loggerOf } from './process.ts';

/** An archive as a process writes and reads it. */
export interface Archive {
  readonly store: MeasuredStore;
  readonly codec: Codec;
  readonly reader: HistoryReader;
}

/** Opens the archive that the settings name, until the stack ends; undefined: there is none. */
export function openArchive<C extends ArchiveConfig>(
  config: C,
  keys: SandboxKeys,
  runtime: OutwardRuntime,
  stack: AsyncDisposableStack,
): Archive | Extract<C, undefined>;
export function openArchive(
  config: ArchiveConfig,
  keys: SandboxKeys,
  runtime: OutwardRuntime,
  stack: AsyncDisposableStack,
): Archive | undefined {
  if (config === undefined) return undefined;
  const store = measuredStore(storeOf(config, runtime), runtime);
  stack.defer(() => store.close());
  const codec = createCodec({ keys, encrypt: config.encrypt });
  return { store, codec, reader: createHistoryReader({ store, codec }) };
}

/** Opens the store of an archive alone, until the stack ends. */
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
  { clock, random, logger, outward }: OutwardRuntime,
): ObjectStore {
  if (config.kind === 'folder') return createFolderStore({ directory: config.directory, clock });
  const { region, credentialsDirectory } = config;
  const credentials = credentialsFromEnvironment({
    ...{ directory: credentialsDirectory, environment: process.env, region },
    ...{ clock, random, logger, outward },
  });
  return createS3Store({ ...config, credentials, clock, random, outward });
}

/** Creates the folder of a local archive, readable by this user alone. */
export function createLocalArchive(config: ArchiveConfig): void {
  if (config?.kind === 'folder') mkdirSync(config.directory, { recursive: true, mode: 0o700 });
}

/** Opens the archive that the environment names, for the commands of a person. */
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
    ...{ store, reader, keys },
    writerOf: (address) => writerOf({ store, codec }, address),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  });
}

/**
 * The keys of the server; without any a random one, which opens what is not encrypted, and by which
 * no archive is known as that of this installation.
 */
function keysOf({ MASTER_KEY_FILES: files, DATA_DIR: directory }: ArchiveToolConfig): SandboxKeys {
  if (files !== undefined) return readMasterKeys(files);
  return existsSync(join(directory, 'master-key'))
    ? localMasterKey(new DataFolder(directory))
    : new SandboxKeys([randomBytes(32)]);
}
