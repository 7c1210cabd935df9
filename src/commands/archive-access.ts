import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { SandboxKeys } from '../agent/keys.ts';
import { readArchiveToolConfig, toolArchiveOf, type ArchiveToolConfig } from '../config/archive.ts';
import type { ArchiveAccess } from './archive.ts';
import { openArchive } from './archive-store.ts';
import { writerOf } from '../archive/installation.ts';
import { CommandError } from './command-error.ts';
import { DataFolder } from './data-folder.ts';
import { localMasterKey, readMasterKeys } from './master-keys.ts';
import { withOutward } from './outward.ts';
import { createRuntime, loggerOf } from './process.ts';

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
