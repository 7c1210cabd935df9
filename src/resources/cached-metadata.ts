import { group } from './group.ts';
import type { ObjectMeta } from '@conversation-operator/kube/object';

/** Maximum number of known texts. Above this number, the interner forgets all texts. */
const maxKnown = 16_384;
/** Maximum characters of a shared text, because longer texts are rarely equal. */
const maxLength = 256;
/** Minimum characters of a shared text, because the JSON parser shares shorter ones. */
const minLength = 10;

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/**
 * Shares equal texts in memory, because the JSON parser creates a new string for each state,
 * reason, message, time, name and uid. No value changes. Up to 8 MiB of texts stay in memory after
 * the last object with them is gone.
 */
export class Interner {
  readonly #known = new Map<string, string>();

  get size(): number {
    return this.#known.size;
  }

  of(text: string): string {
    if (text.length < minLength || text.length > maxLength) return text;
    const known = this.#known.get(text);
    if (known !== undefined) return known;
    if (this.#known.size >= maxKnown) this.#known.clear();
    this.#known.set(text, text);
    return text;
  }

  /** Replaces texts in the given object itself, which is cheaper than a copy. */
  share<K extends string>(
    object: { readonly [P in K]?: string | undefined },
    ...keys: readonly K[]
  ): void {
    const own: Mutable<typeof object> = object;
    for (const key of keys) {
      const text = own[key];
      if (text !== undefined) own[key] = this.of(text);
    }
  }
}

const ownPrefix = `${group}/`;
/** Maximum characters of a cached label or annotation. The operator writes only shorter ones. */
const maxValueLength = 1024;

type Texts = Readonly<Record<string, string>>;
type Dropped = 'managedFields' | 'finalizers' | 'labels' | 'annotations';

/**
 * Removes managedFields, finalizers, and the labels and annotations of other programs, such as
 * kubectl's copy of an applied object: no code reads them, and they may take more memory than the
 * object. Metadata without any of these is returned unchanged.
 */
export function cachedMetadata<M extends ObjectMeta>(
  metadata: M,
  interner: Interner,
): Omit<M, Dropped> & Pick<ObjectMeta, 'labels' | 'annotations'> {
  // A conversation, its sandbox and its PersistentVolumeClaim contain the same names and uids.
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
