import { HostTemplate } from '../../../../src/gateway/proxy/addressing.ts';

describe('a template of host names', () => {
  const template = new HostTemplate('https://{sandbox}-{port}.agents.example.com');

  it('gives an origin', () => {
    expect(template.urlOf('sbx-1')).toBe('https://sbx-1-agent-server.agents.example.com');
    expect(
      new HostTemplate('http://x-{sandbox}--{port}-y.localhost.test:8080/').urlOf('sbx-1'),
    ).toBe('http://x-sbx-1--agent-server-y.localhost.test:8080');
  });

  it('gives none to a name that fits into no label', () => {
    expect(template.urlOf('a.b')).toBeUndefined();
    expect(template.urlOf('a'.repeat(51))).toBeUndefined();
    expect(template.urlOf('a'.repeat(50))).toBeDefined();
  });

  it.each([
    'sbx-1-agent-server.agents.example.com',
    'SBX-1-Agent-Server.agents.example.com:443',
    'sbx-1-agent-server.agents.example.com.',
    'sbx-1-agent-server.agents.example.com.:8443',
  ])('knows %s', (host) => {
    expect(template.match(host)).toBe('sbx-1');
  });

  it.each([
    '',
    'agents.example.com',
    '-agent-server.agents.example.com',
    'sbx-1.agents.example.com',
    'sbx-1-vscode.agents.example.com',
    'a.sbx-1-agent-server.agents.example.com',
    'sbx-1-agent-server.agents.example.com.evil.com',
    'sbx-1-agent-server.agents.example.com@evil.com',
    'sbx-1-agent-server-agents.example.com',
    '127.0.0.1:3000',
    '[::1]:3000',
  ])('does not know %s', (host) => {
    expect(template.match(host)).toBeUndefined();
  });

  it.each([
    'https://agents.example.com',
    'https://{sandbox}.agents.example.com',
    'https://{sandbox}.{port}.example.com',
    'https://{sandbox}-{port}',
    'ftp://{sandbox}-{port}.example.com',
    'https://{sandbox}-{port}.example.com/path',
    '{sandbox}-{port}.example.com',
    'https://{port}-{sandbox}.example.com',
    'https://{sandbox}{port}.example.com',
  ])('is not %s', (text) => {
    expect(() => new HostTemplate(text)).toThrow('must have the form');
  });
});
