import { mkdirSync } from 'node:fs';
import { createFolderStore } from '@conversation-operator/object-store/folder-store';
import type { ObjectStore } from '@conversation-operator/object-store/object-store';
import { credentialsFromEnvironment } from '@conversation-operator/object-store/s3-credentials';
import { createS3Store } from '@conversation-operator/object-store/s3-store';
import type { SandboxKeys } from '../agent/keys.ts';
import { createCodec, type Codec } from '../archive/codec.ts';
import type { HistoryReader } from '../archive/history.ts';
import { measuredStore, type MeasuredStore } from '../archive/measured-store.ts';
import { createHistoryReader } from '../archive/reader.ts';
import type { ArchiveConfig } from '../config/archive.ts';
import type { OutwardRuntime } from './outward.ts';

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
