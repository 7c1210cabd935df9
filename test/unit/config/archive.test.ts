import { archiveConfigOf } from '../../../src/config/archive.ts';
import { readGatewayConfig, readOperatorConfig } from '../../../src/config/cluster.ts';
import { readUpConfig, upArchiveOf } from '../../../src/config/up.ts';

const MASTER_KEY_FILES = 'key';
const readers = {
  operator: (environment: NodeJS.ProcessEnv) =>
    archiveConfigOf(readOperatorConfig({ MASTER_KEY_FILES, ...environment })),
  gateway: (environment: NodeJS.ProcessEnv) =>
    archiveConfigOf(readGatewayConfig({ MASTER_KEY_FILES, ...environment })),
  up: (environment: NodeJS.ProcessEnv) => upArchiveOf(readUpConfig(environment)),
} as const;
type Command = keyof typeof readers;
const commands = Object.keys(readers) as Command[];
const bucket = { ARCHIVE_S3_BUCKET: 'history' };

describe('the place of the archive', () => {
  it.each(['operator', 'gateway'] as const)('of %s is none where no setting names one', (name) => {
    expect(readers[name]({})).toBeUndefined();
    expect(readers[name]({ ARCHIVE_DIR: '', AWS_REGION: 'eu-west-1' })).toBeUndefined();
  });

  it('of up is in the data folder, unless a setting says otherwise', () => {
    expect(readers.up({ DATA_DIR: '/data' })).toEqual({
      kind: 'folder',
      directory: '/data/archive',
      encrypt: false,
    });
    expect(readers.up({ ARCHIVE_DIR: '/mine' })).toMatchObject({ directory: '/mine' });
    expect(readers.up(bucket)).toMatchObject({ kind: 's3', bucket: 'history' });
    for (const more of [{}, { ARCHIVE_DIR: '/mine' }, bucket])
      expect(readers.up({ ARCHIVE: 'false', ...more })).toBeUndefined();
  });

  it.each(commands)('of %s may be a folder, or a bucket with all that belongs to it', (name) => {
    expect(readers[name]({ ARCHIVE_DIR: '/archive', ARCHIVE_ENCRYPT: 'true' })).toEqual({
      kind: 'folder',
      directory: '/archive',
      encrypt: true,
    });
    expect(readers[name](bucket)).toEqual({
      kind: 's3',
      bucket: 'history',
      endpoint: undefined,
      region: 'us-east-1',
      prefix: '',
      pathStyle: false,
      serverSideEncryption: undefined,
      kmsKeyId: undefined,
      credentialsDirectory: undefined,
      encrypt: false,
    });
    expect(
      readers[name]({
        ...bucket,
        ARCHIVE_S3_ENDPOINT: 'https://s3.example.com:9000',
        ARCHIVE_S3_REGION: 'eu-central-1',
        ARCHIVE_S3_PREFIX: 'team/agents/',
        ARCHIVE_S3_PATH_STYLE: 'false',
        ARCHIVE_S3_ENCRYPTION: 'aws:kms',
        ARCHIVE_S3_KMS_KEY_ID: 'arn:aws:kms:eu-central-1:111122223333:key/0a-1b',
        ARCHIVE_S3_CREDENTIALS_DIR: '/credentials',
        ARCHIVE_ENCRYPT: '1',
      }),
    ).toEqual({
      kind: 's3',
      bucket: 'history',
      endpoint: 'https://s3.example.com:9000',
      region: 'eu-central-1',
      prefix: 'team/agents',
      pathStyle: false,
      serverSideEncryption: 'aws:kms',
      kmsKeyId: 'arn:aws:kms:eu-central-1:111122223333:key/0a-1b',
      credentialsDirectory: '/credentials',
      encrypt: true,
    });
  });

  it.each([
    ['the region of the process', { AWS_REGION: 'eu-west-1' }, { region: 'eu-west-1' }],
    [
      'a region of its own before that of the process',
      { AWS_REGION: 'nonsense!', ARCHIVE_S3_REGION: 'eu-north-1' },
      { region: 'eu-north-1' },
    ],
    [
      'paths at an endpoint',
      { ARCHIVE_S3_ENDPOINT: 'http://minio:9000' },
      { pathStyle: true, endpoint: 'http://minio:9000' },
    ],
    ['paths for a name with a dot', { ARCHIVE_S3_BUCKET: 'history.acme' }, { pathStyle: true }],
    ['paths where that is said', { ARCHIVE_S3_PATH_STYLE: 'true' }, { pathStyle: true }],
  ])('of a bucket has %s', (_name, environment, expected) => {
    expect(readers.operator({ ...bucket, ...environment })).toMatchObject(expected);
  });
});

