const controls =
  // eslint-disable-next-line no-control-regex -- these are what is to go
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/**
 * The beginning of a text, at most `maxLength` UTF-16 code units, without half of a surrogate pair.
 * The API server stores no such half, so the status would never equal the stored one.
 */
export const beginningOf = (text: string, maxLength: number): string =>
  text.length <= maxLength ? text : text.slice(0, maxLength).replace(/[\uD800-\uDBFF]$/, '');

/** The text, or its beginning with an ellipsis, of at most `maxLength` characters. */
export const markedBeginningOf = (text: string, maxLength: number): string =>
  text.length <= maxLength ? text : `${beginningOf(text, maxLength - 1)}…`;

/**
 * A text of an agent or a client that is safe in a resource and on a terminal: bounded, without
 * control characters (except tab and newline) and bidirectional controls, and without unpaired
 * surrogates, which API servers do not store.
 */
export function plainText(text: string, maxLength: number): string {
  // The text is truncated first, because it may have ten million characters.
  const plain = text
    .slice(0, maxLength * 2)
    .toWellFormed()
    .replace(controls, '');
  return beginningOf(plain, maxLength);
}

const maxDerivedLength = 80;
/** Maximum characters of a text that are read to find its first words. */
export const maxReadLength = 2000;

const fence = /^ {0,3}(?:```|~~~).*$/m;
const onOneLine = (text: string): string => text.replaceAll(/\s+/g, ' ').trim();

/**
 * The first words of a text on one line, truncated after a word in the second half of the line, or
 * else inside a word. Code counts only if there is no other text. Control and direction characters
 * are removed.
 */
export function firstWords(text: string, maxLength = maxDerivedLength): string {
  const [words = '', ...code] = plainText(text, maxReadLength).split(fence);
  const line = onOneLine(words) || onOneLine(code.join(' '));
  if (line.length <= maxLength) return line;
  const space = line.slice(0, maxLength).lastIndexOf(' ');
  if (space > maxLength / 2) return `${line.slice(0, space)}…`;
  return `${beginningOf(line, maxLength - 1)}…`;
}

/**
 * The beginning of a text on one line. A longer text is truncated after a sentence or else a word
 * in the second half of the line, or else inside a word, and ends with an ellipsis.
 */
export function beginningOnOneLine(text: string, maxLength: number): string {
  const whole = onOneLine(text);
  const line = plainText(whole, maxReadLength).trim();
  if (line.length <= maxLength && whole.length <= maxReadLength) return line;
  const head = beginningOf(line, maxLength - 2);
  const sentences = /^.*[.!?](?=\s)/.exec(head)?.[0] ?? '';
  if (sentences.length > maxLength / 2) return `${sentences} …`;
  const space = head.lastIndexOf(' ');
  return `${space > maxLength / 2 ? head.slice(0, space) : head}…`;
}
