import fc from 'fast-check';
import { isSafePath } from '../../src/server/request-head.ts';

const unquoted = (text: string) =>
  text.replaceAll(/%([0-9A-Fa-f]{2})/g, (_all, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );

describe('a path that is safe to pass on', () => {
  it.each([
    '/',
    '/a/b',
    '/a%20b',
    '/a%2Fb',
    '/a//b',
    '/.well-known/x',
    '/...',
    '/a..b/',
    '/a?x=%2e%2e/../',
    '/a;v=1/b',
    "/~!$&'()*+,=:@[]",
  ])('%s', (path) => {
    expect(isSafePath(path)).toBe(true);
  });

  it.each([
    '',
    '*',
    'a',
    'http://evil/',
    '/..',
    '/a/../b',
    '/a/./b',
    '//evil.example/',
    '//',
    '/%2f%2Fevil.example/',
    '/%2fevil.example/',
    '/./evil.example/',
    '/.//evil.example/',
    '/%2e%2fevil.example/',
    '/\\evil.example/',
    '/%5Cevil.example/',
    '/%2e%2e/b',
    '/a/.%2E',
    '/a%2f..%2fb',
    '/a%2F%2e%2e',
    '/..;/b',
    '/a\\b',
    '/a%5cb',
    '/a%00',
    '/a%0d%0aHost:x',
    '/a\r\nHost: x',
    '/a b',
    '/a#b',
    '/a%',
    '/a%zz',
    '/ä',
    '/a?b c',
    '/a?\u0000',
  ])('%j is none', (path) => {
    expect(isSafePath(path)).toBe(false);
  });

  it('leaves every URL parser at the same host and path', () => {
    const piece = fc.oneof(
      fc.constantFrom(
        '..',
        '.',
        '%2e',
        '%2F',
        '/',
        '\\',
        '//',
        '@',
        ':',
        '?',
        '#',
        '%0d',
        ' ',
        'a',
        ';',
        'http:',
      ),
      fc.string(),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const path = `/${pieces.join('')}`;
        if (!isSafePath(path)) return;
        const url = new URL(`http://10.0.0.1:8000${path}`);
        expect(url.host).toBe('10.0.0.1:8000');
        expect(new URL(path, 'http://10.0.0.1:8000/x/').host).toBe('10.0.0.1:8000');
        const [pathname = ''] = path.split('?');
        expect(url.pathname.split('/').map(unquoted)).toEqual(pathname.split('/').map(unquoted));
      }),
      { numRuns: 2000 },
    );
  });
});
