import { signal } from '@preact/signals';

export const manyKeys = { p: 'pause', r: 'resume', t: 'retry', d: 'delete' } as const;
export type ManyAction = (typeof manyKeys)[keyof typeof manyKeys];
export const isManyKey = (key: string): key is keyof typeof manyKeys =>
  Object.hasOwn(manyKeys, key);

export class Selection {
  readonly ids = signal<ReadonlySet<string>>(new Set());
  /** The action that a key or a button requests, until the selection bar handles it. */
  readonly wanted = signal<ManyAction | undefined>(undefined);
  /** The outcome of the last action, which remains when the selection bar disappears. */
  readonly outcome = signal('');

  toggle(id: string): void {
    if (this.ids.peek().has(id)) this.remove([id]);
    else this.add([id]);
  }

  add(ids: Iterable<string>): void {
    this.ids.value = new Set([...this.ids.peek(), ...ids]);
  }

  remove(ids: Iterable<string>): void {
    const left = new Set(this.ids.peek());
    for (const id of ids) left.delete(id);
    this.ids.value = left;
  }

  clear(): void {
    this.wanted.value = undefined;
    this.outcome.value = '';
    this.ids.value = new Set();
  }
}
