const controls =
  // eslint-disable-next-line no-control-regex -- these are what is to go
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/**
 * The beginning of a text, in characters of JavaScript. Truncation leaves no half of a surrogate
 * pair: no API server stores one, so the status would differ from what is stored for ever.
 */
export const beginningOf = (text: string, maxLength: number): string =>
  text.length <= maxLength ? text : text.slice(0, maxLength).replace(/[\uD800-\uDBFF]$/, '');

/** The text; where it is longer, its beginning with a mark, together of `maxLength` characters. */
export const markedBeginningOf = (text: string, maxLength: number): string =>
  text.length <= maxLength ? text : `${beginningOf(text, maxLength - 1)}…`;

/**
 * Returns a text of an agent or a client that is safe to store in a resource and to print on a
 * terminal: bounded, without control characters (except tab and newline) and bidirectional
 * controls, and without unpaired surrogates, which no API server stores.
 */
export function plainText(text: string, maxLength: number): string {
  // The text is truncated first, because the input may have ten million characters.
  const plain = text
    .slice(0, maxLength * 2)
    .toWellFormed()
    .replace(controls, '');
  return beginningOf(plain, maxLength);
}
