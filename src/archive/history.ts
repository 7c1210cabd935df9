import type { ArchiveAddress, ArchiveState } from './layout.ts';
import type { TextQuery } from './text-fold.ts';
import type { WorkspaceSnapshot } from './workspace-snapshot.ts';

export interface HistoryFilter {
  readonly kind?: string | undefined;
  /** Only events with `from` <= timestamp < `before`: RFC 3339, agent's local time, no zone. */
  readonly from?: string | undefined;
  readonly before?: string | undefined;
}

export interface HistoryQuery extends HistoryFilter {
  /** Whether the newest events come first. */
  readonly descending: boolean;
  /**
   * `nextPageId` of an earlier page, or the id of an event. An unknown id counts as an event after
   * the archived events: the page is then empty, or with `descending` the first page.
   */
  readonly pageId?: string | undefined;
  /** 1 to 100. */
  readonly limit: number;
}

export interface HistoryEvent {
  readonly id: string;
  /** Number of events before this one. */
  readonly position: number;
  /** JSON of the agent in UTF-8, in one line. */
  readonly json: Buffer;
}

export interface HistoryPage {
  /** At most `limit` events; fewer if the page would have too many bytes. */
  readonly events: readonly HistoryEvent[];
  /** Null if there are no further events. */
  readonly nextPageId: string | null;
}

export interface FoundEvent {
  readonly id: string;
  /** Number of events before this one. */
  readonly position: number;
  readonly kind: string;
  /** Local time of the agent. */
  readonly timestamp: string | undefined;
  /** One line around the first match in the event's texts, with `…` at a truncated end. */
  readonly snippet: string;
}

export interface FoundPart {
  /** All events from this position on have been searched. */
  readonly from: number;
  /** Newest first. */
  readonly found: readonly FoundEvent[];
}

/**
 * Reads archives. Every method can throw `StoreError` and `ArchiveError`. The code `gone` means
 * that the head was replaced or the archive deleted; `damaged` means that an object is damaged.
 */
export interface HistoryReader {
  /** A page in the order of the agent's log, or with `descending` in reverse order. */
  search(state: ArchiveState, query: HistoryQuery, signal?: AbortSignal): Promise<HistoryPage>;
  count(state: ArchiveState, filter: HistoryFilter, signal?: AbortSignal): Promise<number>;
  /** Events with these ids, in any order; ignores unknown ids. Holds one frame in memory. */
  byIds(
    state: ArchiveState,
    ids: readonly string[],
    signal?: AbortSignal,
  ): AsyncIterable<HistoryEvent>;
  /**
   * All events from position `from` on, in parts of about 100, oldest first. Throws `damaged` for a
   * damaged object, and if the number of events differs from that in the head.
   */
  all(
    state: ArchiveState,
    from?: number,
    signal?: AbortSignal,
  ): AsyncIterable<readonly HistoryEvent[]>;
  /**
   * Searches the texts of the events before a position, newest first. Each part takes some
   * milliseconds, and the caller may stop after each part.
   */
  find(
    state: ArchiveState,
    query: TextQuery,
    before: number,
    signal?: AbortSignal,
  ): AsyncIterable<FoundPart>;
  /**
   * Finds the newest state in the store, if the head that the Conversation names does not exist.
   * @param expiredTime `status.archive.expiredTime`. Archives from before this time are ignored.
   */
  newest(
    address: ArchiveAddress,
    expiredTime: string | undefined,
    signal?: AbortSignal,
  ): Promise<ArchiveState | undefined>;
  /** Files of the sandbox at its last pause; undefined without a snapshot. */
  files(state: ArchiveState, signal?: AbortSignal): Promise<WorkspaceSnapshot | undefined>;
}