describe('settings of the archive', () => {
  const path = (length: number) => `${'a'.repeat(150)}/${'b'.repeat(length - 151)}`;
  it.each<readonly [NodeJS.ProcessEnv, string]>([
    [
      { ...bucket, ARCHIVE_DIR: '/archive' },
      'ARCHIVE_S3_BUCKET: can\'t be combined with ARCHIVE_DIR, not "history"',
    ],
    [{ ARCHIVE_S3_BUCKET: '-history' }, 'ARCHIVE_S3_BUCKET: must be the name of a bucket: 3 to 63'],
    [{ ARCHIVE_S3_BUCKET: 'ab' }, 'ARCHIVE_S3_BUCKET: must be the name of a bucket'],
    [{ ARCHIVE_S3_BUCKET: 'a..b' }, 'ARCHIVE_S3_BUCKET: must be the name of a bucket'],
    [{ ARCHIVE_S3_BUCKET: 'a/b' }, 'ARCHIVE_S3_BUCKET: must be the name of a bucket'],
    [{ ARCHIVE_S3_BUCKET: 'a'.repeat(64) }, 'ARCHIVE_S3_BUCKET: must be the name of a bucket'],
    [{ ...bucket, ARCHIVE_S3_ENDPOINT: 'minio:9000' }, 'ARCHIVE_S3_ENDPOINT: must be an http'],
    [{ ...bucket, ARCHIVE_S3_ENDPOINT: 'https://s3?x=1' }, 'ARCHIVE_S3_ENDPOINT: must be an http'],
    [{ ...bucket, ARCHIVE_S3_REGION: 'eu.example' }, 'ARCHIVE_S3_REGION: must be the name of'],
    [{ ...bucket, AWS_REGION: 'eu example' }, 'AWS_REGION: must be the name of a region'],
    [{ ...bucket, ARCHIVE_S3_PREFIX: '/a' }, 'ARCHIVE_S3_PREFIX: must be names of letters'],
    [{ ...bucket, ARCHIVE_S3_PREFIX: '/' }, 'ARCHIVE_S3_PREFIX: must be names of letters'],
    [{ ...bucket, ARCHIVE_S3_PREFIX: 'a//b' }, 'ARCHIVE_S3_PREFIX: must be names of letters'],
    [{ ...bucket, ARCHIVE_S3_PREFIX: 'a/../b' }, 'ARCHIVE_S3_PREFIX: must be names of letters'],
    [{ ...bucket, ARCHIVE_S3_PREFIX: 'a/.' }, 'ARCHIVE_S3_PREFIX: must be names of letters'],
    [{ ...bucket, ARCHIVE_S3_PREFIX: 'ä' }, 'ARCHIVE_S3_PREFIX: must be names of letters'],
    [{ ...bucket, ARCHIVE_S3_PREFIX: path(201) }, 'ARCHIVE_S3_PREFIX: must have at most 200'],
    [{ ...bucket, ARCHIVE_S3_PATH_STYLE: 'yes' }, 'ARCHIVE_S3_PATH_STYLE: must be true, false'],
    [
      { ...bucket, ARCHIVE_S3_ENCRYPTION: 'SSE' },
      'ARCHIVE_S3_ENCRYPTION: must be AES256 or aws:kms, not "SSE"',
    ],
    [
      { ...bucket, ARCHIVE_S3_KMS_KEY_ID: 'key' },
      'ARCHIVE_S3_KMS_KEY_ID: needs ARCHIVE_S3_ENCRYPTION aws:kms',
    ],
    [
      { ...bucket, ARCHIVE_S3_ENCRYPTION: 'AES256', ARCHIVE_S3_KMS_KEY_ID: 'key' },
      'ARCHIVE_S3_KMS_KEY_ID: needs ARCHIVE_S3_ENCRYPTION aws:kms',
    ],
    [
      { ...bucket, ARCHIVE_S3_ENCRYPTION: 'aws:kms', ARCHIVE_S3_KMS_KEY_ID: 'a\nb' },
      'ARCHIVE_S3_KMS_KEY_ID: must be the id, the alias or the ARN of a key',
    ],
    [{ ARCHIVE_S3_REGION: 'eu-west-1' }, 'ARCHIVE_S3_REGION: needs ARCHIVE_S3_BUCKET'],
    [{ ARCHIVE_S3_PATH_STYLE: '0' }, 'ARCHIVE_S3_PATH_STYLE: needs ARCHIVE_S3_BUCKET'],
    [{ ARCHIVE_ENCRYPT: 'perhaps' }, 'ARCHIVE_ENCRYPT: must be true, false, 1 or 0'],
  ])('name what is wrong with %j', (environment, message) => {
    for (const name of commands) expect(() => readers[name](environment)).toThrow(message);
  });

  it('take the longest prefix', () => {
    expect(readers.operator({ ...bucket, ARCHIVE_S3_PREFIX: path(200) })).toMatchObject({
      prefix: path(200),
    });
  });

  it.each(['https://key:s3cret@s3.example', 'https://s3.example?key=s3cret', 's3cret'])(
    'do not repeat an endpoint that may hold a secret: %s',
    (ARCHIVE_S3_ENDPOINT) => {
      const read = () => readers.operator({ ...bucket, ARCHIVE_S3_ENDPOINT });
      expect(read).toThrow(/^ARCHIVE_S3_ENDPOINT: (?!.*s3cret)/);
    },
  );
});
