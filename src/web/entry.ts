import { signal } from '@preact/signals';
import type { ActionState } from './row.ts';

/** A record in a list, with what is under way about it. */
export class Entry<T> {
  readonly record: T;
  readonly action = signal<ActionState | undefined>(undefined);
  readonly isAsking = signal(false);

  constructor(record: T) {
    this.record = record;
  }
}
