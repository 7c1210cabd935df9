/** Limits of the events that the streams of one owner share. */
export interface RingLimits {
  /** Maximum bytes of the batches that a ring keeps; the newest one is always kept. */
  readonly maxBytes: number;
  /** Maximum number of batches that a ring keeps. */
  readonly maxBatches: number;
}

export interface EventMemory extends RingLimits {
  /** Maximum bytes of the events of all owners together; each has the same part of them. */
  readonly totalBytes: number;
  /** Maximum records that are made in one turn of the event loop, and in one event. */
  readonly recordsPerTurn: number;
}

const mebibyte = 1_048_576;
export const defaultEventMemory: EventMemory = {
  maxBytes: mebibyte,
  maxBatches: 1024,
  totalBytes: 64 * mebibyte,
  recordsPerTurn: 200,
};
