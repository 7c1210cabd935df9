import { LRUCache } from 'lru-cache';

/** Cache of the most recently used entries. The option `max` would allocate all memory up front. */
export const recentlyUsed = <V extends object | string | number | boolean>(
  maxEntries: number,
): LRUCache<string, V> => new LRUCache({ maxSize: maxEntries, sizeCalculation: () => 1 });
