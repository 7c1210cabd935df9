import { Lexer, type Token, type Tokens } from 'marked';

/** Maximum length of a text that is read as Markdown, in UTF-16 units: longer ones stay texts. */
export const maxMarkdownLength = 10_000;
/** Nested quotes would exhaust the stack of the parser. */
const deepQuote = /(?:>[ \t]*){20}/;

/** Markdown of GitHub as data, never HTML; undefined for a text whose parts would take too long. */
export function markdownTokens(text: string): readonly Token[] | undefined {
  if (text.length > maxMarkdownLength || deepQuote.test(text)) return undefined;
  try {
    return new Lexer({ gfm: true }).lex(text);
  } catch {
    return undefined;
  }
}

/** The address of a link that a page may open: of http or https; undefined for any other. */
export function safeAddress(href: string): string | undefined {
  if (!URL.canParse(href)) return undefined;
  const { protocol } = new URL(href);
  return protocol === 'http:' || protocol === 'https:' ? href : undefined;
}

export type { Token, Tokens };
