/**
 * Whether the JSON has more levels of lists and objects than allowed. The parser of V8 takes any
 * number of them, and everything that then walks the value by recursion ends with a RangeError:
 * JSON.stringify after some thousand levels. Other texts than JSON may have either answer.
 */
export function isDeeperThan(json: string, maxDepth: number): boolean {
  let depth = 0;
  for (let at = 0; at < json.length; at++)
    switch (json.charCodeAt(at)) {
      case quote:
        at = endOfString(json, at);
        break;
      case openBrace:
      case openBracket:
        if (++depth > maxDepth) return true;
        break;
      case closeBrace:
      case closeBracket:
        depth--;
        break;
      default:
    }
  return false;
}

/** The index of the quote that ends the string of JSON which begins at `start`; the length without one. */
export function endOfString(json: string, start: number): number {
  for (let at = start + 1; at < json.length; at++) {
    const code = json.charCodeAt(at);
    if (code === quote) return at;
    if (code === backslash) at++;
  }
  return json.length;
}

const quote = 0x22;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;
