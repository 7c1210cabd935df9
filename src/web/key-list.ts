import { signal } from '@preact/signals';
import { api, messageOf } from './api.ts';
import { Entry } from './entry.ts';
import type { ApiKeyRecord } from './wire.ts';

export type KeyRow = Entry<ApiKeyRecord>;

/** The keys of every owner, page by page. */
export class KeyList {
  readonly rows = signal<readonly KeyRow[] | undefined>(undefined);
  readonly next = signal<string | undefined>(undefined);
  readonly problem = signal<string | undefined>(undefined);
  /** The key of this session. */
  readonly own = signal<string | undefined>(undefined);

  open = async (): Promise<void> => {
    await this.#read(async () => {
      this.own.value = (await api.get<{ readonly id: string }>('/api/keys/current', {})).id;
      await this.#add([]);
    });
  };

  more = (): Promise<void> => this.#read(() => this.#add(this.rows.peek() ?? [], this.next.peek()));

  /** Revokes a key; its row goes once the service has done it. */
  revoke = async (row: KeyRow): Promise<void> => {
    const label = 'Revoking';
    row.isAsking.value = false;
    row.action.value = { label };
    try {
      await api.delete(`/api/keys/${encodeURIComponent(row.record.id)}`);
    } catch (error) {
      const retry = () => void this.revoke(row);
      row.action.value = { label, problem: messageOf(error), retry };
      return;
    }
    // Keys that the key has made end with it.
    this.rows.value = this.rows.peek()?.filter((other) => other !== row);
    void this.open();
  };

  async #add(known: readonly KeyRow[], page_id?: string): Promise<void> {
    const { items, next } = await api.getPage<ApiKeyRecord>('/api/keys', { owner: '*', page_id });
    this.rows.value = [...known, ...items.map((record) => new Entry(record))];
    this.next.value = next;
  }

  async #read(read: () => Promise<void>): Promise<void> {
    this.problem.value = undefined;
    try {
      await read();
    } catch (error) {
      this.problem.value = messageOf(error);
    }
  }
}
