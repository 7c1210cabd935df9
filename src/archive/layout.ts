import { createHash } from 'node:crypto';

/** The archive of one Conversation. Namespace and UID are the folders of its objects. */
export interface ArchiveAddress {
  readonly namespace: string;
  readonly uid: string;
}

/** One state of an archive. The objects that a head names never change. */
export interface ArchiveState extends ArchiveAddress {
  /** Name of a head object, usually `status.archive.head` of the Conversation. */
  readonly head: string;
  /** `status.archive.files`: name of the snapshot of files. Absent: there is none. */
  readonly files?: string | undefined;
}

/**
 * - gone: an object of the archive does not exist.
 * - damaged: an object does not match its name or head, or no known key decrypts the object.
 */
type ArchiveErrorCode = 'gone' | 'damaged';

/** Error of an archive. The message names the object, and contains none of the object's content. */
export class ArchiveError extends Error {
  override readonly name = 'ArchiveError';
  readonly code: ArchiveErrorCode;

  constructor(code: ArchiveErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export const isGone = (error: unknown): error is ArchiveError =>
  error instanceof ArchiveError && error.code === 'gone';

/**
 * Folders of an archive, one for each kind of object:
 * - h: heads. A head lists the segments, and contains the events after the last full segment.
 * - s: segments of about 1 MiB of events.
 * - f: snapshots of the files of the sandbox.
 */
export type ArchiveObjectKind = 'h' | 's' | 'f';

const namePattern = /^([0-9]{10})-([0-9a-f]{24})$/;
const positionDigits = 10;
const hashDigits = 24;

/** Folder of all objects of an archive, with a `/` at its end. */
export const folderOf = ({ namespace, uid }: ArchiveAddress): string => `${namespace}/${uid}/`;

export const keyOf = (address: ArchiveAddress, kind: ArchiveObjectKind, name: string): string =>
  `${folderOf(address)}${kind}/${name}`;

/** First 96 bits of a SHA-256. Two texts of one archive never have the same hash by chance. */
export const hashOf = (...texts: readonly (string | Uint8Array)[]): string => {
  const hash = createHash('sha256');
  for (const text of texts) hash.update(text);
  return hash.digest('hex').slice(0, hashDigits);
};

/**
 * Name of an object: a position in the agent's log, and a hash of the content. Two writers with the
 * same events write the same objects, and no write replaces other content.
 */
export const nameOf = (position: number, hash: string): string =>
  `${String(position).padStart(positionDigits, '0')}-${hash}`;

/** Whether an object belongs to the archive. Other programs may write to the same folder. */
export function isObjectOf(address: ArchiveAddress, key: string): boolean {
  const [, kind, name = ''] = /^([hsf])\/(.*)$/.exec(key.slice(folderOf(address).length)) ?? [];
  return key.startsWith(folderOf(address)) && kind !== undefined && namePattern.test(name);
}

/** The position in an object's name; undefined for a text that is no such name. */
export const positionOf = (name: string): number | undefined => {
  const digits = namePattern.exec(name)?.[1];
  return digits === undefined ? undefined : Number(digits);
};
