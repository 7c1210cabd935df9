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
 * The newest state of an archive in the store, for a Conversation whose status names no existing
 * head, for example after a restore of the cluster. Undefined: there is none. A head that the
 * status names takes precedence if it exists, as the store may have a newer head that no status
 * names yet.
 *
 * Archives from before `expiredTime` (`status.archive.expiredTime`) are ignored, because their
 * deletion may be incomplete, and so are heads without events. Throws `StoreError`. Throws
 * `ArchiveError` if a head that may be the newest one is damaged or has an unknown key. A caller
 * with an older head, or none, would replace or delete the objects of that head.
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

/** Whether a head is of the current archive: its salt is not older than the last expiry. */
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

/** Names of the objects of one kind, in ascending order, without those at position 0. */
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

/** Name of the newest head of an archive, by its position; undefined if there is none. */
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

/** Names of the folders of a namespace: the UIDs of archives, and any other folder. */
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
 * Whether the archive has objects, but nothing in the folder `h` of its heads. An object there with
 * another name may be a head that was moved or restored.
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
