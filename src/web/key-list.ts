import { signal } from '@preact/signals';
import { api, messageOf } from './api.ts';

import type { ActionState } from './row.ts';
import type { ApiKeyRecord } from './wire.ts';

export type KeyRow = Entry<ApiKeyRecord>;

interface IssuedKey extends ApiKeyRecord {
  readonly key: string;
}

export class Entry<T> {
  readonly record: T;
  readonly action = signal<ActionState | undefined>(undefined);
  readonly isAsking = signal(false);

  constructor(record: T) {
    this.record = record;
  }
}

/** The API keys of the owner, or of every owner, read page by page. */
export class KeyList {
  readonly rows = signal<readonly KeyRow[] | undefined>(undefined);
  readonly next = signal<string | undefined>(undefined);
  readonly problem = signal<string | undefined>(undefined);
  readonly own = signal<string | undefined>(undefined);
  readonly #query: { readonly owner?: '*' };

  constructor(query: { readonly owner?: '*' } = {}) {
    this.#query = query;
  }

  open = async (): Promise<void> => {
    await this.#read(async () => {
      this.own.value = (await api.get<{ readonly id: string }>('/api/keys/current', {})).id;
      await this.#add([]);
    });
  };

  more = (): Promise<void> => this.#read(() => this.#add(this.rows.peek() ?? [], this.next.peek()));

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
    // Revoking a key also revokes the keys that it has issued.
    this.rows.value = this.rows.peek()?.filter((other) => other !== row);
    void this.open();
  };

  /** Whether this session's key is the given key, or was issued by it, directly or indirectly. */
  endsSession(id: string): boolean {
    const issuers = new Map(this.rows.value?.map(({ record }) => [record.id, record.issued_by]));
    const passed = new Set<string>();
    for (let at = this.own.value ?? null; at !== null && !passed.has(at);) {
      if (at === id) return true;
      passed.add(at);
      at = issuers.get(at) ?? null;
    }
    return false;
  }

  /**
   * Issues a key with the scopes of the session, or fewer, valid until an ISO 8601 time or the
   * session's end. Rejects with an ApiError.
   */
  make = async (
    name: string,
    wish: { readonly scopes?: readonly string[]; readonly expires_at?: string },
  ): Promise<string> => {
    const { key, ...record } = await api.post<IssuedKey>('/api/keys', { name, ...wish });
    this.rows.value = [...(this.rows.peek() ?? []), new Entry(record)];
    return key;
  };

  async #add(known: readonly KeyRow[], page_id?: string): Promise<void> {
    const { items, next } = await api.getPage<ApiKeyRecord>('/api/keys', {
      ...this.#query,
      page_id,
    });
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
