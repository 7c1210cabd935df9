/**
 * Randomness from a seed: the same seed and name, the same numbers. Streams of different names
 * don't disturb each other.
 */
export class Random {
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;
  readonly #seed: string;
  /** How often each name was given to `nextOf`. */
  readonly #uses = new Map<string, number>();

  constructor(seed: string) {
    this.#seed = seed;
    [this.#a, this.#b, this.#c] = [hash(`${seed}/a`), hash(`${seed}/b`), hash(`${seed}/c`)];
    for (let round = 0; round < 12; round++) this.next();
  }

  /** Another stream, which depends on nothing but the seed and the name. */
  fork(name: string): Random {
    return new Random(`${this.#seed}/${name}`);
  }

  /**
   * The stream of the next use of a name, which depends on nothing but the seed, the name, and the
   * number of earlier uses of that name, so that a use more or less moves no other name.
   */
  nextOf(name: string): Random {
    const uses = this.#uses.get(name) ?? 0;
    this.#uses.set(name, uses + 1);
    return this.fork(`${name} ${uses}`);
  }

  /** Uniform in 0..1 (sfc32). */
  readonly next = (): number => {
    const sum = (this.#a + this.#b + this.#counter++) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum;
    return (sum >>> 0) / 2 ** 32;
  };

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  between(low: number, high: number): number {
    return low + this.next() * (high - low);
  }

  /** A whole number of `low` to `high`, both included. */
  whole(low: number, high: number): number {
    return Math.floor(this.between(low, high + 1));
  }

  pick<T>(choices: readonly T[]): T | undefined {
    return choices[Math.floor(this.next() * choices.length)];
  }
}

/** FNV-1a, 32 bits. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let index = 0; index < text.length; index++)
    value = Math.imul(value ^ text.charCodeAt(index), 0x01000193);
  return value | 0;
}
