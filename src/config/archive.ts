import { z, type core } from 'zod';
import { flag, httpUrl, oneOf, defaultDataDir, fileList, readEnvironment } from './environment.ts';
import { join } from 'node:path';
import { outwardSettings } from './outward.ts';

/** Maximum length of a prefix, which leaves up to 800 characters of an S3 key to the archive. */
const maxPrefixLength = 200;

const isEndpoint = (text: string): boolean => {
  if (!httpUrl.safeParse(text).success) return false;
  const { username, password, search, hash } = new URL(text);
  return username === '' && password === '' && search === '' && hash === '';
};

/** A prefix of the keys in an object store. A slash at its end is removed. */
const keyPrefix = z
  .string()
  .transform((text) => text.replace(/\/$/, ''))
  .pipe(
    z
      .string()
      .max(maxPrefixLength, `must have at most ${maxPrefixLength} characters`)
      .regex(
        /^(?!\.{1,2}(\/|$))[A-Za-z0-9._-]{1,200}(\/(?!\.{1,2}(\/|$))[A-Za-z0-9._-]{1,200})*$/,
        'must be names of letters, digits, dots, hyphens and underscores, joined by slashes, like team/agents',
      ),
  );

const region = z
  .string()
  .regex(
    /^[A-Za-z0-9-]{1,64}$/,
    'must be the name of a region like eu-central-1: up to 64 letters, digits and hyphens',
  );

/**
 * The archive of conversations. The operator, which writes it, and the gateways, which read it,
 * need the same settings. Without ARCHIVE_DIR and ARCHIVE_S3_BUCKET there is no archive.
 */
