import { open, readFile, truncate } from 'node:fs/promises';
import { randomUUID } from 'node:crypto';
import { eventTime, microsecondsOf, type AgentEvent, type EventBody } from './events.ts';

/** Metadata of an event in memory. The event itself is read from the file on request. */
export interface LogEntry {
  readonly id: string;
  readonly kind: AgentEvent['kind'];
  readonly source: AgentEvent['source'];
  readonly timestamp: string;
  readonly toolCallId: string | undefined;
  readonly toolName: string | undefined;
  readonly offset: number;
  readonly length: number;
}

export interface Draft {
  readonly event: EventBody;
  /** Default: a random id. */
  readonly id?: string;
  /** Position in the log before which all user messages are handled. Clients never get it. */
  readonly handledThrough?: number;
}

interface Line {
  readonly event: AgentEvent;
  readonly handledThrough?: number;
}

type Listener = (events: readonly AgentEvent[]) => void;

export function initialLog(drafts: readonly Draft[]): string {
  return render(drafts, { lastMicroseconds: 0, lastId: undefined }).text;
}

/**
 * Events of a conversation, the only record of its state, in an append-only file of JSON lines.
 * Each append reaches the disk before any listener gets the events. `open` drops a last line that a
 * crash has truncated.
 */
export class EventLog {
  readonly #path: string;
  readonly #entries: LogEntry[] = [];
  readonly #positions = new Map<string, number>();
  readonly #listeners = new Set<Listener>();
  #apply: (event: AgentEvent) => void = () => undefined;
  #sizeBytes = 0;
  #lastMicroseconds = 0;
  #handledThrough = 0;
  #tail: Promise<unknown> = Promise.resolve();

  private constructor(path: string) {
    this.#path = path;
  }

  /**
   * Opens the log. `apply` gets every event of the file, and then every new event before listeners
   * get it and before `append` calls the next `decide`.
   */
  static async open(path: string, apply: (event: AgentEvent) => void): Promise<EventLog> {
    const log = new EventLog(path);
    log.#apply = apply;
    const content = await readFile(path);
    let start = 0;
    for (let end = content.indexOf(10); end !== -1; end = content.indexOf(10, start)) {
      const line = JSON.parse(content.toString('utf8', start, end)) as Line;
      log.#remember(line, end + 1 - start);
      start = end + 1;
    }
    if (start < content.length) await truncate(path, start);
    return log;
  }

  get entries(): readonly LogEntry[] {
    return this.#entries;
  }

  get handledThrough(): number {
    return this.#handledThrough;
  }

  get last(): LogEntry | undefined {
    return this.#entries.at(-1);
  }

  positionOf(id: string): number | undefined {
    return this.#positions.get(id);
  }

  /**
   * Appends all drafts of `decide`, or none. The log calls `decide` when all earlier appends are
   * complete, so `decide` can rely on the current state. Throws when the file cannot be written;
   * the log then remains unchanged.
   */
  append(decide: () => readonly Draft[]): Promise<readonly AgentEvent[]> {
    const result = this.#tail.then(() => this.#write(decide()));
    this.#tail = result.catch(() => undefined);
    return result;
  }

  /** Resolves when all requested appends have reached the disk. */
  async settled(): Promise<void> {
    await this.#tail;
  }

  async read(entries: readonly LogEntry[]): Promise<readonly AgentEvent[]> {
    if (entries.length === 0) return [];
    const handle = await open(this.#path, 'r');
    try {
      const events: AgentEvent[] = [];
      for (const { offset, length } of entries) {
        const { buffer, bytesRead } = await handle.read(Buffer.alloc(length), 0, length, offset);
        events.push((JSON.parse(buffer.toString('utf8', 0, bytesRead)) as Line).event);
      }
      return events;
    } finally {
      await handle.close();
    }
  }

  /** Calls the listener with new stored events, in order. The returned function removes it. */
  subscribe(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async #write(drafts: readonly Draft[]): Promise<readonly AgentEvent[]> {
    if (drafts.length === 0) return [];
    const { text, lines, lengths } = render(drafts, {
      lastMicroseconds: this.#lastMicroseconds,
      lastId: this.last?.id,
    });
    const handle = await open(this.#path, 'r+');
    try {
      await handle.write(text, this.#sizeBytes, 'utf8');
      await handle.datasync();
    } catch (error) {
      // Removes incomplete lines, which a restart before the next append would read.
      await handle.truncate(this.#sizeBytes).catch(() => undefined);
      throw error;
    } finally {
      await handle.close();
    }
    lines.forEach((line, index) => this.#remember(line, lengths[index] ?? 0));
    const events = lines.map(({ event }) => event);
    for (const listener of this.#listeners) listener(events);
    return events;
  }

  #remember({ event, handledThrough }: Line, length: number): void {
    const { id, kind, source, timestamp } = event;
    this.#positions.set(id, this.#entries.length);
    this.#entries.push({
      id,
      kind,
      source,
      timestamp,
      toolCallId: 'tool_call_id' in event ? event.tool_call_id : undefined,
      toolName: 'tool_name' in event ? event.tool_name : undefined,
      offset: this.#sizeBytes,
      length,
    });
    this.#sizeBytes += length;
    this.#lastMicroseconds = microsecondsOf(timestamp);
    if (handledThrough !== undefined) this.#handledThrough = handledThrough;
    this.#apply(event);
  }
}

/** Renders drafts as lines. Timestamps always increase, so they sort events in the log's order. */
function render(
  drafts: readonly Draft[],
  after: { readonly lastMicroseconds: number; readonly lastId: string | undefined },
) {
  let { lastMicroseconds, lastId } = after;
  const lines = drafts.map(({ event, id = randomUUID(), handledThrough }): Line => {
    lastMicroseconds = Math.max(Date.now() * 1000, lastMicroseconds + 1);
    const head = {
      id,
      timestamp: eventTime(lastMicroseconds),
      ...(lastId === undefined ? {} : { parent_id: lastId }),
    };
    lastId = id;
    return {
      event: { ...head, ...event },
      ...(handledThrough === undefined ? {} : { handledThrough }),
    };
  });
  const texts = lines.map((line) => `${JSON.stringify(line)}\n`);
  return { lines, text: texts.join(''), lengths: texts.map((text) => Buffer.byteLength(text)) };
}
