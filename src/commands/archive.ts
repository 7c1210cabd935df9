import { humanDuration } from '@conversation-operator/kube/human-duration';
import type { KubeClient } from '@conversation-operator/kube/client';
import { namespaces } from '@conversation-operator/kube/core';
import { found } from '@conversation-operator/kube/errors';
import type { ObjectStore } from '@conversation-operator/object-store/object-store';
import { StoreError } from '@conversation-operator/object-store/store-error';
import { idIn } from '../archive/agent-event.ts';
import type { ArchiveAddress, ArchiveState } from '../archive/address.ts';
import { ArchiveError, isGone } from '../archive/archive-error.ts';
import type { HistoryEvent, HistoryReader } from '../archive/history.ts';
import type { ArchiveWriter } from '../archive/installation.ts';
import { archivesOf, newestHead, removeArchive } from '../archive/removal.ts';
import { conversations, type Conversation } from '../resources/conversation.ts';
import { agedMs } from './claims.ts';
import { withClient, type ClusterOptions } from './cluster-client.ts';
import { CommandError } from './command-error.ts';
import { textTable } from './text-table.ts';

/** The archive that the settings of the environment name. */
export interface ArchiveAccess {
  readonly store: Pick<ObjectStore, 'list' | 'delete'>;
  readonly reader: Pick<HistoryReader, 'search' | 'all' | 'count' | 'newest'>;
  /** The installation that has written an archive. Throws `StoreError`. */
  readonly writerOf: (address: ArchiveAddress) => Promise<ArchiveWriter>;
}

/** A Conversation, as far as its archive is concerned. */
export interface ArchivedConversation extends ArchiveAddress {
  readonly name: string;
  /** `status.archive.head`. Undefined: nothing is archived. */
  readonly head: string | undefined;
  /** `status.archive.events`. Undefined: the status does not describe the head. */
  readonly events: number | undefined;
  /** `status.archive.expiredTime`. */
  readonly expiredTime: string | undefined;
}

/** An archive, and the Conversation that it belongs to. */
export interface Archive extends ArchiveAddress {
  /** Undefined: no Conversation has this UID. */
  readonly conversation: ArchivedConversation | undefined;
  /** Whether the store has an object of the archive. */
  readonly isStored: boolean;
}

export const archivedConversation = ({ metadata, status }: Conversation): ArchivedConversation => ({
  ...{ namespace: metadata.namespace, uid: metadata.uid, name: metadata.name },
  ...{ head: status?.archive?.head, events: status?.archive?.events ?? 0 },
  expiredTime: status?.archive?.expiredTime,
});

/**
 * The archives of a namespace, by UID, and the Conversations whose archive is not there. Archives
 * come first: a Conversation is older than its archive, so that none of these archives lacks a
 * Conversation that comes later.
 */
async function archivesIn(
  client: KubeClient,
  namespace: string,
  store: Pick<ObjectStore, 'list'>,
): Promise<readonly Archive[]> {
  const stored = new Set(await Array.fromAsync(archivesOf(store, namespace)));
  const { items } = await client.listMapped(conversations, archivedConversation, { namespace });
  const byUid = new Map(items.map((conversation) => [conversation.uid, conversation]));
  const named = items.filter(({ head }) => head !== undefined).map(({ uid }) => uid);
  return [...new Set([...stored, ...named])].sort().map((uid) => ({
    ...{ namespace, uid, conversation: byUid.get(uid), isStored: stored.has(uid) },
  }));
}

export type ArchiveSource = Omit<Archive, 'isStored'>;

/**
 * The state of an archive that its Conversation names; of an orphan, that of its newest head. For a
 * Conversation without a head, the newest state that belongs to it.
 */
export async function stateOf(
  { store, reader }: ArchiveAccess,
  { namespace, uid, conversation }: ArchiveSource,
): Promise<ArchiveState | undefined> {
  if (conversation !== undefined && conversation.head === undefined)
    return newestOf({ reader }, conversation);
  const head = conversation?.head ?? (await newestHead(store, { namespace, uid }));
  return head === undefined ? undefined : { namespace, uid, head };
}

