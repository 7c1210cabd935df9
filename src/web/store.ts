import { signal } from '@preact/signals';
import { conversationIdOfStartTask } from '../resources/start-task-id.ts';
import { sandboxIdOf, titleOf, type Facts } from './facts.ts';
import { GroupIndex } from './group-index.ts';
import type { Group } from './groups.ts';
import { Row } from './row.ts';
import type { ConversationRecord, QuotaRecord, Removed, SandboxRecord, StartTask } from './wire.ts';

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
  readonly #rowsBySandbox = new Map<string, Set<Row>>();
  readonly #unsettled = new Map<Row, Group | undefined>();
  /** Ids that the snapshot under way has brought. */
  #seen: Set<string> | undefined;

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
    if (sandboxId !== undefined) {
      const sharers = this.#rowsBySandbox.get(sandboxId);
      sharers?.delete(row);
      if (sharers?.size === 0) this.#rowsBySandbox.delete(sandboxId);
    }
    this.#unsettled.set(row, undefined);
  }

  #removeSandbox(id: string): void {
    this.#sandboxes.delete(id);
    for (const row of this.#rowsBySandbox.get(id) ?? [])
      this.#set(row, { ...row.facts, sandbox: undefined });
  }
}
