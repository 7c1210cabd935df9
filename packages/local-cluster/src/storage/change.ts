import type { ApiObject } from '../api/api-object.ts';

/**
 * One version of an object. The object is serialized once, for the disk, the responses and the
 * watchers.
 */
export interface Stored {
  readonly object: ApiObject;
  readonly json: string;
  readonly version: number;
}

/** One write of an object. */
export interface Change {
  /** Storage key of the kind, `group/plural`. */
  readonly resource: string;
  readonly namespace: string;
  readonly name: string;
  readonly version: number;
  readonly before: Stored | undefined;
  /** New state; the last state of a deleted object. */
  readonly after: Stored;
  readonly deleted: boolean;
}
