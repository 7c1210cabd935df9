import { backoffDelayMs } from '@conversation-operator/base/backoff';
import { systemClock, type Clock } from '@conversation-operator/base/clock';
import type { Outward } from '@conversation-operator/outward/outward';
import { silentLogger, type Logger } from '@conversation-operator/base/logger';
import {
  containerCredentials,
  instanceCredentials,
  webIdentityCredentials,
} from './service-credentials.ts';
import {
  type CredentialProvider,
  type Credentials,
  type CredentialSource,
  isCredential,
  readCredentialFile,
} from './credentials.ts';
import { StoreError } from './object-store.ts';
import { join } from 'node:path';

interface DirectoryCredentialsOptions {
  /** A folder with the files `access-key-id`, `secret-access-key`, and optionally `session-token`. */
  readonly directory: string;
  readonly clock: Clock;
}

/** Time for which files are not read again, unless the store rejects what they contain. */
const checkEveryMs = 5000;
/** Reads until two in a row agree: the files of a mounted Secret change one after the other. */
const maxReads = 10;

/** Credentials of files, which are read again when they change. */
function directoryCredentials({ directory, clock }: DirectoryCredentialsOptions): CredentialSource {
  let current: Credentials | undefined;
  let checkedAt = -Infinity;
  let running: Promise<Credentials> | undefined;

  const read = async (): Promise<Credentials> => {
    const found = await readTwice(directory);
    checkedAt = clock.monotonic();
    current = current !== undefined && isSame(current, found) ? current : found;
    return current;
  };
  return async (rejected) => {
    const isFresh = clock.monotonic() < checkedAt + checkEveryMs;
    if (current !== undefined && isFresh && current !== rejected) return current;
    return await (running ??= read().finally(() => {
      running = undefined;
    }));
  };
}

async function readTwice(directory: string): Promise<Credentials> {
  let last = await readOnce(directory);
  for (let reads = 1; reads < maxReads; reads += 1) {
    const next = await readOnce(directory);
    if (isSame(last, next)) return next;
    last = next;
  }
  throw new StoreError('unavailable', `The files of ${directory} do not stop changing`);
}

async function readOnce(directory: string): Promise<Credentials> {
  const read = (name: string) => readCredentialFile(join(directory, name));
  const accessKeyId = await read('access-key-id');
  const secretAccessKey = await read('secret-access-key');
  const sessionToken = await read('session-token');
  const check = (name: string, value: string | undefined): string => {
    const problem = value === undefined ? 'does not exist' : 'contains no credential';
    if (isCredential(value)) return value;
    throw new StoreError('denied', `The file ${join(directory, name)} ${problem}`);
  };
  return {
    accessKeyId: check('access-key-id', accessKeyId),
    secretAccessKey: check('secret-access-key', secretAccessKey),
    // An empty file is a key of a Secret that is not in use.
    ...(sessionToken !== undefined &&
      sessionToken !== '' && { sessionToken: check('session-token', sessionToken) }),
  };
}

const isSame = (a: Credentials, b: Credentials): boolean =>
  a.accessKeyId === b.accessKeyId &&
  a.secretAccessKey === b.secretAccessKey &&
  a.sessionToken === b.sessionToken;

export type { CredentialProvider, Credentials, CredentialSource } from './credentials.ts';

export interface CredentialCacheOptions {
  readonly provider: CredentialProvider;
  /** Default: the clock of the system. */
  readonly clock?: Clock | undefined;
  /** Default: `Math.random`. */
  readonly random?: (() => number) | undefined;
  /** Default: none. */
  readonly logger?: Logger | undefined;
}

export interface EnvironmentOptions extends Omit<CredentialCacheOptions, 'provider'> {
  /** A folder with files, as a mounted Secret; before all other sources. */
  readonly directory?: string | undefined;
  /** Variables of AWS, as EKS and ECS set them. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Region whose STS is used. Default: AWS_REGION, AWS_DEFAULT_REGION, or the global STS. */
  readonly region?: string | undefined;
  /** Maximum time of one request for credentials, in milliseconds. Default 5000. */
  readonly timeoutMs?: number | undefined;
  /** Default: AWS_EC2_METADATA_SERVICE_ENDPOINT, or the link-local address of the service. */
  readonly metadataUrl?: string | undefined;
  readonly outward: Outward;
}

const renewBeforeMs = 300_000;
const renewalRetry = { baseMs: 5000, capMs: 60_000, jitter: 0.5 };

/**
 * Returns the source that the environment has: the folder with files, a web identity, the
 * credentials of a container, or the role of the instance, in this order. Credentials are got with
 * the first call, and renewed 5 minutes before their end.
 */
export function credentialsFromEnvironment(options: EnvironmentOptions): CredentialSource {
  const { directory, clock = systemClock } = options;
  if (directory !== undefined) return directoryCredentials({ directory, clock });
  const { environment, timeoutMs = 5000, region, metadataUrl, outward } = options;
  const provider =
    webIdentityCredentials({ environment, clock, timeoutMs, region, outward }) ??
    containerCredentials({ environment, clock, timeoutMs, outward }) ??
    instanceCredentials({ environment, clock, timeoutMs, metadataUrl }) ??
    none;
  return cachedCredentials({ ...options, provider });
}

const none: CredentialProvider = () =>
  Promise.reject(
    new StoreError('denied', 'There are no credentials of the object store in the environment'),
  );

/**
 * Keeps credentials, and renews them in the background 5 minutes before their end, or in the half
 * of a shorter life. Credentials whose renewal fails are in use until they end. One request for
 * credentials is under way at once.
 */
export function cachedCredentials(options: CredentialCacheOptions): CredentialSource {
  const { provider, clock = systemClock, random = Math.random, logger = silentLogger } = options;
  let current: { readonly credentials: Credentials; readonly renewAtMs: number } | undefined;
  let running: Promise<Credentials> | undefined;
  let failures = 0;
  /** Earliest time of the next attempt, of the monotonic clock. */
  let nextRenewalAt = -Infinity;

  const get = async (): Promise<Credentials> => {
    const credentials = await provider();
    const { expiresAtMs = Infinity } = credentials;
    const leftMs = expiresAtMs - clock.now();
    if (leftMs <= 0)
      throw new StoreError('unavailable', 'The credentials of the object store have ended');
    current = { credentials, renewAtMs: expiresAtMs - Math.min(renewBeforeMs, leftMs / 2) };
    failures = 0;
    return credentials;
  };
  const getOnce = (): Promise<Credentials> =>
    (running ??= get().finally(() => {
      running = undefined;
    }));
  const renew = (): void => {
    getOnce().catch((error: unknown) => {
      failures += 1;
      nextRenewalAt = clock.monotonic() + backoffDelayMs(renewalRetry, failures, random);
      logger.warn('The credentials of the object store could not be renewed', { error });
    });
  };

  return async (rejected) => {
    if (current === undefined) return await getOnce();
    const { credentials, renewAtMs } = current;
    const { expiresAtMs = Infinity } = credentials;
    if (credentials === rejected || clock.now() >= expiresAtMs) return await getOnce();
    const isDue = clock.now() >= renewAtMs && clock.monotonic() >= nextRenewalAt;
    if (isDue && running === undefined) renew();
    return credentials;
  };
}
