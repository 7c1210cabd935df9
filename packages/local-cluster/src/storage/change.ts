import type { ApiObject } from '../api/api-object.ts';

/** One version of an object. Its JSON is made once, for the disk, the answers and the watchers alike. */
export interface Stored {
  readonly object: ApiObject;
  readonly json: string;
  readonly version: number;
}

/** One write. */
export interface Change {
  /** `group/plural` */
  readonly resource: string;
  readonly namespace: string;
  readonly name: string;
  readonly version: number;
  readonly before: Stored | undefined;
  /** The new state; of a deleted object its last. */
  readonly after: Stored;
  readonly deleted: boolean;
}

export const changeType = (change: Change): 'ADDED' | 'MODIFIED' | 'DELETED' => {
  if (change.deleted) return 'DELETED';
  return change.before === undefined ? 'ADDED' : 'MODIFIED';
};
