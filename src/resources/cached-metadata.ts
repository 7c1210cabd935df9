import { group } from './group.ts';
import type { Interner } from './interner.ts';
import type { ObjectMeta } from '@conversation-operator/kube/object';

const ownPrefix = `${group}/`;
/** Maximum characters of a value that caches keep; every value that is written here is shorter. */
const maxValueLength = 1024;

type Texts = Readonly<Record<string, string>>;
type Dropped = 'managedFields' | 'finalizers' | 'labels' | 'annotations';

/**
 * Leaves out managedFields, finalizers, and the labels and annotations of others, such as kubectl's
 * copy of an applied object: they have no reader here, and may take far more memory than the
 * object. Metadata without any of these is returned as it is.
 */
export function cachedMetadata<M extends ObjectMeta>(
  metadata: M,
  interner: Interner,
): Omit<M, Dropped> & Pick<ObjectMeta, 'labels' | 'annotations'> {
  // A conversation, its sandbox and its claim repeat the names and uids of each other.
  interner.share(metadata, 'namespace', 'name', 'uid', 'creationTimestamp');
  for (const reference of metadata.ownerReferences ?? [])
    interner.share(reference, 'apiVersion', 'kind', 'name', 'uid');
  const isBare = metadata.managedFields === undefined && metadata.finalizers === undefined;
  if (isBare && isOwn(metadata.labels) && isOwn(metadata.annotations)) return metadata;
  const {
    managedFields: _managedFields,
    finalizers: _finalizers,
    labels,
    annotations,
    ...rest
  } = metadata;
  return {
    ...rest,
    ...own('labels', labels, interner),
    ...own('annotations', annotations, interner),
  };
}

const isKept = (key: string, value: string): boolean =>
  key.startsWith(ownPrefix) && value.length <= maxValueLength;

function isOwn(texts: Texts | undefined): boolean {
  if (texts === undefined) return true;
  for (const [key, value] of Object.entries(texts)) if (!isKept(key, value)) return false;
  return true;
}

function own<K extends 'labels' | 'annotations'>(
  part: K,
  texts: Texts | undefined,
  interner: Interner,
): { readonly [P in K]?: Texts } {
  const kept = Object.entries(texts ?? {}).filter(([key, value]) => isKept(key, value));
  if (kept.length === 0) return {};
  return { [part]: Object.fromEntries(kept.map(([key, value]) => [key, interner.of(value)])) } as {
    readonly [P in K]: Texts;
  };
}
