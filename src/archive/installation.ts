import type { ObjectStore } from '@conversation-operator/object-store/object-store';
import type { SandboxKeys } from '../agent/keys.ts';

/**
 * Marks the archives of a namespace as those of this installation, by the id of its master key.
 * Returns whether they are: another installation that uses the same store by mistake must not
 * delete what it does not know. Throws `StoreError`.
 */
export async function isOwnStore(
  store: Pick<ObjectStore, 'get' | 'put'>,
  namespace: string,
  keys: Pick<SandboxKeys, 'knows' | 'currentKeyId'>,
  signal?: AbortSignal,
): Promise<boolean> {
  const key = `${namespace}/installation`;
  const stored = (await store.get(key, { signal }))?.toString();
  if (stored !== undefined && !keys.knows(stored)) return false;
  // A rotated key is dropped some day.
  if (stored !== keys.currentKeyId)
    await store.put(key, Buffer.from(keys.currentKeyId), { signal });
  return true;
}
