import { folded, wordsOf } from './text-fold.ts';

/** Maximum characters of a list. A segment with more words, such as encoded bytes, has none. */
const maxLength = 256 * 1024;

/**
 * The words of the texts of a segment, each of them once, with spaces between them: a search reads
 * the events of those segments alone whose lists have its words.
 */
export class WordList {
  readonly #words: Set<string>;
  #length: number;

  /** @param text `text` of the list that this one continues. */
  constructor(text = '') {
    this.#words = new Set(text === '' ? [] : text.split(' '));
    // A list that was continued has the same bound as one that was not.
    this.#length = text === '' ? 0 : text.length + 1;
  }

  /** Length of the words, each with a space behind it, in UTF-16 units. */
  get length(): number {
    return this.#length;
  }

  get text(): string {
    return [...this.#words].join(' ');
  }

  /** Adds the words of texts. False where the list has become too long, and is of no use. */
  add(texts: readonly string[]): boolean {
    for (const text of texts)
      for (const word of wordsOf(folded(text))) {
        if (this.#words.has(word)) continue;
        this.#length += word.length + 1;
        if (this.#length > maxLength) return false;
        this.#words.add(word);
      }
    return true;
  }
}
