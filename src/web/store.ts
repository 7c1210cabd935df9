import { computed, signal } from '@preact/signals';
import { conversationIdOfStartTask } from '../resources/start-task-id.ts';
import { sandboxIdOf, titleOf, type Facts } from './facts.ts';
import { GroupIndex } from './group-index.ts';
import type { Group } from './groups.ts';
import { Row } from './row.ts';
import type { ConversationRecord, QuotaRecord, Removed, SandboxRecord, StartTask } from './wire.ts';

/** The id of the conversation that a sandbox is named after, where there is one. */
const idInName = (sandboxId: string): string => sandboxId.slice('sbx-'.length);

/**
 * Everything that the page knows, by the ids of conversations. Changes of rows reach the index with
 * `settle`, so that a burst of them is one change of the list.
 */
export class Store {
  readonly index = new GroupIndex();
  readonly quota = signal<QuotaRecord | undefined>(undefined);
  /** Whether everything has arrived once. */
  readonly isFilled = signal(false);
  readonly rows = new Map<string, Row>();
  /** Changes whenever a row comes or goes. */
  readonly #membership = signal(0);
  readonly #sandboxes = new Map<string, SandboxRecord>();
  /**
   * A sandbox whose last conversation was deleted has an empty set until its own deletion, which
   * follows.
   */
  readonly #rowsBySandbox = new Map<string, Set<Row>>();
  /** Changes with the sandboxes, and with the sandbox of a row. */
  readonly #occupation = signal(0);
  readonly #unsettled = new Map<Row, Group | undefined>();
  /** Ids that the snapshot under way has brought. */
  #seen: Set<string> | undefined;

  /** Sandboxes that were started without a conversation, and have none; the newest first. */
  readonly bareSandboxes = computed((): readonly SandboxRecord[] => {
    const { value: _occupation } = this.#occupation;
    // A snapshot brings sandboxes before conversations.
    if (!this.isFilled.value) return [];
    return [...this.#sandboxes.values()]
      .filter(({ id }) => !this.#rowsBySandbox.has(id) && this.rowOf(idInName(id)) === undefined)
      .sort((one, other) => (one.created_at < other.created_at ? 1 : -1));
  });

  putConversation(conversation: ConversationRecord): void {
    this.#seen?.add(conversation.id);
    this.#put(conversation.id, { conversation });
  }

  putTask(task: StartTask): void {
    const id = conversationIdOfStartTask(task.id);
    this.#seen?.add(id);
    this.#put(id, { task });
  }

  putSandbox(sandbox: SandboxRecord): void {
    this.#seen?.add(sandbox.id);
    this.#sandboxes.set(sandbox.id, sandbox);
    this.#occupation.value = this.#occupation.peek() + 1;
    for (const row of this.#rowsBySandbox.get(sandbox.id) ?? [])
      this.#set(row, { ...row.facts, sandbox });
  }

  remove({ kind, id }: Removed): void {
    if (kind === 'conversation') this.#removeRow(id);
    else if (kind === 'sandbox') this.#removeSandbox(id);
    else {
      const row = this.rows.get(conversationIdOfStartTask(id));
      if (row?.facts.conversation === undefined) this.#removeRow(row?.id ?? '');
      else this.#set(row, { ...row.facts, task: undefined });
    }
  }

  beginSnapshot(): void {
    this.#seen ??= new Set();
  }

  /** Removes what the snapshot has not brought. */
  endSnapshot(): void {
    const seen = this.#seen ?? new Set();
    this.#seen = undefined;
    for (const id of [...this.rows.keys()]) if (!seen.has(id)) this.#removeRow(id);
    for (const id of [...this.#sandboxes.keys()]) if (!seen.has(id)) this.#removeSandbox(id);
    this.isFilled.value = true;
  }

  /** Brings all rows that have changed to their groups. */
  settle(): void {
    this.index.place(this.#unsettled);
    this.#unsettled.clear();
  }

  /** The row of a conversation; a component that reads it follows whether there is one. */
  rowOf(id: string): Row | undefined {
    const { value: _version } = this.#membership;
    return this.rows.get(id);
  }

  titleOf = (id: string): string | undefined => {
    const row = this.rows.get(id);
    return row && titleOf(row.facts);
  };

  #put(id: string, news: Facts): void {
    const row = this.rows.get(id);
    const facts = { ...row?.facts, ...news };
    const sandboxId = sandboxIdOf(facts);
    const sandbox = sandboxId === undefined ? undefined : this.#sandboxes.get(sandboxId);
    const next = { ...facts, sandbox };
    const stored = row ?? new Row(id, next);
    this.#set(stored, next);
    if (row !== undefined) return;
    this.rows.set(id, stored);
    this.#membership.value = this.#membership.peek() + 1;
  }

  #set(row: Row, facts: Facts): void {
    const [before, after] = [sandboxIdOf(row.facts), sandboxIdOf(facts)];
    if (before !== after) this.#occupation.value = this.#occupation.peek() + 1;
    if (before !== undefined && before !== after) this.#rowsBySandbox.get(before)?.delete(row);
    if (after !== undefined) {
      const sharers = this.#rowsBySandbox.get(after) ?? new Set();
      this.#rowsBySandbox.set(after, sharers.add(row));
    }
    if (facts !== row.facts) row.set(facts);
    this.#unsettled.set(row, row.group);
  }

  #removeRow(id: string): void {
    const row = this.rows.get(id);
    if (row === undefined) return;
    this.rows.delete(id);
    this.#membership.value = this.#membership.peek() + 1;
    const sandboxId = sandboxIdOf(row.facts);
    if (sandboxId !== undefined) this.#rowsBySandbox.get(sandboxId)?.delete(row);
    this.#unsettled.set(row, undefined);
  }

  #removeSandbox(id: string): void {
    this.#sandboxes.delete(id);
    this.#occupation.value = this.#occupation.peek() + 1;
    const rows = this.#rowsBySandbox.get(id);
    if (rows?.size === 0) this.#rowsBySandbox.delete(id);
    for (const row of rows ?? []) this.#set(row, { ...row.facts, sandbox: undefined });
  }
}
