import fc from 'fast-check';
import { isOpen, isSafePath, parsePath } from '../../../../src/gateway/proxy/address.ts';

describe('a path of the proxy', () => {
  it.each([
    ['/sandboxes/sbx-1/AGENT_SERVER', 'sbx-1', '/'],
    ['/sandboxes/sbx-1/AGENT_SERVER/', 'sbx-1', '/'],
    ['/sandboxes/sbx-1/AGENT_SERVER?x=1', 'sbx-1', '/?x=1'],
    ['/sandboxes/sbx-1/AGENT_SERVER/api/a%2Fb?path=%2F..%2F', 'sbx-1', '/api/a%2Fb?path=%2F..%2F'],
    ['/sandboxes/my.box/AGENT_SERVER//double', 'my.box', '//double'],
  ])('%s is %s and %s', (target, sandbox, path) => {
    expect(parsePath(target)).toEqual({
      sandbox,
      portName: 'AGENT_SERVER',
      path,
      prefix: `/sandboxes/${sandbox}/AGENT_SERVER`,
    });
  });

  it.each([
    '/',
    '*',
    '',
    '/sandboxes',
    '/sandboxes/',
    '/sandboxes/sbx-1',
    '/sandboxes/sbx-1/',
    '/sandboxes//AGENT_SERVER/',
    '/sandboxes/../AGENT_SERVER/',
    '/sandboxes/./AGENT_SERVER/',
    '/sandboxes/%73bx-1/AGENT_SERVER/',
    '/sandboxes/SBX/AGENT_SERVER/',
    '/sandboxes/sbx-1/agent_server/',
    '/sandboxes/sbx-1/VSCODE/',
    '/sandboxes/sbx-1/8000/',
    '/sandboxes/sbx-1/AGENT_SERVERS/',
    '/sandboxes/sbx-1/AGENT_SERVER%2f/',
    '/sandboxes/sbx-1%2fAGENT_SERVER/',
    '/sandboxes/127.0.0.1:80/AGENT_SERVER/',
    '/sandboxes/user@host/AGENT_SERVER/',
    'http://gateway/sandboxes/sbx-1/AGENT_SERVER/',
    '//sandboxes/sbx-1/AGENT_SERVER/',
    '/api/../sandboxes/sbx-1/AGENT_SERVER/',
  ])('%s is none', (target) => {
    expect(parsePath(target)).toBeUndefined();
  });
});

const unquoted = (text: string) =>
  text.replaceAll(/%([0-9A-Fa-f]{2})/g, (_all, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );

describe('a path that is safe to pass on', () => {
  it.each([
    '/',
    '/a/b',
    '/a//b',
    '/a%20b',
    '/a%2Fb',
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
        const [pathname = ''] = path.split('?');
        expect(url.pathname.split('/').map(unquoted)).toEqual(pathname.split('/').map(unquoted));
      }),
      { numRuns: 2000 },
    );
  });
});

describe('what needs no key', () => {
  it.each([
    ['GET', '/alive', true],
    ['HEAD', '/health', true],
    ['GET', '/ready?x', true],
    ['GET', '/server_info', true],
    ['POST', '/alive', false],
    ['GET', '/alive/', false],
    ['GET', '/Alive', false],
    ['GET', '//alive', false],
    ['GET', '/%61live', false],
    ['GET', '/alive/../api', false],
    ['GET', '/', false],
    ['GET', '/api/conversations', false],
  ])('%s %s: %s', (method, path, expected) => {
    expect(isOpen(method, path)).toBe(expected);
  });
});
