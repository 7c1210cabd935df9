import { createHash } from 'node:crypto';

/** The archive of one Conversation: its namespace and UID, which are the folders of its objects. */
export interface ArchiveAddress {
  readonly namespace: string;
  readonly uid: string;
}

/** An archive in one of its states: the objects that a head names never change. */
export interface ArchiveState extends ArchiveAddress {
  /** `status.archive.head` of the Conversation. */
  readonly head: string;
  /** `status.archive.files`: name of the snapshot of files. Absent: there is none. */
  readonly files?: string | undefined;
}

/**
 * - gone: an object of the archive does not exist.
 * - damaged: an object is not what its name or the head says, or no known key opens it.
 */
type ArchiveErrorCode = 'gone' | 'damaged';

/** Error of an archive. The message names the object, and contains nothing of its text. */
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
 * Kinds of objects of an archive, by their folder.
 *
 * - h: heads. A head lists the segments, and contains the events that fill no segment yet.
 * - s: segments of about 1 MiB of events.
 * - f: snapshots of the files of the sandbox.
 */
export type ArchiveObjectKind = 'h' | 's' | 'f';

const namePattern = /^([0-9]{10})-([0-9a-f]{24})$/;
const positionDigits = 10;
const hashDigits = 24;

/** The folder of all objects of an archive, with a `/` at its end. */
export const folderOf = ({ namespace, uid }: ArchiveAddress): string => `${namespace}/${uid}/`;

export const keyOf = (address: ArchiveAddress, kind: ArchiveObjectKind, name: string): string =>
  `${folderOf(address)}${kind}/${name}`;

/** The beginning of a SHA-256: two texts of one archive never have the same one by chance. */
export const hashOf = (...texts: readonly (string | Uint8Array)[]): string => {
  const hash = createHash('sha256');
  for (const text of texts) hash.update(text);
  return hash.digest('hex').slice(0, hashDigits);
};

/**
 * The name of an object: a position in the log of the agent, and a hash of the content. Two writers
 * that have read the same events write the same objects, and no write replaces other content.
 */
export const nameOf = (position: number, hash: string): string =>
  `${String(position).padStart(positionDigits, '0')}-${hash}`;

/** Whether an object is of the archive: another installation or program may share the folder. */
export function isObjectOf(address: ArchiveAddress, key: string): boolean {
  const [, kind, name = ''] = /^([hsf])\/(.*)$/.exec(key.slice(folderOf(address).length)) ?? [];
  return key.startsWith(folderOf(address)) && kind !== undefined && namePattern.test(name);
}

/** The position in a name; undefined where the text is no name. */
export const positionOf = (name: string): number | undefined => {
  const digits = namePattern.exec(name)?.[1];
  return digits === undefined ? undefined : Number(digits);
};