/**
 * The same with the newest head in the store where the one that the Conversation names is gone: its
 * status is that of a backup.
 */
export async function presentStateOf(
  access: ArchiveAccess,
  archive: ArchiveSource,
): Promise<ArchiveState | undefined> {
  const state = await stateOf(access, archive);
  if (state === undefined || archive.conversation?.head === undefined) return state;
  try {
    await access.reader.count(state, {});
    return state;
  } catch (error) {
    if (!isGone(error)) throw error;
    return (await newestOf(access, archive.conversation)) ?? state;
  }
}

const newestOf = (
  { reader }: Pick<ArchiveAccess, 'reader'>,
  { namespace, uid, expiredTime }: ArchivedConversation,
): Promise<ArchiveState | undefined> => reader.newest({ namespace, uid }, expiredTime);

type Verdict =
  | 'intact'
  /** No Conversation has the archive. */
  | 'orphaned'
  /** The archive has no head. */
  | 'empty'
  | 'damaged';

export interface Verified {
  readonly verdict: Verdict;
  /** Number of events that were read. */
  readonly events: number;
  /** Cause of the damage, or the head that was read in place of another one; empty without one. */
  readonly detail: string;
  /** Whether an object that the head names, or the head itself, does not exist. */
  readonly isGone?: boolean;
}

/**
 * The first fault of events in the order of an archive: a gap, an id that came before, or JSON that
 * is not that of the event; undefined without one. Pure, but for the ids that it adds.
 */
export function faultOf(
  { id, position, json }: HistoryEvent,
  expected: { readonly position: number; readonly ids: Set<string> },
): string | undefined {
  if (position !== expected.position)
    return `event ${expected.position} is missing: event ${position} follows`;
  if (expected.ids.has(id)) return `event ${position} has the id of an earlier one`;
  expected.ids.add(id);
  return idIn(json) === id ? undefined : `event ${position} is not the JSON of its id`;
}

/** Reads every event of an archive. Throws `StoreError`. */
export async function verified(access: ArchiveAccess, archive: ArchiveSource): Promise<Verified> {
  const { conversation } = archive;
  const ids = new Set<string>();
  const damaged = (detail: string): Verified => ({
    ...{ verdict: 'damaged', events: ids.size, detail },
  });
  try {
    const state = await stateOf(access, archive);
    if (state === undefined) return { verdict: 'empty', events: 0, detail: '' };
    let position = 0;
    for await (const events of access.reader.all(state)) {
      for (const event of events) {
        const fault = faultOf(event, { position, ids });
        if (fault !== undefined) return damaged(fault);
        position += 1;
      }
    }
    const counted = conversation?.head === undefined ? undefined : conversation.events;
    if (counted !== undefined && position !== counted)
      return damaged(`the Conversation counts ${counted} events`);
    return {
      verdict: conversation === undefined ? 'orphaned' : 'intact',
      events: position,
      detail: '',
    };
  } catch (error) {
    if (error instanceof ArchiveError) return { ...damaged(error.message), isGone: isGone(error) };
    throw error;
  }
}

/**
 * The same for an archive that the operator may extend meanwhile: damage counts only where the
 * Conversation still names the head that was read. Where that one is gone, the newest head in the
 * store is read: the operator continues it.
 */
async function verifiedLive(
  access: ArchiveAccess,
  archive: Archive,
  client: KubeClient,
): Promise<Verified> {
  const result = await verified(access, archive);
  if (result.verdict !== 'damaged' || archive.conversation === undefined) return result;
  const now = await storedConversation(client, archive.namespace, archive.conversation.name);
  const isChanged = now?.uid === archive.uid && now.head !== archive.conversation.head;
  if (isChanged) return verified(access, { ...archive, conversation: now });
  const newest = result.isGone === true ? await newestOf(access, archive.conversation) : undefined;
  if (newest === undefined || newest.head === archive.conversation.head) return result;
  const { head } = newest;
  const conversation = { ...archive.conversation, head, events: undefined };
  const ofNewest = await verified(access, { ...archive, conversation });
  if (ofNewest.verdict !== 'intact') return ofNewest;
  const detail = `the Conversation names a head that does not exist; ${head} is the newest one`;
  return { ...ofNewest, detail };
}

