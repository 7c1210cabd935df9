import { LRUCache } from 'lru-cache';

/**
 * Keeps the most recently used entries. Its option `max` would allocate the memory of all at once.
 */
export const recentlyUsed = <V extends object | string | number | boolean>(
  maxEntries: number,
): LRUCache<string, V> => new LRUCache({ maxSize: maxEntries, sizeCalculation: () => 1 });
