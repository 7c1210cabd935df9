import type { SandboxKeys } from '../agent/keys.ts';
import type { ArchiveAddress } from './address.ts';
import { ArchiveError } from './archive-error.ts';
import { keyOf } from './layout.ts';
import { unpackHead } from './manifest.ts';
import type { ArchiveObjects } from './open-archive.ts';
import { newestHead } from './removal.ts';

/**
 * Whose archive it is:
 *
 * - own: its newest head names a master key that is known here.
 * - foreign: another installation has written it, or it can't be read. Another installation may use
 *   the same store by mistake, and must not delete what it does not know.
 * - headless: it has no head, so no reader can use it. Its first head follows, or its writer has
 *   ended.
 */
export type ArchiveOrigin = 'own' | 'foreign' | 'headless';

/** Throws `StoreError`. */
export async function originOf(
  { store, codec }: ArchiveObjects,
  address: ArchiveAddress,
  keys: Pick<SandboxKeys, 'knows'>,
  signal?: AbortSignal,
): Promise<ArchiveOrigin> {
  const name = await newestHead(store, address, signal);
  const body =
    name === undefined ? undefined : await store.get(keyOf(address, 'h', name), { signal });
  if (name === undefined || body === undefined) return 'headless';
  try {
    const { installation } = unpackHead(codec, address, name, body).manifest;
    return installation !== undefined && keys.knows(installation) ? 'own' : 'foreign';
  } catch (error) {
    if (error instanceof ArchiveError) return 'foreign';
    throw error;
  }
}
