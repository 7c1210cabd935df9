/**
 * Derives a value from an object alone, at its first use. Objects and arrays of a store never
 * change, so the value stays right; the garbage collector removes it together with the object.
 */
export class Derived<S extends WeakKey, R extends WeakKey | string> {
  readonly #make: (source: S) => R;
  readonly #made = new WeakMap<S, R>();

  constructor(make: (source: S) => R) {
    this.#make = make;
  }

  of(source: S): R {
    const known = this.#made.get(source);
    if (known !== undefined) return known;
    const made = this.#make(source);
    this.#made.set(source, made);
    return made;
  }
}
