import { enableCompileCache, flushCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('../../../.cache/compiled', import.meta.url));

/**
 * Loads modules, and keeps them compiled for the threads that come: half of a second of each
 * mutant. A module with another text is compiled again. A thread that is terminated keeps nothing
 * by itself.
 */
export async function compiled<Module>(load: () => Promise<Module>): Promise<Module> {
  enableCompileCache(folder);
  const loaded = await load();
  flushCompileCache();
  return loaded;
}
