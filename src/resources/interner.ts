/** Maximum number of known texts; with more, the interner forgets all of them and begins anew. */
const maxKnown = 16_384;
/** Maximum characters of a shared text. Longer ones are rarely equal. */
const maxLength = 256;
/** Minimum characters of a shared text: the JSON parser shares shorter ones itself. */
const minLength = 10;

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/**
 * Gives equal texts one place in memory, because the JSON parser makes a new string for each state,
 * reason, message, time, name and uid. An interner changes no value, and holds up to 8 MiB of texts
 * that no object has any more.
 */
export class Interner {
  readonly #known = new Map<string, string>();

  /** How many texts are known. */
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

  /**
   * Replaces texts of an object by the known equal ones in place, which is cheaper than a copy of
   * the object.
   */
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
