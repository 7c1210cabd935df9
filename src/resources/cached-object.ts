import { cachedMetadata } from './cached-metadata.ts';
import type { CustomObject } from './group.ts';
import type { Interner } from './interner.ts';

/**
 * The transform of caches of kinds of this group that have no other: all of the object but the
 * metadata that has no reader.
 */
export function cachedObject<Spec, Status>(
  object: CustomObject<Spec, Status>,
  interner: Interner,
): CustomObject<Spec, Status> {
  interner.share(object, 'apiVersion', 'kind');
  const metadata = cachedMetadata(object.metadata, interner);
  return metadata === object.metadata ? object : { ...object, metadata };
}
