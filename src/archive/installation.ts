import { StoreError } from '@conversation-operator/object-store/object-store';
import type { SandboxKeys } from '../agent/keys.ts';
import { type ArchiveAddress, ArchiveError, keyOf } from './layout.ts';
import { unpackHead } from './manifest.ts';
import type { ArchiveObjects } from './open-archive.ts';
import { isHeadless, newestHead } from './stored-archives.ts';

export interface Installation {
  /** Id of a master key. */
  readonly keyId: string;
  /** UID of the Namespace: a copy of a cluster may have the same keys, names and store. */
  readonly namespaceUid: string;
}

const separator = '/';

/** The name of an installation in the heads that it writes. */
export const installationName = ({ keyId, namespaceUid }: Installation): string =>
  `${keyId}${separator}${namespaceUid}`;

export type ArchiveWriter =
  | {
      readonly kind: 'known';
      /** Empty: the head names no key. */
      readonly keyId: string;
      /** Undefined: the writer did not know the UID, or is a release that named the key alone. */
      readonly namespaceUid: string | undefined;
    }
  /** Unreadable head, other objects in place of heads, or nothing of an archive in the folder. */
  | { readonly kind: 'unreadable' }
  /**
   * The archive has no head, so no reader can use it. An archive begins with a head, so its writer
   * has ended, or a late write has arrived after its deletion.
   */
  | { readonly kind: 'headless' };

/** Throws `StoreError`. */
export async function writerOf(
  { store, codec }: ArchiveObjects,
  address: ArchiveAddress,
  signal?: AbortSignal,
): Promise<ArchiveWriter> {
  const name = await newestHead(store, address, signal);
  if (name === undefined)
    return { kind: (await isHeadless(store, address, signal)) ? 'headless' : 'unreadable' };
  try {
    const body = await store.get(keyOf(address, 'h', name), { signal });
    if (body === undefined) return { kind: 'unreadable' };
    const { installation = '' } = unpackHead(codec, address, name, body).manifest;
    const [keyId = '', namespaceUid] = installation.split(separator);
    return { kind: 'known', keyId, namespaceUid };
  } catch (error) {
    if (error instanceof ArchiveError || isInvalid(error)) return { kind: 'unreadable' };
    throw error;
  }
}

/** Whether the store will never read the object, for instance because it is a symbolic link. */
const isInvalid = (error: unknown): boolean =>
  error instanceof StoreError && error.code === 'invalid';

/**
 * Origin of an archive:
 * - own: its newest head names a master key that is known here, and this namespace.
 * - foreign: another installation, or an unknown one, has written it. Another installation may use
 * the same store by mistake, and must not delete archives that it does not know.
 * - headless: it has no head.
 */
export type ArchiveOrigin = 'own' | 'foreign' | 'headless';

/**
 * Pure.
 * @param here Its `namespaceUid` is undefined where the namespace can't be read: no archive is own.
 */
export function originOf(
  writer: ArchiveWriter,
  here: { readonly keys: Pick<SandboxKeys, 'knows'>; readonly namespaceUid: string | undefined },
): ArchiveOrigin {
  if (writer.kind === 'headless') return 'headless';
  if (writer.kind === 'unreadable' || writer.namespaceUid === undefined) return 'foreign';
  return here.keys.knows(writer.keyId) && writer.namespaceUid === here.namespaceUid
    ? 'own'
    : 'foreign';
}
