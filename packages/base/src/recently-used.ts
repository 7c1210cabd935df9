import { LRUCache } from 'lru-cache';

/**
 * A map that keeps its `maxEntries` most recently used entries. Its memory grows with its entries:
 * with the option `max`, the library takes the memory of all of them at once.
 */
export const recentlyUsed = <V extends object | string | number | boolean>(
  maxEntries: number,
): LRUCache<string, V> => new LRUCache({ maxSize: maxEntries, sizeCalculation: () => 1 });
