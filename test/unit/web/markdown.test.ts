import { markdownTokens, maxMarkdownLength, safeAddress } from '../../../src/web/markdown.ts';

const typesOf = (text: string) => markdownTokens(text)?.map(({ type }) => type);

describe('Markdown of agents', () => {
  it.each([
    ['# Title\n\nA paragraph', ['heading', 'space', 'paragraph']],
    ['- one\n- two', ['list']],
    ['```sh\nls\n```', ['code']],
    ['| a |\n|---|\n| b |', ['table']],
    ['<script>alert(1)</script>', ['html']],
  ])('%j is read in its parts', (text, types) => {
    expect(typesOf(text)).toEqual(types);
  });

  it.each([
    ['a long text', 'a'.repeat(maxMarkdownLength + 1)],
    ['deep quotes', '>'.repeat(5_000)],
    ['deep quotes with spaces', '> '.repeat(4_000)],
  ])('%s stays a text', (_name, text) => {
    expect(markdownTokens(text)).toBeUndefined();
  });

  it.each([
    ['https://example.org/a?b#c', true],
    ['http://127.0.0.1:3000', true],
    ['javascript:alert(1)', false],
    ['JaVaScRiPt:alert(1)', false],
    ['data:text/html,<script>alert(1)</script>', false],
    ['vbscript:x', false],
    ['file:///etc/passwd', false],
    ['//evil.example', false],
    ['/logout', false],
    ['', false],
  ])('a link to %j may open: %s', (href, may) => {
    expect(safeAddress(href)).toBe(may ? href : undefined);
  });
});
