import type { z } from 'zod';
import { conversationSchema } from '../../../src/gateway/presenters/conversation.ts';
import { quotaSchema } from '../../../src/gateway/quota/quota-record.ts';
import { sandboxSchema } from '../../../src/gateway/presenters/sandbox.ts';
import { startTaskSchema } from '../../../src/gateway/presenters/start-task.ts';
import {
  closedSchema,
  removedSchema,
  snapshotSchema,
} from '../../../src/gateway/stream/stream-events.ts';

export interface SentEvent {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: unknown;
}

/** Nothing undocumented is sent: parsing drops what a schema does not know. */
function strictly<T extends z.ZodType>(schema: T, data: unknown): z.output<T> {
  const parsed = schema.parse(data);
  expect(parsed).toEqual(data);
  return parsed;
}

/**
 * A client of the stream, which follows what the documents say: the first snapshot of a connection
 * replaces everything, further parts and events change it.
 */
export class StreamState {
  readonly events: SentEvent[] = [];
  readonly conversations = new Map<string, z.output<typeof conversationSchema>>();
  readonly startTasks = new Map<string, z.output<typeof startTaskSchema>>();
  readonly sandboxes = new Map<string, z.output<typeof sandboxSchema>>();
  quota: unknown;
  closed: string | undefined;
  comments = 0;
  snapshots = 0;
  #rest = '';
  #isReplacing = true;

  /** Begins a connection. The rest of a connection before is lost. */
  connect(): void {
    this.#rest = '';
    this.#isReplacing = true;
    this.closed = undefined;
  }

  read(text: string): void {
    const blocks = (this.#rest + text).split('\n\n');
    this.#rest = blocks.pop() ?? '';
    for (const block of blocks) this.#readBlock(block);
  }

  get contents() {
    const of = (records: ReadonlyMap<string, unknown>) =>
      Object.fromEntries([...records].sort(([one], [other]) => (one < other ? -1 : 1)));
    return {
      conversations: of(this.conversations),
      startTasks: of(this.startTasks),
      sandboxes: of(this.sandboxes),
      quota: this.quota,
    };
  }

  #readBlock(block: string): void {
    if (block.startsWith(':')) {
      this.comments += 1;
      return;
    }
    const fields = new Map(
      block.split('\n').map((line) => {
        const at = line.indexOf(': ');
        return [line.slice(0, at), line.slice(at + 2)];
      }),
    );
    const [id, event, data] = [fields.get('id'), fields.get('event'), fields.get('data')];
    if (event === undefined || data === undefined) return;
    const sent = { id, event, data: JSON.parse(data) as unknown };
    this.events.push(sent);
    this.#apply(sent);
  }

  #apply({ event, data }: SentEvent): void {
    switch (event) {
      case 'snapshot':
        this.#applySnapshot(strictly(snapshotSchema, data));
        break;
      case 'conversation':
        this.#put(this.conversations, strictly(conversationSchema, data));
        break;
      case 'start_task':
        this.#putStart(strictly(startTaskSchema, data));
        break;
      case 'sandbox':
        this.#put(this.sandboxes, strictly(sandboxSchema, data));
        break;
      case 'quota':
        this.quota = strictly(quotaSchema, data);
        break;
      case 'removed': {
        const { kind, id } = strictly(removedSchema, data);
        const all = { conversation: this.conversations, start_task: this.startTasks };
        (kind === 'sandbox' ? this.sandboxes : all[kind]).delete(id);
        break;
      }
      case 'closed':
        this.closed = strictly(closedSchema, data).code;
        break;
      default:
        throw new Error(`an unknown event: ${event}`);
    }
  }

  #applySnapshot(part: z.output<typeof snapshotSchema>): void {
    if (this.#isReplacing) {
      this.snapshots += 1;
      for (const records of [this.conversations, this.startTasks, this.sandboxes]) records.clear();
      this.quota = undefined;
    }
    this.#isReplacing = false;
    for (const record of part.conversations) this.#put(this.conversations, record);
    for (const record of part.start_tasks) this.#putStart(record);
    for (const record of part.sandboxes) this.#put(this.sandboxes, record);
    if (part.last) this.quota = part.quota;
  }

  /** A start that is READY is over. */
  #putStart(record: z.output<typeof startTaskSchema>): void {
    if (record.status === 'READY') this.startTasks.delete(record.id);
    else this.#put(this.startTasks, record);
  }

  #put<T extends { readonly id: string }>(records: Map<string, T>, record: T): void {
    records.set(record.id, record);
  }
}
