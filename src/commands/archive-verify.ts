import type { KubeClient } from '@conversation-operator/kube/client';
import { found } from '@conversation-operator/kube/errors';
import { type ArchiveState, ArchiveError, isGone } from '../archive/layout.ts';
import { idIn } from '../archive/agent-event.ts';
import type { HistoryEvent } from '../archive/history.ts';
import { conversations } from '../resources/conversation.ts';
import {
  archivedConversation,
  archivesIn,
  chosenOf,
  nameOf,
  newestOf,
  stateOf,
  withStore,
  type Archive,
  type ArchiveAccess,
  type ArchiveSource,
} from './archive.ts';
import { withClient, type ClusterOptions } from './process.ts';
import { textTable } from './terminal.ts';

type Verdict = 'intact' | 'orphaned' | 'empty' | 'damaged';

export interface Verified {
  readonly verdict: Verdict;
  readonly events: number;
  /** Cause of the damage, or a note that a newer head replaced a missing head. Empty: neither. */
  readonly detail: string;
  /** Whether the head, or an object that the head names, does not exist. */
  readonly isGone?: boolean;
}

/**
 * Checks the next event of an archive. Returns its fault: an earlier event is missing, the id is
 * repeated, or the JSON has another id. Undefined: no fault. Adds the id to `expected.ids`.
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

/** Reads all events of an archive. Throws `StoreError`. */
export async function verified(access: ArchiveAccess, archive: ArchiveSource): Promise<Verified> {
  const { conversation } = archive;
  const ids = new Set<string>();
  const damaged = (detail: string): Verified => ({ verdict: 'damaged', events: ids.size, detail });
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
 * Calls `verified`. The operator may extend the archive meanwhile, so damage counts only if the
 * Conversation still names the same head. If that head does not exist, the newest head in the store
 * is read, because the operator continues from there.
 */
async function verifiedLive(
  access: ArchiveAccess,
  archive: Archive,
  client: KubeClient,
): Promise<Verified> {
  const result = await verified(access, archive);
  if (result.verdict !== 'damaged' || archive.conversation === undefined) return result;
  const stored = await found(
    client.get(conversations, archive.namespace, archive.conversation.name),
  );
  const now = stored === undefined ? undefined : archivedConversation(stored);
  const isChanged = now?.uid === archive.uid && now.head !== archive.conversation.head;
  if (isChanged) return verified(access, { ...archive, conversation: now });
  let newest: ArchiveState | undefined;
  try {
    if (result.isGone === true) newest = await newestOf(access, archive.conversation);
  } catch (error) {
    if (!(error instanceof ArchiveError)) throw error;
    return { ...result, detail: error.message };
  }
  if (newest === undefined || newest.head === archive.conversation.head) return result;
  const { head } = newest;
  const conversation = { ...archive.conversation, head, events: undefined };
  const ofNewest = await verified(access, { ...archive, conversation });
  if (ofNewest.verdict !== 'intact') return ofNewest;
  const detail = `the Conversation names a head that does not exist; ${head} is the newest one`;
  return { ...ofNewest, detail };
}

/** Reads whole archives and prints their states. The exit code is 1 if one is damaged. */
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
