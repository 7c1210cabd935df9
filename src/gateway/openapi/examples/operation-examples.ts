/** The examples of one operation, as a client sends and gets them. */
export interface OperationExamples {
  /** Absent where the operation has no body. */
  readonly body?: unknown;
  /** By the status of each success that has content. */
  readonly answers: Readonly<Record<number, unknown>>;
}

/** By `operationId`. */
export type Examples = Readonly<Record<string, OperationExamples>>;
