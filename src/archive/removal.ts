import type { ObjectStore } from '@conversation-operator/object-store/object-store';
import type { ArchiveAddress } from './address.ts';
import { folderOf, isObjectOf, positionOf } from './layout.ts';

type Listing = Pick<ObjectStore, 'list'>;

/** The keys of objects that begin with a text. */
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
