/** Letters beyond ASCII whose lower case is an ASCII letter or longer than one character. */
const exceptions = /[\u0130\u212a]/g;
/** The form of the Greek sigma at the end of a word. */
const finalSigma = /\u03c2/g;
// eslint-disable-next-line no-control-regex -- outputs of terminals have them
const spaces = /[\s\u0000-\u001f\u007f-\u009f]+/g;
/** A run of letters, digits and underscores. Each character beyond ASCII counts as a letter. */
const word = /[0-9a-z_\u0080-\uffff]+/g;
const asciiWord = /^[0-9a-z_]+$/;

/** Lower-case text of the same length. No character beyond ASCII becomes an ASCII character. */
export const folded = (text: string): string =>
  text.replace(exceptions, '\u0131').toLowerCase().replace(finalSigma, '\u03c3');

/** Text in one line, with one space for each run of white space and control characters. */
export const inOneLine = (text: string): string => text.replace(spaces, ' ');

export const wordsOf = (text: string): readonly string[] => text.match(word) ?? [];

/** Text to search for, regardless of case and kind of white space. */
export interface TextQuery {
  /** The wanted text after `inOneLine` and `folded`. */
  readonly text: string;
  /** Words of `text`. A matching text contains each word, perhaps within a longer word. */
  readonly words: readonly string[];
  /** Longest word in ASCII, which JSON contains unescaped. Absent: no word is in ASCII. */
  readonly asciiWord: string | undefined;
}

export function textQueryOf(wanted: string): TextQuery {
  const text = folded(inOneLine(wanted)).trim();
  const words = wordsOf(text);
  const [asciiWord] = words
    .filter((each) => isAscii(each))
    .toSorted((one, other) => other.length - one.length);
  return { text, words, asciiWord };
}

const isAscii = (text: string): boolean => asciiWord.test(text);

/** Maximum characters of a snippet before the match, and in total. */
const lengthBefore = 60;
const maxLength = 200;

/** One line around the first match, at most 202 characters with `…`; undefined without a match. */
export function snippetOf(source: string, query: TextQuery): string | undefined {
  const text = inOneLine(source);
  const place = folded(text).indexOf(query.text);
  if (place === -1) return undefined;
  const start = wholeAt(text, Math.max(0, place - lengthBefore));
  const end = wholeAt(text, Math.min(text.length, start + maxLength));
  const snippet = text.slice(start, end).toWellFormed();
  return `${start > 0 ? '…' : ''}${snippet}${end < text.length ? '…' : ''}`;
}

/** Returns `index`, or the previous index if `index` would split a surrogate pair. */
const wholeAt = (text: string, index: number): number =>
  index > 0 && /[\uDC00-\uDFFF]/.test(text.charAt(index)) ? index - 1 : index;
