// eslint-disable-next-line no-control-regex -- these are what is to go
const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/**
 * A text of an agent's as it may be stored in a resource and printed on a terminal: bounded, without control characters (a tab and
 * a line's end are none) and signs that turn the direction of writing, and without halves of surrogate pairs, which no API server keeps.
 */
export function plainText(text: string, maxLength: number): string {
  // Cut first: what is looked at character by character may have ten million of them.
  const plain = text
    .slice(0, maxLength * 2)
    .toWellFormed()
    .replace(controls, '')
    .slice(0, maxLength);
  // The cut may have halved a pair.
  return plain.isWellFormed() ? plain : plain.slice(0, -1);
}