export const archiveSettings = {
  /** Folder of the archive, which all replicas share. Can't be combined with ARCHIVE_S3_BUCKET. */
  ARCHIVE_DIR: z.string().optional(),
  /** Name of a bucket of S3 or of a compatible store. */
  ARCHIVE_S3_BUCKET: z
    .string()
    .regex(
      /^(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$/,
      'must be the name of a bucket: 3 to 63 letters, digits, dots, hyphens and underscores',
    )
    .optional(),
  /** URL of the store. Default: the AWS endpoint of the region. */
  ARCHIVE_S3_ENDPOINT: z
    .string()
    .refine(
      isEndpoint,
      'must be an http or https URL without a user, a password, a query and a fragment',
    )
    .optional(),
  /** Region of the bucket. Default: AWS_REGION, else us-east-1. */
  ARCHIVE_S3_REGION: region.optional(),
  /** Region of the process. AWS sets this variable in its own environments. */
  AWS_REGION: z.string().optional(),
  /** Prefix of every key, without the slash that follows. Default: none. */
  ARCHIVE_S3_PREFIX: keyPrefix.optional(),
  /**
   * Whether the bucket is in the path of URLs instead of their host name. Default: true with
   * ARCHIVE_S3_ENDPOINT, and for names with a dot, which no wildcard certificate covers.
   */
  ARCHIVE_S3_PATH_STYLE: flag(false).unwrap().optional(),
  /** Server-side encryption of the objects. Default: that of the bucket. */
  ARCHIVE_S3_ENCRYPTION: oneOf('AES256', 'aws:kms').optional(),
  /** KMS key for the encryption aws:kms. Default: the AWS managed key for S3. */
  ARCHIVE_S3_KMS_KEY_ID: z
    .string()
    .regex(
      /^[A-Za-z0-9:/_-]{1,2048}$/,
      'must be the id, the alias or the ARN of a key: letters, digits, colons, slashes, hyphens and underscores',
    )
    .optional(),
  /**
   * A folder with the files access-key-id, secret-access-key and, for temporary credentials,
   * session-token. Default: the environment, a web identity or the role of the machine.
   */
  ARCHIVE_S3_CREDENTIALS_DIR: z.string().optional(),
  /** Whether the operator encrypts objects: AES-256-GCM, with a key derived from the master key. */
  ARCHIVE_ENCRYPT: flag(false),
};

export type ArchiveSettings = Readonly<z.output<z.ZodObject<typeof archiveSettings>>>;

const bucketSettings = [
  'ARCHIVE_S3_ENDPOINT',
  'ARCHIVE_S3_REGION',
  'ARCHIVE_S3_PREFIX',
  'ARCHIVE_S3_PATH_STYLE',
  'ARCHIVE_S3_ENCRYPTION',
  'ARCHIVE_S3_KMS_KEY_ID',
  'ARCHIVE_S3_CREDENTIALS_DIR',
] as const satisfies readonly (keyof ArchiveSettings)[];

/** Rejects a folder beside a bucket, bucket settings without a bucket, and an unused KMS key. */
export function checkArchive(config: ArchiveSettings, context: core.$RefinementCtx): void {
  const refuse = (name: keyof ArchiveSettings, message: string) =>
    context.addIssue({ code: 'custom', path: [name], message });
  const hasBucket = config.ARCHIVE_S3_BUCKET !== undefined;
  if (hasBucket && config.ARCHIVE_DIR !== undefined)
    refuse('ARCHIVE_S3_BUCKET', "can't be combined with ARCHIVE_DIR");
  if (!hasBucket)
    for (const name of bucketSettings)
      if (config[name] !== undefined) refuse(name, 'needs ARCHIVE_S3_BUCKET');
  if (config.ARCHIVE_S3_KMS_KEY_ID !== undefined && config.ARCHIVE_S3_ENCRYPTION !== 'aws:kms')
    refuse('ARCHIVE_S3_KMS_KEY_ID', 'needs ARCHIVE_S3_ENCRYPTION aws:kms');
  if (hasBucket && config.ARCHIVE_S3_REGION === undefined) {
    const found = region.optional().safeParse(config.AWS_REGION);
    if (!found.success)
      refuse('AWS_REGION', found.error.issues[0]?.message ?? 'must be the name of a region');
  }
}

interface Encryption {
  readonly encrypt: boolean;
}

export interface FolderArchive extends Encryption {
  readonly kind: 'folder';
  readonly directory: string;
}

export interface S3Archive extends Encryption {
  readonly kind: 's3';
  readonly bucket: string;
  /** Undefined: the AWS endpoint of the region. */
  readonly endpoint: string | undefined;
  readonly region: string;
  /** Empty, or names joined by `/`, without a `/` at the end. */
  readonly prefix: string;
  readonly pathStyle: boolean;
  readonly serverSideEncryption: 'AES256' | 'aws:kms' | undefined;
  readonly kmsKeyId: string | undefined;
  /** Undefined: AWS's default chain of credentials. */
  readonly credentialsDirectory: string | undefined;
}

/** Undefined: there is no archive. */
export type ArchiveConfig = FolderArchive | S3Archive | undefined;

/** @param fallback Folder of the archive if the settings name none. Default: no archive. */
export function archiveConfigOf(config: ArchiveSettings, fallback?: string): ArchiveConfig {
  const { ARCHIVE_S3_BUCKET: bucket, ARCHIVE_S3_ENDPOINT: endpoint } = config;
  const encrypt = config.ARCHIVE_ENCRYPT;
  if (bucket !== undefined)
    return {
      kind: 's3',
      bucket,
      endpoint,
      region: config.ARCHIVE_S3_REGION ?? config.AWS_REGION ?? 'us-east-1',
      prefix: config.ARCHIVE_S3_PREFIX ?? '',
      pathStyle: config.ARCHIVE_S3_PATH_STYLE ?? (endpoint !== undefined || bucket.includes('.')),
      serverSideEncryption: config.ARCHIVE_S3_ENCRYPTION,
      kmsKeyId: config.ARCHIVE_S3_KMS_KEY_ID,
      credentialsDirectory: config.ARCHIVE_S3_CREDENTIALS_DIR,
      encrypt,
    };
  const directory = config.ARCHIVE_DIR ?? fallback;
  return directory === undefined ? undefined : { kind: 'folder', directory, encrypt };
}

const schema = z
  .object({
    ...archiveSettings,
    ...outwardSettings,
    /** The master keys, which decrypt an archive and identify the archives of this installation. */
    MASTER_KEY_FILES: fileList.optional(),
    /** The data folder of `make run`, whose archive is the default. */
    DATA_DIR: z.string().default(defaultDataDir),
  })
  .superRefine(checkArchive);

export type ArchiveToolConfig = z.output<typeof schema>;

export const readArchiveToolConfig = (environment: NodeJS.ProcessEnv): ArchiveToolConfig =>
  readEnvironment(schema, environment);

export const toolArchiveOf = (config: ArchiveToolConfig): NonNullable<ArchiveConfig> => {
  const directory = join(config.DATA_DIR, 'archive');
  return archiveConfigOf(config, directory) ?? { kind: 'folder', directory, encrypt: false };
};
