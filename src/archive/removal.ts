import type { ObjectStore } from '@conversation-operator/object-store/object-store';
import type { ArchiveAddress } from './address.ts';
import { folderOf } from './layout.ts';

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

/** The UIDs of the archives of a namespace. */
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

/** Deletes all objects of an archive. Returns whether there were any. */
export async function removeArchive(
  store: Pick<ObjectStore, 'list' | 'delete'>,
  address: ArchiveAddress,
  signal?: AbortSignal,
): Promise<boolean> {
  let found = false;
  for await (const keys of keysOf(store, folderOf(address), signal)) {
    found ||= keys.length > 0;
    await store.delete(keys, { signal });
  }
  return found;
}
