import type { SandboxKeys } from '../agent/keys.ts';
import type { ArchiveAddress } from './address.ts';
import { ArchiveError } from './archive-error.ts';
import { keyOf } from './layout.ts';
import { unpackHead } from './manifest.ts';
import type { ArchiveObjects } from './open-archive.ts';
import { newestHead } from './removal.ts';

/**
 * Whether this installation has written the archive: its newest head names a master key that is
 * known here. Another installation may use the same store by mistake, and must not delete what it
 * does not know. Throws `StoreError`.
 */
export async function isOwnArchive(
  { store, codec }: ArchiveObjects,
  address: ArchiveAddress,
  keys: Pick<SandboxKeys, 'knows'>,
  signal?: AbortSignal,
): Promise<boolean> {
  const name = await newestHead(store, address, signal);
  if (name === undefined) return false;
  const body = await store.get(keyOf(address, 'h', name), { signal });
  if (body === undefined) return false;
  try {
    const { installation } = unpackHead(codec, address, name, body).manifest;
    return installation !== undefined && keys.knows(installation);
  } catch (error) {
    if (error instanceof ArchiveError) return false;
    throw error;
  }
}
