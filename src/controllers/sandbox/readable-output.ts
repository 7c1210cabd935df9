/** Patterns of credentials: HTTP authorization, users in URLs, and tokens of well-known hosts. */
const secrets: readonly (readonly [RegExp, string])[] = [
  [/\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}/gi, '$1 ***'],
  [/(:\/\/)[^\s/@]+@/g, '$1***@'],
  [/\b(gh[opsru]_|github_pat_|glpat-|xox[abprs]-|sk-|AKIA)[A-Za-z0-9_-]{8,}/g, '$1***'],
];

/** Escape sequences of terminals, for colours, titles and cursors. */
// eslint-disable-next-line no-control-regex -- the pattern removes control characters
const escapes = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g;
const controls =
  // eslint-disable-next-line no-control-regex -- the pattern removes control characters
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;

/**
 * The output as text for people: without control sequences and credentials, and with only the last
 * version of each overwritten line.
 */
export function readable(output: string): string {
  const lines = output.replaceAll('\r\n', '\n').replace(escapes, '').split('\n');
  const last = lines.map((line) => line.split('\r').findLast((part) => part.trim() !== '') ?? '');
  const text = last.join('\n').replace(controls, '').toWellFormed().trim();
  return secrets.reduce((shown, [pattern, instead]) => shown.replace(pattern, instead), text);
}

/** The end of a text, which begins with a whole line if possible. */
export function tailOf(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text;
  const end = text.slice(-maxLength);
  const line = end.indexOf('\n');
  // The slice may divide a surrogate pair, and half a pair is no valid text.
  return (line < 0 || line > maxLength / 2 ? end : end.slice(line + 1)).toWellFormed();
}

/**
 * The last lines of an output, for a message. Square brackets are replaced, because terminal
 * clients would drop or interpret them as markup.
 */
export const lastWords = (output: string): string =>
  tailOf(readable(output).split('\n').slice(-5).join('\n'), 1000)
    .replaceAll('[', '(')
    .replaceAll(']', ')');
