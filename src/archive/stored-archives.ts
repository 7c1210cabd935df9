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
 * The newest state of an archive, as the store has it: for a Conversation that names no head, or
 * one that does not exist, because a backup of the cluster was restored. Undefined: there is none.
 * A head that the status names comes first wherever it exists: the store may have another one that
 * no status has named yet.
 *
 * The archive of before `expiredTime` (`status.archive.expiredTime`) is never found: its deletion
 * may have left objects. Heads without events are left out. Throws `StoreError`, and `ArchiveError`
 * where a head that may be the newest one is damaged or has an unknown key: that head is not
 * absent, and a caller that took an older one, or none, would replace or delete what it names.
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
      // The name of a snapshot does not say to which archive it belongs.
      const files =
        expiredTime === undefined
          ? (await namesOf(objects, address, 'f', signal)).at(-1)
          : undefined;
      return { ...address, head, ...(files === undefined ? {} : { files }) };
    }
  return undefined;
}

/** Whether a head is of the present archive, by its salt: the time of the last expiry. */
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

/** The names of the objects of a kind that are behind an event, in ascending order. */
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

/** The newest head of an archive, by the position in its name; undefined where there is none. */
export async function newestHead(
  store: Listing,
  address: ArchiveAddress,
  signal?: AbortSignal,
): Promise<string | undefined> {
  const prefix = `${folderOf(address)}h/`;
  let newest: string | undefined;
  // Names sort as their positions do.
  for await (const keys of keysOf(store, prefix, signal))
    for (const key of keys) {
      const name = key.slice(prefix.length);
      if (positionOf(name) !== undefined) newest = name;
    }
  return newest;
}

/** The folders of a namespace: UIDs of its archives, and what else there is. */
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
 * Whether there are objects of the archive, and nothing at all in the place of its heads: an object
 * there that has another name may be a head that was moved or restored.
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
 * Deletes all objects of an archive, and the heads as the last ones: they say whose archive it is
 * for as long as anything of it is left. Returns whether there were any.
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
