import { StoreError } from '@conversation-operator/object-store/object-store';
import type { SandboxKeys } from '../agent/keys.ts';
import { type ArchiveAddress, ArchiveError, keyOf } from './layout.ts';
import { unpackHead } from './manifest.ts';
import type { ArchiveObjects } from './open-archive.ts';
import { isHeadless, newestHead } from './stored-archives.ts';

export interface Installation {
  /** Id of a master key. */
  readonly keyId: string;
  /** UID of the Namespace. A cloned cluster may have the original's keys, names and store. */
  readonly namespaceUid: string;
}

const separator = '/';

/** Name by which the heads of an archive identify the installation that has written them. */
export const installationName = ({ keyId, namespaceUid }: Installation): string =>
  `${keyId}${separator}${namespaceUid}`;

export type ArchiveWriter =
  | {
      readonly kind: 'known';
      /** Id of the writer's master key. Empty: the head contains no id. */
      readonly keyId: string;
      /** Undefined if the writer did not know the UID. Earlier releases did not store the UID. */
      readonly namespaceUid: string | undefined;
    }
  /** The newest head is unreadable, the folder of heads has no valid head, or no object exists. */
  | { readonly kind: 'unreadable' }
  /**
   * The archive has segments but no head, so nobody can read the archive. Writers store a head
   * before segments. A deletion has therefore left these segments, or a late write has added them.
   */
  | { readonly kind: 'headless' };

/** Reads the writer of an archive from its newest head. Throws `StoreError`. */
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

/** Whether the store can never read the object, for example because it is a symbolic link. */
const isInvalid = (error: unknown): boolean =>
  error instanceof StoreError && error.code === 'invalid';

/**
 * - own: the newest head names a known master key and this namespace.
 * - foreign: another or unknown installation has written the archive. Two installations may use one
 *   store by mistake, and must not delete each other's archives.
 * - headless: the archive has no head.
 */
export type ArchiveOrigin = 'own' | 'foreign' | 'headless';

/** No archive counts as `own` without `here.namespaceUid`, which RBAC may hide. Pure function. */
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
