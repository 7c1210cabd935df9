import type { KubeClient } from '@conversation-operator/kube/client';
import { namespaces } from '@conversation-operator/kube/core';
import { found, isForbidden } from '@conversation-operator/kube/errors';
import { humanDuration } from '@conversation-operator/kube/object';
import { ArchiveError } from '../archive/layout.ts';
import { originOf, type ArchiveOrigin, type ArchiveWriter } from '../archive/installation.ts';
import { removeArchive } from '../archive/stored-archives.ts';
import {
  archivesIn,
  chosenOf,
  nameOf,
  stateOf,
  withStore,
  type Archive,
  type ArchiveAccess,
  type ArchiveSource,
} from './archive.ts';
import { agedMs } from './claims.ts';
import { withClient, type ClusterOptions } from './process.ts';
import { CommandError, textTable } from './terminal.ts';

/** An archive whose Conversation does not exist. */
export interface Orphan {
  readonly uid: string;
  /** Time since the last event of the archive; undefined if the event can not be read. */
  readonly ageMs: number | undefined;
  readonly origin: ArchiveOrigin;
}

export interface PruneSelection {
  /** UIDs of archives. Empty: all archives. */
  readonly names: readonly string[];
  readonly olderThanMs: number;
  /** Whether the command may delete archives in `names` that another installation has written. */
  readonly foreign: boolean;
}

/**
 * Decides about an orphan. The function is pure.
 *
 * - delete: the orphan is selected, and this installation has written it. If its age can not be
 *   read, `names` has to contain its UID.
 * - keep: the orphan is selected, but may belong to another installation, or its master key is
 *   lost. The command deletes it only if a person names its UID and sets `--foreign`.
 * - omit: the orphan is not selected.
 */
export function pruningOf(
  { uid, ageMs, origin }: Orphan,
  { names, olderThanMs, foreign }: PruneSelection,
): 'delete' | 'keep' | 'omit' {
  const isNamed = names.includes(uid);
  if (!isNamed && names.length > 0) return 'omit';
  if (ageMs !== undefined && ageMs < olderThanMs) return 'omit';
  if (origin === 'foreign') return isNamed && foreign ? 'delete' : 'keep';
  return isNamed || ageMs !== undefined ? 'delete' : 'omit';
}

/** Time of an event in milliseconds. Agents write UTC without a zone. Undefined: no valid time. */
export function timeOf(json: Buffer): number | undefined {
  const { timestamp } = JSON.parse(json.toString()) as { readonly timestamp?: unknown };
  const isLocal = typeof timestamp === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+$/.test(timestamp);
  const time = isLocal ? Date.parse(`${timestamp}Z`) : Number.NaN;
  return Number.isNaN(time) ? undefined : time;
}

/** Time of an archive's last event; undefined if that event is unreadable. Throws `StoreError`. */
export async function lastTimeOf(
  access: ArchiveAccess,
  archive: ArchiveSource,
): Promise<number | undefined> {
  try {
    const state = await stateOf(access, archive);
    const page = state && (await access.reader.search(state, { descending: true, limit: 1 }));
    const newest = page?.events[0]?.json;
    return newest === undefined ? undefined : timeOf(newest);
  } catch (error) {
    if (!(error instanceof ArchiveError) && !(error instanceof SyntaxError)) throw error;
    return undefined;
  }
}

export interface PruneArchivesOptions extends ClusterOptions {
  /** Without this option, the command deletes nothing. */
  readonly delete?: boolean;
  /** A duration such as 12h or 30d. */
  readonly olderThan: string;
  /** Whether to delete the archives in `names` even if another installation has written them. */
  readonly foreign?: boolean;
}

/** Lists the archives without a Conversation. With `--delete`, deletes these archives. */
export const pruneArchives = (
  names: readonly string[],
  { olderThan, delete: isToDelete = false, foreign = false, ...options }: PruneArchivesOptions,
  access: ArchiveAccess,
): Promise<void> => {
  if (foreign && names.length === 0)
    throw new CommandError('--foreign needs the UIDs of the archives');
  const selection = { names, olderThanMs: agedMs(olderThan), foreign };
  return withClient(options, (client, namespace) =>
    withStore(pruneIn(client, namespace, { access, selection, isToDelete })),
  );
};

