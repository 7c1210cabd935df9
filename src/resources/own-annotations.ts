import { group } from './group.ts';
import type { ObjectMeta } from './object.ts';

const ownPrefix = `${group}/`;
/** Maximum characters of a value that caches keep; every value that is written here is shorter. */
const maxValueLength = 1024;

/** The annotations of this group, for caches: those of others, such as kubectl's copy of an applied object, have no reader here. */
export function ownAnnotations({ annotations }: Pick<ObjectMeta, 'annotations'>): Pick<ObjectMeta, 'annotations'> {
  const own = Object.entries(annotations ?? {}).filter(([key, value]) => key.startsWith(ownPrefix) && value.length <= maxValueLength);
  return own.length === 0 ? {} : { annotations: Object.fromEntries(own) };
}
