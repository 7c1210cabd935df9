import type { ObjectStore } from '@conversation-operator/object-store/object-store';
import {
  type ArchiveAddress,
  folderOf,
  isObjectOf,
  positionOf,
  type ArchiveState,
  keyOf,
  type ArchiveObjectKind,
} from './layout.ts';
import { unpackHead } from './manifest.ts';
import type { ArchiveObjects } from './open-archive.ts';

/**
 * Returns the newest state of an archive in the store. Call this function only if the head in the
 * status of the Conversation does not exist, for example after a restore of the cluster. If that
 * head exists, the store may have a newer head that no status names yet. Undefined: there is no
 * state.
 *
 * Ignores heads without events, and archives from before `expiredTime`
 * (`status.archive.expiredTime`), whose deletion may be incomplete. Throws `StoreError`. Throws
 * `ArchiveError` if a head that may be the newest one is damaged or has an unknown key: a caller
 * that continues from an older head would replace or delete the objects of the newest head.
 */
export async function newestState(
  objects: ArchiveObjects,
  address: ArchiveAddress,
  expiredTime: string | undefined,
  signal?: AbortSignal,
): Promise<ArchiveState | undefined> {
  const heads = await namesOf(objects, address, 'h', signal);
  for (const head of heads.reverse())
    if (await isPresent(objects, { ...address, head }, expiredTime, signal)) {
      // The name of a snapshot does not tell whether the snapshot is from before the last expiry.
      const files =
        expiredTime === undefined
          ? (await namesOf(objects, address, 'f', signal)).at(-1)
          : undefined;
      return { ...address, head, ...(files === undefined ? {} : { files }) };
    }
  return undefined;
}

/** Whether a head was written after the last expiry: its `salt` is not before `expiredTime`. */
async function isPresent(
  { store, codec }: ArchiveObjects,
  { head, ...address }: ArchiveState,
  expiredTime = '',
  signal?: AbortSignal,
): Promise<boolean> {
  const body = await store.get(keyOf(address, 'h', head), { signal });
  if (body === undefined) return false;
  const { salt = '' } = unpackHead(codec, address, head, body).manifest;
  return salt >= expiredTime;
}

/** Names of the objects of one kind, in ascending order, without position 0 and invalid names. */
async function namesOf(
  { store }: ArchiveObjects,
  address: ArchiveAddress,
  kind: ArchiveObjectKind,
  signal?: AbortSignal,
): Promise<string[]> {
  const prefix = `${folderOf(address)}${kind}/`;
  const names: string[] = [];
  for await (const keys of keysOf(store, prefix, signal))
    names.push(...keys.map((key) => key.slice(prefix.length)));
  return names.filter((name) => (positionOf(name) ?? 0) > 0);
}

type Listing = Pick<ObjectStore, 'list'>;

export async function* keysOf(
  store: Listing,
  prefix: string,
  signal?: AbortSignal,
): AsyncGenerator<readonly string[]> {
  let after: string | undefined;
  do {
    const { names, next } = await store.list({ prefix, after, signal });
    yield names.map(({ key }) => key);
    after = next;
  } while (after !== undefined);
}

/** Name of the head with the highest position; undefined if the archive has no head. */
export async function newestHead(
  store: Listing,
  address: ArchiveAddress,
  signal?: AbortSignal,
): Promise<string | undefined> {
  const prefix = `${folderOf(address)}h/`;
  let newest: string | undefined;
  // The order of names is the order of positions.
  for await (const keys of keysOf(store, prefix, signal))
    for (const key of keys) {
      const name = key.slice(prefix.length);
      if (positionOf(name) !== undefined) newest = name;
    }
  return newest;
}

/** Names of all folders of a namespace. Other programs may have created some of these folders. */
export async function* archivesOf(
  store: Listing,
  namespace: string,
  signal?: AbortSignal,
): AsyncGenerator<string> {
  const prefix = `${namespace}/`;
  let after: string | undefined;
  do {
    const { names, next } = await store.list({ prefix, summed: true, after, signal });
    for (const { key } of names) if (key.endsWith('/')) yield key.slice(prefix.length, -1);
    after = next;
  } while (after !== undefined);
}

/**
 * Whether the archive has objects, but its folder `h` of heads is empty. An object in `h` without a
 * valid name may be a head that was moved or restored, so the archive is then not headless.
 */
export async function isHeadless(
  store: Listing,
  address: ArchiveAddress,
  signal?: AbortSignal,
): Promise<boolean> {
  let found = false;
  for await (const keys of keysOf(store, folderOf(address), signal)) {
    if (keys.some((key) => key.startsWith(`${folderOf(address)}h`))) return false;
    found ||= keys.some((key) => isObjectOf(address, key));
  }
  return found;
}

/**
 * Deletes all objects of an archive. Heads are deleted last, because they name the installation
 * that owns the other objects. Returns whether the archive had objects.
 */
export async function removeArchive(
  store: Pick<ObjectStore, 'list' | 'delete'>,
  address: ArchiveAddress,
  signal?: AbortSignal,
): Promise<boolean> {
  const headFolder = `${folderOf(address)}h/`;
  const heads: string[] = [];
  let found = false;
  for await (const all of keysOf(store, folderOf(address), signal)) {
    const keys = all.filter((key) => isObjectOf(address, key));
    found ||= keys.length > 0;
    heads.push(...keys.filter((key) => key.startsWith(headFolder)));
    const others = keys.filter((key) => !key.startsWith(headFolder));
    if (others.length > 0) await store.delete(others, { signal });
  }
  if (heads.length > 0) await store.delete(heads, { signal });
  return found;
}