async function storedConversation(client: KubeClient, namespace: string, name: string) {
  const stored = await found(client.get(conversations, namespace, name));
  return stored === undefined ? undefined : archivedConversation(stored);
}

/** The archives of these names, of Conversations or UIDs; without names all of them. */
function chosenOf(
  archives: readonly Archive[],
  names: readonly string[],
  namespace: string,
): readonly Archive[] {
  const isNamed = ({ uid, conversation }: Archive, name: string) =>
    uid === name || conversation?.name === name;
  const unknown = names.filter((name) => !archives.some((archive) => isNamed(archive, name)));
  if (unknown.length > 0)
    throw new CommandError(
      `there is no archive of ${unknown.join(', ')} in namespace ${namespace}`,
    );
  return names.length === 0
    ? archives
    : archives.filter((archive) => names.some((name) => isNamed(archive, name)));
}

const nameOf = ({ conversation }: Archive): string => conversation?.name ?? '';

/** Failures of the store are one line: the settings, the rights or the network are wrong. */
export async function withStore<R>(work: Promise<R>): Promise<R> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    throw new CommandError(`the store of the archive has failed: ${error.message}`, {
      cause: error,
    });
  }
}

/** Reads whole archives, and shows their state. The exit code is 1 where one is damaged. */
export const verifyArchives = (
  names: readonly string[],
  options: ClusterOptions,
  access: ArchiveAccess,
): Promise<void> =>
  withClient(options, (client, namespace) =>
    withStore(verifyIn(client, namespace, { names, access })),
  );

async function verifyIn(
  client: KubeClient,
  namespace: string,
  { names, access }: { readonly names: readonly string[]; readonly access: ArchiveAccess },
): Promise<void> {
  const chosen = chosenOf(await archivesIn(client, namespace, access.store), names, namespace);
  const rows: (readonly string[])[] = [];
  for (const archive of chosen) {
    const { verdict, events, detail } = await verifiedLive(access, archive, client);
    rows.push([nameOf(archive), archive.uid, verdict, String(events), detail]);
    if (verdict === 'damaged') process.exitCode = 1;
  }
  if (rows.length === 0) process.stderr.write('There are no archives.\n');
  else
    process.stdout.write(
      `${textTable([['CONVERSATION', 'UID', 'STATE', 'EVENTS', 'DETAIL'], ...rows])}\n`,
    );
}

/** An archive without a Conversation. */
export interface Orphan extends ArchiveAddress {
  /** Time since its last event; undefined where that can't be read. */
  readonly ageMs: number | undefined;
}

export interface PruneSelection {
  /** UIDs. Empty: all of them. */
  readonly names: readonly string[];
  readonly olderThanMs: number;
}

/** Whether an orphan may be deleted, and was asked for. One that can't be read is named. Pure. */
export const isPrunable = ({ uid, ageMs }: Orphan, { names, olderThanMs }: PruneSelection) =>
  names.length === 0
    ? ageMs !== undefined && ageMs >= olderThanMs
    : names.includes(uid) && (ageMs === undefined || ageMs >= olderThanMs);

/** The time of an event, which agents state in UTC without a zone; undefined without one. */
export function timeOf(json: Buffer): number | undefined {
  const { timestamp } = JSON.parse(json.toString()) as { readonly timestamp?: unknown };
  const isLocal = typeof timestamp === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]+$/.test(timestamp);
  const time = isLocal ? Date.parse(`${timestamp}Z`) : Number.NaN;
  return Number.isNaN(time) ? undefined : time;
}

