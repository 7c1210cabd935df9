import { statSync } from 'node:fs';
import type { Test } from '@jest/test-result';

/** Whether the tests of a file wait for processes that they start, or simulate many seeds. */
const isSlow = ({ path }: Test): boolean => /\/test\/(simulation|integration)\/[^/]+$/.test(path);

/**
 * Slow files first, then by size. A slow file that is started last runs alone in the end, while the
 * other workers have nothing to do.
 */
export default class SlowFirst {
  sort(tests: readonly Test[]): Test[] {
    const sizes = new Map(tests.map(({ path }) => [path, statSync(path).size]));
    const sizeOf = ({ path }: Test): number => sizes.get(path) ?? 0;
    return tests.toSorted(
      (one, other) => Number(isSlow(other)) - Number(isSlow(one)) || sizeOf(other) - sizeOf(one),
    );
  }

  /** The order depends on no earlier run. */
  cacheResults(): void {
    // Nothing to keep.
  }
}
