import type { KubeClient } from '@conversation-operator/kube/client';
import type { ObjectStore } from '@conversation-operator/object-store/object-store';
import { StoreError } from '@conversation-operator/object-store/store-error';
import type { SandboxKeys } from '../agent/keys.ts';
import { type ArchiveAddress, type ArchiveState, isGone } from '../archive/layout.ts';
import type { HistoryReader } from '../archive/history.ts';
import type { ArchiveWriter } from '../archive/installation.ts';
import { archivesOf, newestHead } from '../archive/stored-archives.ts';
import { conversations, type Conversation } from '../resources/conversation.ts';
import { CommandError } from './terminal.ts';

/** The archive that the settings of the environment name. */
export interface ArchiveAccess {
  readonly store: Pick<ObjectStore, 'list' | 'delete'>;
  readonly reader: Pick<HistoryReader, 'search' | 'all' | 'count' | 'newest'>;
  /** The writer of the newest head of an archive. Throws `StoreError`. */
  readonly writerOf: (address: ArchiveAddress) => Promise<ArchiveWriter>;
  /** The master keys of the settings. */
  readonly keys: Pick<SandboxKeys, 'knows'>;
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
export async function archivesIn(
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
 * Conversation without a head, the newest state that belongs to it. Throws `StoreError`, and
 * `ArchiveError` where that one can't be read.
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
 * status is that of a backup. Throws `StoreError`, and `ArchiveError` where the newest head can't
 * be read.
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

/** Throws `StoreError`, and `ArchiveError` where the newest head can't be read. */
export const newestOf = (
  { reader }: Pick<ArchiveAccess, 'reader'>,
  { namespace, uid, expiredTime }: ArchivedConversation,
): Promise<ArchiveState | undefined> => reader.newest({ namespace, uid }, expiredTime);

/** The archives of these names, of Conversations or UIDs; without names all of them. */
export function chosenOf(
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

export const nameOf = ({ conversation }: Archive): string => conversation?.name ?? '';

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