/** Throws `StoreError`. */
export async function orphanOf(
  access: ArchiveAccess,
  archive: ArchiveSource,
  nowMs: number,
): Promise<Orphan> {
  const { namespace, uid } = archive;
  try {
    const state = await stateOf(access, archive);
    const page = state && (await access.reader.search(state, { descending: true, limit: 1 }));
    const newest = page?.events[0]?.json;
    const time = newest === undefined ? undefined : timeOf(newest);
    return { namespace, uid, ageMs: time === undefined ? undefined : nowMs - time };
  } catch (error) {
    if (!(error instanceof ArchiveError) && !(error instanceof SyntaxError)) throw error;
    return { namespace, uid, ageMs: undefined };
  }
}

export interface PruneArchivesOptions extends ClusterOptions {
  /** Without it nothing is deleted. */
  readonly delete?: boolean;
  /** A duration like 12h or 30d. */
  readonly olderThan: string;
}

/** Shows the archives without a Conversation; with `--delete` the command deletes them. */
export const pruneArchives = (
  names: readonly string[],
  { olderThan, delete: isToDelete = false, ...options }: PruneArchivesOptions,
  access: ArchiveAccess,
): Promise<void> => {
  const selection = { names, olderThanMs: agedMs(olderThan) };
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
  const orphaned = chosen.filter(({ conversation }) => conversation === undefined);
  if (names.length === 0) refuseForeign(all, namespace);
  // A person who names an archive knows whose it is.
  const own =
    names.length > 0 || orphaned.length === 0
      ? orphaned
      : await withoutForeign(orphaned, access, await namespaceUidOf(client, namespace));
  if (own.length < orphaned.length)
    process.stderr.write(
      `Archives of other installations are left out: ${orphaned.length - own.length}.\n`,
    );
  const orphans: Orphan[] = [];
  for (const archive of own) orphans.push(await orphanOf(access, archive, Date.now()));
  const prunable = orphans.filter((orphan) => isPrunable(orphan, selection));
  if (prunable.length === 0) {
    process.stderr.write('No archive is to be deleted.\n');
    return;
  }
  if (isToDelete) for (const orphan of prunable) await removeArchive(access.store, orphan);
  const rows = prunable.map(({ uid, ageMs }) => [
    ...[uid, ageMs === undefined ? 'unknown' : humanDuration(ageMs)],
    ...(isToDelete ? ['deleted'] : []),
  ]);
  const head = ['UID', 'LAST EVENT', ...(isToDelete ? ['RESULT'] : [])];
  process.stdout.write(`${textTable([head, ...rows])}\n`);
  if (isToDelete) return;
  const these = prunable.length === 1 ? 'this archive is' : `these ${prunable.length} archives are`;
  process.stderr.write(`Nothing was deleted. With --delete, ${these}.\n`);
}

async function namespaceUidOf(client: KubeClient, namespace: string): Promise<string | undefined> {
  return (await found(client.get(namespaces, '', namespace)))?.metadata.uid;
}

/**
 * Without the archives that an installation of another namespace has written, such as that of a
 * copy of the cluster. Throws `StoreError`.
 */
export async function withoutForeign(
  archives: readonly Archive[],
  { writerOf }: Pick<ArchiveAccess, 'writerOf'>,
  namespaceUid: string | undefined,
): Promise<readonly Archive[]> {
  const own: Archive[] = [];
  for (const archive of archives) {
    const writer = await writerOf(archive);
    const installation = writer.kind === 'known' ? writer.installation : undefined;
    if (installation === undefined || installation.namespaceUid === namespaceUid) own.push(archive);
  }
  return own;
}

/** Refuses a store none of whose archives is of this cluster: it may be that of another one. */
export function refuseForeign(archives: readonly Archive[], namespace: string): void {
  const stored = archives.filter(({ isStored }) => isStored);
  if (stored.length === 0 || stored.some(({ conversation }) => conversation !== undefined)) return;
  throw new CommandError(
    `no archive of the store belongs to a Conversation of namespace ${namespace}: name the archives where this is the right cluster`,
  );
}
