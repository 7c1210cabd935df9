import { createHash } from 'node:crypto';
import { TestGateway } from '../../support/gateway/test-gateway.ts';

const hashOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

describe('pages', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await TestGateway.start();
  });
  afterAll(() => gateway.stop());

  const read = async (path: string) => {
    const response = await gateway.open('GET', path, { key: null });
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk as Buffer);
    return {
      status: response.statusCode,
      headers: response.headers,
      html: Buffer.concat(chunks).toString(),
    };
  };

  it('/docs takes nothing from elsewhere and has no code', async () => {
    const { status, headers, html } = await read('/docs');
    expect(status).toBe(200);
    expect(headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'x-frame-options': 'DENY',
      'referrer-policy': 'same-origin',
      'cross-origin-opener-policy': 'same-origin',
      'x-content-type-options': 'nosniff',
    });
    const policy = String(headers['content-security-policy']);
    expect(policy).toMatch(/^default-src 'none'; /);
    expect(policy).not.toMatch(/unsafe|\*|https?:/);
    const [, style = ''] = /<style>([^]*?)<\/style>/.exec(html) ?? [];
    expect(policy).toContain(`style-src ${hashOf(style)}`);
    expect(policy).not.toContain('script-src');
    expect(html).not.toMatch(/<script| on\w+=| style=| src=|<link|<img|<iframe|javascript:/);
    const addresses = [...html.matchAll(/href="([^"#]+)"/g)].map(([, href]) => href);
    expect(new Set(addresses)).toEqual(new Set(['./', 'openapi.json']));
  });

  it('/docs shows every operation and every schema', async () => {
    const { html } = await read('/docs');
    const document = (await gateway.get('/openapi.json', { key: null })).json as {
      components: { schemas: object };
    };
    for (const { operationId } of gateway.gateway.routes)
      expect(html).toContain(`<details id="${operationId}">`);
    for (const name of Object.keys(document.components.schemas))
      expect(html).toContain(`<details id="schema-${name}">`);
    for (const [, name] of html.matchAll(/href="#([^"]+)"/g))
      expect(html).toContain(`id="${name ?? ''}"`);
  });

  it('/docs says in one line what a parameter may be', async () => {
    const { html } = await read('/docs');
    const [, operation = ''] =
      /<details id="searchConversations">([^]*?)<h4>Answers/.exec(html) ?? [];
    expect(operation).toContain('<code>integer; default 100; minimum 1; maximum 100</code>');
    expect(operation).toMatch(/<code>string; [^<]*enum [^<]*, TITLE_DESC<\/code>/);
    expect(operation).not.toContain('<pre>');
  });
});
