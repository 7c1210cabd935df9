import { isOpen, parsePath } from '../../../../src/gateway/proxy/addressing.ts';

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
