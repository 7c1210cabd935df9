import type { ArchiveAddress } from './address.ts';
import { ArchiveError } from './archive-error.ts';
import { hashOf, keyOf, nameOf } from './layout.ts';
import type { ArchiveObjects } from './open-archive.ts';
import { workspaceSnapshotSchema, type WorkspaceSnapshot } from './workspace-snapshot.ts';

const place = 'files';

/**
 * Stores a snapshot of files, and returns the name of its object. Throws `StoreError`.
 * @param hide Removes secrets from the JSON.
 */
export async function storeSnapshot(
  { store, codec }: ArchiveObjects,
  address: ArchiveAddress,
  snapshot: WorkspaceSnapshot,
  {
    events,
    hide,
    signal,
  }: {
    /** Number of archived events, which orders the snapshots of a conversation. */
    readonly events: number;
    readonly hide: (text: Buffer) => Buffer;
    readonly signal: AbortSignal;
  },
): Promise<string> {
  const json = hide(Buffer.from(JSON.stringify(snapshot)));
  const name = nameOf(events, hashOf(json));
  await store.put(keyOf(address, 'f', name), codec.pack(address, place, json), { signal });
  return name;
}

/** Throws `StoreError`, and `ArchiveError` where the snapshot is gone or damaged. */
export async function readSnapshot(
  { store, codec }: ArchiveObjects,
  address: ArchiveAddress,
  name: string,
  signal?: AbortSignal,
): Promise<WorkspaceSnapshot> {
  const packed = await store.get(keyOf(address, 'f', name), { signal });
  const what = `The snapshot ${name} of the archive ${address.uid}`;
  if (packed === undefined) throw new ArchiveError('gone', `${what} does not exist.`);
  const text = codec.unpack(address, place, packed).toString();
  const snapshot = workspaceSnapshotSchema.safeParse(parse(text)).data;
  if (snapshot === undefined) throw new ArchiveError('damaged', `${what} is damaged.`);
  return snapshot;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
