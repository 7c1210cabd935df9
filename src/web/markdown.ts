import { Lexer, type Token, type Tokens } from 'marked';

/** Maximum UTF-16 units of a text that is parsed as Markdown. Longer texts stay plain. */
export const maxMarkdownLength = 10_000;
/** Nested quotes could exhaust the stack of the parser. */
const deepQuote = /(?:>[ \t]*){20}/;

/** GitHub's Markdown as tokens, never HTML; undefined for a text that would take too long. */
export function markdownTokens(text: string): readonly Token[] | undefined {
  if (text.length > maxMarkdownLength || deepQuote.test(text)) return undefined;
  try {
    return new Lexer({ gfm: true }).lex(text);
  } catch {
    return undefined;
  }
}

/** The URL of a link that a page may open (http or https); undefined for any other URL. */
export function safeAddress(href: string): string | undefined {
  if (!URL.canParse(href)) return undefined;
  const { protocol } = new URL(href);
  return protocol === 'http:' || protocol === 'https:' ? href : undefined;
}

export type { Token, Tokens };
