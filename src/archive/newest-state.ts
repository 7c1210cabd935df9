import type { ArchiveAddress, ArchiveState } from './address.ts';
import { folderOf, keyOf, positionOf, type ArchiveObjectKind } from './layout.ts';
import { unpackHead } from './manifest.ts';
import type { ArchiveObjects } from './open-archive.ts';
import { keysOf } from './removal.ts';

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

/** Whether a head belongs to the present archive, by its salt: the time at which the last expired. */
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
