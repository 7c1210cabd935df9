import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { Readable, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { found } from '@conversation-operator/kube/errors';
import { ArchiveError } from '../archive/layout.ts';
import { exportedHistory } from '../archive/export.ts';
import type { HistoryEvent } from '../archive/history.ts';
import { textOf } from '../archive/segment-builder.ts';
import { conversations, type Conversation } from '../resources/conversation.ts';
import { conversationIdOf } from '../resources/ids.ts';
import {
  archivedConversation,
  presentStateOf,
  withStore,
  type ArchiveAccess,
  type ArchiveSource,
} from './archive.ts';
import { withClient, type ClusterOptions } from './process.ts';
import { CommandError } from './terminal.ts';

export interface ExportOptions extends ClusterOptions {
  /** File for the events: a ZIP file if the name ends in `.zip`. Default: JSON lines on stdout. */
  readonly output?: string;
}

/** Writes all events of an archive. A file gets its name `output` only when it is complete. */
export const exportArchive = (
  name: string,
  { output, ...options }: ExportOptions,
  access: ArchiveAccess,
): Promise<void> =>
  withClient(options, async (client, namespace) => {
    const stored = await found(client.get(conversations, namespace, name));
    const archive: ArchiveSource =
      stored === undefined
        ? { namespace, uid: name, conversation: undefined }
        : { namespace, uid: stored.metadata.uid, conversation: archivedConversation(stored) };
    await withStore(
      writeArchive(access, archive, { name, output, record: recordOf(name, stored) }),
    );
  });

const recordOf = (name: string, stored: Conversation | undefined): object =>
  stored === undefined
    ? { archive: name }
    : {
        id: conversationIdOf(stored),
        created_by_user_id: stored.spec.owner,
        title: stored.spec.title ?? stored.status?.title ?? null,
        selected_repository: stored.spec.repository?.name ?? null,
        selected_branch: stored.spec.repository?.branch ?? null,
        created_at: stored.metadata.creationTimestamp,
      };

async function writeArchive(
  access: ArchiveAccess,
  archive: ArchiveSource,
  {
    name,
    output,
    record,
  }: { readonly name: string; readonly output: string | undefined; readonly record: object },
): Promise<void> {
  try {
    const state = await presentStateOf(access, archive);
    if (state === undefined) throw new CommandError(`nothing is archived of ${name}`);
    const events = access.reader.all(state);
    if (output === undefined) await writeTo(process.stdout, linesOf(events));
    else if (output.endsWith('.zip'))
      await writeFile(output, exportedHistory(events, { record, time: Date.now() }));
    else await writeFile(output, linesOf(events));
  } catch (error) {
    if (!(error instanceof ArchiveError)) throw error;
    throw new CommandError(`the archive of ${name} is damaged: ${error.message}`, { cause: error });
  }
}

async function* linesOf(
  parts: AsyncIterable<readonly HistoryEvent[]>,
): AsyncGenerator<Buffer, void, undefined> {
  for await (const events of parts) yield textOf(events.map(({ json }) => json));
}

async function writeTo(stream: Writable, chunks: AsyncIterable<Buffer>): Promise<void> {
  for await (const chunk of chunks) if (!stream.write(chunk)) await once(stream, 'drain');
}

async function writeFile(path: string, chunks: AsyncIterable<Buffer>): Promise<void> {
  const partial = `${path}.part`;
  try {
    await pipeline(Readable.from(chunks), createWriteStream(partial, { flush: true, mode: 0o600 }));
    await rename(partial, path);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
}
