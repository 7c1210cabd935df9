import { join } from 'node:path';
import { z } from 'zod';
import { archiveConfigOf, archiveSettings, checkArchive, type ArchiveConfig } from './archive.ts';
import { outwardSettings } from './outward.ts';
import { defaultDataDir, fileList, readEnvironment } from './environment.ts';

const schema = z
  .object({
    ...archiveSettings,
    ...outwardSettings,
    /** They open an encrypted archive, and say which archives are this installation's. */
    MASTER_KEY_FILES: fileList.optional(),
    /** The data folder of `make run`, whose archive is used where the settings name no other. */
    DATA_DIR: z.string().default(defaultDataDir),
  })
  .superRefine(checkArchive);

/** The settings of `conversation-operator archive`. */
export type ArchiveToolConfig = z.output<typeof schema>;

export const readArchiveToolConfig = (environment: NodeJS.ProcessEnv): ArchiveToolConfig =>
  readEnvironment(schema, environment);

/** The archive of the settings, else that of the data folder. */
export const toolArchiveOf = (config: ArchiveToolConfig): NonNullable<ArchiveConfig> => {
  const directory = join(config.DATA_DIR, 'archive');
  return archiveConfigOf(config, directory) ?? { kind: 'folder', directory, encrypt: false };
};
