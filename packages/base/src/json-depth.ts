/**
 * Whether JSON has more levels than allowed, which V8 parses, and on which JSON.stringify and other
 * recursion throws a RangeError. Texts that are no JSON may have either answer.
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

/** The index of the quote that ends the JSON string at `start`; the text's length without one. */
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
