import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { compact } from '@conversation-operator/base/compact';
import type { KubeClient } from '@conversation-operator/kube/client';
import { apiKeys, type ApiKey, type ApiKeySpec } from '../../resources/api-key.ts';
import { apiVersion } from '../../resources/group.ts';

export interface IssueKeyOptions {
  readonly client: Pick<KubeClient, 'create'>;
  readonly namespace: string;
  /** Name of the ApiKey; absent: a random one. */
  readonly name?: string;
  readonly owner: string;
  readonly role?: ApiKeySpec['role'];
  readonly description?: string | undefined;
  /** Scopes of the key; absent: those of its issuer. */
  readonly scopes?: ApiKeySpec['scopes'];
  /** Time in RFC 3339 from which the key is valid; absent: at once. */
  readonly notBefore?: string | undefined;
  /** Expiration time in RFC 3339; absent if the key never expires. */
  readonly expiresAt?: string | undefined;
  /** The issuer of this key; absent if there is none. A key is valid only while its issuer is. */
  readonly issuedBy?: ApiKeySpec['issuedBy'];
  /** Templates that the key may start; absent: all. */
  readonly templates?: ApiKeySpec['templates'];
  /** Person whom an identity provider has signed in; absent: none. */
  readonly person?: ApiKeySpec['person'];
  /** Program that waits for the answer of a person; absent: none. */
  readonly device?: ApiKeySpec['device'];
  /** Use of the key in a sign-in; absent for a key that authenticates requests. */
  readonly signIn?: ApiKeySpec['signIn'];
  readonly random?: RandomBytes;
}

export interface IssuedKey {
  /** The key in clear text. Only its hash is stored, so the key can not be read again later. */
  readonly key: string;
  readonly resource: ApiKey;
}

/** Creates an ApiKey. Each gateway accepts the key once its own cache shows the resource. */
export async function issueKey(options: IssueKeyOptions): Promise<IssuedKey> {
  const { client, namespace, owner, role = 'user', issuedBy, random = randomBytes } = options;
  const key = generateKey(random);
  const resource = await client.create(apiKeys, {
    apiVersion,
    kind: apiKeys.kind,
    metadata: {
      namespace,
      name: options.name ?? `key-${random(6).toString('hex')}`,
      // Kubernetes deletes the key when its issuer is deleted.
      ...(issuedBy === undefined
        ? {}
        : { ownerReferences: [{ apiVersion, kind: apiKeys.kind, ...issuedBy }] }),
    },
    spec: compact({
      owner,
      role,
      sha256: hashKey(key),
      description: options.description,
      scopes: options.scopes,
      notBefore: options.notBefore,
      expirationTime: options.expiresAt,
      issuedBy,
      templates: options.templates,
      person: options.person,
      device: options.device,
      signIn: options.signIn,
    }),
  });
  return { key, resource };
}

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** Prefixes of the texts that open something: of an API key, and of the token of a share. */
type Prefix = 'co_' | 'cs_';
/** 32 digits of base62 have 190 bits of entropy. */
const randomDigits = 32;
const checksumDigits = 6;
const shape = /^[0-9A-Za-z]{22,64}[0-9A-Za-z]{6}$/;

export type RandomBytes = (bytes: number) => Buffer;

function randomBase62(digits: number, random: RandomBytes): string {
  let text = '';
  while (text.length < digits) {
    for (const byte of random(digits)) {
      // 248 is the last multiple of 62 in a byte: larger values would bias the digits.
      if (byte < 248 && text.length < digits) text += alphabet.charAt(byte % 62);
    }
  }
  return text;
}

function checksumOf(text: string): string {
  let rest = crc32(text);
  let digits = '';
  for (let index = 0; index < checksumDigits; index++) {
    digits = alphabet.charAt(rest % 62) + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}

/** A new API key or token in clear text. Six digits of checksum detect typing errors. */
export function generateKey(random: RandomBytes = randomBytes, prefix: Prefix = 'co_'): string {
  const rest = `${prefix}${randomBase62(randomDigits, random)}`;
  return `${rest}${checksumOf(rest)}`;
}

const isWellFormed = (text: string, prefix: Prefix): boolean =>
  text.startsWith(prefix) &&
  shape.test(text.slice(prefix.length)) &&
  checksumOf(text.slice(0, -checksumDigits)) === text.slice(-checksumDigits);

/** Whether the text has the form of a key and the right checksum. The key need not exist. */
export const isWellFormedKey = (text: string): boolean => isWellFormed(text, 'co_');

/** The same for the token of a share. */
export const isWellFormedShareToken = (text: string): boolean => isWellFormed(text, 'cs_');

/** The stored form of a key: SHA-256 in hex. Keys are random, so a plain hash can't be reversed. */
export const hashKey = (key: string): string => createHash('sha256').update(key).digest('hex');

/** Compares two keys, or two hashes, in constant time. Their length is no secret. */
export function isEqual(left: string, right: string): boolean {
  const [a, b] = [Buffer.from(left), Buffer.from(right)];
  return a.length === b.length && timingSafeEqual(a, b);
}
