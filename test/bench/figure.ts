/** One line of the table. Printed as JSON by a bench, put together by main.ts. */
export interface Figure {
  readonly what: string;
  readonly value: number;
  readonly unit: string;
  /** The limit of the number; absent where the number only explains another one. */
  readonly target?: { readonly atMost: number } | { readonly atLeast: number };
}

export const report = (figure: Figure): void => {
  process.stdout.write(`${JSON.stringify(figure)}\n`);
};

export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}

/**
 * Bytes in use once the collector has freed all that it can: a plain collection leaves up to 5 MiB,
 * at random. Needs --expose-gc.
 */
export function heapBytes(): number {
  if (globalThis.gc === undefined) throw new Error('run with --expose-gc');
  globalThis.gc({ type: 'major', execution: 'sync', flavor: 'last-resort' });
  return process.memoryUsage().heapUsed;
}

export interface Taken {
  /** Memory at its maximum, as the operating system counts: heap, buffers, code. */
  readonly maxMiB: number;
  /** Processor time of all threads. */
  readonly processorSeconds: number;
}

/** How much of the machine this process has taken so far. */
export function taken(): Taken {
  const { maxRSS, userCPUTime, systemCPUTime } = process.resourceUsage();
  return { maxMiB: maxRSS / 1024, processorSeconds: (userCPUTime + systemCPUTime) / 1_000_000 };
}
