import { posix } from 'node:path';
import { z } from 'zod';
import { type ArchiveAddress, ArchiveError, hashOf, keyOf, nameOf } from './layout.ts';
import type { ArchiveObjects } from './open-archive.ts';

const change = z.object({
  status: z.enum(['MOVED', 'ADDED', 'DELETED', 'UPDATED']),
  path: z.string(),
});
const diff = z.object({ modified: z.string().nullable(), original: z.string().nullable() });

/** The folder of a conversation when its sandbox stopped. All paths are relative to the folder. */
export const workspaceSnapshotSchema = z.object({
  version: z.literal(1),
  workingDir: z.string().startsWith('/'),
  takenAt: z.iso.datetime(),
  files: z.array(z.string()),
  /** Whether names are missing, because the agent had too many or did not show its files. */
  filesTruncated: z.boolean(),
  changes: z.array(change),
  diffs: z.record(z.string(), diff),
  /** Whether changes or diffs are missing, because the agent had too many or did not show all. */
  diffsTruncated: z.boolean(),
});
export type WorkspaceSnapshot = z.output<typeof workspaceSnapshotSchema>;
export type SnapshotChange = z.output<typeof change>;
export type SnapshotDiff = z.output<typeof diff>;

const noDiff: SnapshotDiff = { modified: null, original: null };

/** Names of the files below `path`, relative to `path`. */
export const snapshotFiles = (snapshot: WorkspaceSnapshot, path: string): readonly string[] =>
  below(
    snapshot,
    path,
    snapshot.files,
    (name) => name,
    (_name, inside) => inside,
  );

/** The changes below `path`, with paths relative to `path`. */
export const snapshotChanges = (
  snapshot: WorkspaceSnapshot,
  path: string,
): readonly SnapshotChange[] =>
  below(
    snapshot,
    path,
    snapshot.changes,
    (each) => each.path,
    ({ status }, inside) => ({ status, path: inside }),
  );

/** The diff of a file; both versions are null if the snapshot has no diff. */
export const snapshotDiff = (snapshot: WorkspaceSnapshot, path: string): SnapshotDiff =>
  keptDiff(snapshot, path) ?? noDiff;

/** The content of a file with a diff. The snapshot has no content of other files: returns ''. */
export const snapshotFile = (snapshot: WorkspaceSnapshot, path: string): string =>
  keptDiff(snapshot, path)?.modified ?? '';

function keptDiff(
  { workingDir, diffs }: WorkspaceSnapshot,
  path: string,
): SnapshotDiff | undefined {
  const name = relativeTo(workingDir, path);
  return name !== undefined && Object.hasOwn(diffs, name) ? diffs[name] : undefined;
}

/** Relative path within the folder, '' for the folder itself; undefined for a path outside. */
function relativeTo(folder: string, path: string): string | undefined {
  const name = posix.relative(folder, path);
  return name === '..' || name.startsWith('../') ? undefined : name;
}

function below<T, R>(
  { workingDir }: WorkspaceSnapshot,
  path: string,
  items: readonly T[],
  nameOf: (item: T) => string,
  withName: (item: T, name: string) => R,
): readonly R[] {
  const folder = relativeTo(workingDir, path);
  if (folder === undefined) return [];
  const start = folder === '' ? '' : `${folder}/`;
  return items
    .filter((item) => nameOf(item).startsWith(start))
    .map((item) => withName(item, nameOf(item).slice(start.length)));
}

const place = 'files';

/**
 * Stores a snapshot of files and returns the name of its object. Throws `StoreError`.
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
    /** Number of archived events. This number orders the snapshots of a conversation. */
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

/** Reads a snapshot. Throws `StoreError`, and `ArchiveError` if it does not exist or is damaged. */
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