async function pruneIn(
  client: KubeClient,
  namespace: string,
  {
    access,
    selection,
    isToDelete,
  }: {
    readonly access: ArchiveAccess;
    readonly selection: PruneSelection;
    readonly isToDelete: boolean;
  },
): Promise<void> {
  const { names } = selection;
  const all = await archivesIn(client, namespace, access.store);
  const chosen = chosenOf(all, names, namespace);
  const used = chosen.filter(({ conversation }) => conversation !== undefined);
  if (names.length > 0 && used.length > 0)
    throw new CommandError(`${used.map(nameOf).join(', ')} exists, and so does its archive`);
  if (names.length === 0) refuseForeign(all, namespace);
  const namespaceUid = await namespaceUidOf(client, namespace);
  const listed: (Orphan & {
    readonly writer: ArchiveWriter;
    readonly pruning: 'delete' | 'keep';
  })[] = [];
  let omitted = 0;
  for (const archive of chosen.filter(({ conversation }) => conversation === undefined)) {
    const writer = await access.writerOf(archive);
    const time = await lastTimeOf(access, archive);
    const orphan = {
      uid: archive.uid,
      ageMs: time === undefined ? undefined : Date.now() - time,
      origin: originOf(writer, { keys: access.keys, namespaceUid }),
    };
    const pruning = pruningOf(orphan, selection);
    if (pruning === 'omit') omitted += 1;
    else listed.push({ ...orphan, writer, pruning });
  }
  const prunable = listed.filter(({ pruning }) => pruning === 'delete');
  if (isToDelete)
    for (const { uid } of prunable) await removeArchive(access.store, { namespace, uid });
  const rows = listed.map(({ uid, ageMs, writer, origin, pruning }) => [
    ...[uid, ageMs === undefined ? 'unknown' : humanDuration(ageMs), writerText(writer, origin)],
    ...(isToDelete ? [pruning === 'delete' ? 'deleted' : 'kept'] : []),
  ]);
  const head = ['UID', 'LAST EVENT', 'WRITTEN BY', ...(isToDelete ? ['RESULT'] : [])];
  if (rows.length > 0) process.stdout.write(`${textTable([head, ...rows])}\n`);
  const kept = listed.length - prunable.length;
  if (kept > 0)
    process.stderr.write(
      `Not known as written by this installation: ${kept}. Such an archive is another installation's, or this one's under a master key that MASTER_KEY_FILES does not name. Only --delete with its UID and --foreign deletes it.\n`,
    );
  if (omitted > 0)
    process.stderr.write(
      `Left out: ${omitted}, whose last event is less than ${humanDuration(selection.olderThanMs)} ago, or can't be read.\n`,
    );
  if (prunable.length === 0) process.stderr.write('No archive is to be deleted.\n');
  else if (!isToDelete) {
    const these = prunable.length === 1 ? '1 archive is' : `${prunable.length} archives are`;
    process.stderr.write(`Nothing was deleted. With --delete, ${these}.\n`);
  }
}

function writerText(writer: ArchiveWriter, origin: ArchiveOrigin): string {
  if (origin === 'own') return 'this installation';
  if (writer.kind !== 'known') return writer.kind === 'headless' ? 'unknown: no head' : 'unknown';
  const { keyId, namespaceUid = 'unknown' } = writer;
  return `key ${keyId === '' ? 'unknown' : keyId}, namespace ${namespaceUid}`;
}

/** UID of the Namespace. Undefined: the person may not read it, and no archive counts as own. */
async function namespaceUidOf(client: KubeClient, namespace: string): Promise<string | undefined> {
  try {
    return (await found(client.get(namespaces, '', namespace)))?.metadata.uid;
  } catch (error) {
    if (isForbidden(error)) return undefined;
    throw error;
  }
}

/** Throws if no archive has a Conversation here, as the store may belong to another cluster. */
export function refuseForeign(archives: readonly Archive[], namespace: string): void {
  const stored = archives.filter(({ isStored }) => isStored);
  if (stored.length === 0 || stored.some(({ conversation }) => conversation !== undefined)) return;
  throw new CommandError(
    `no archive of the store belongs to a Conversation of namespace ${namespace}: name the archives where this is the right cluster`,
  );
}
