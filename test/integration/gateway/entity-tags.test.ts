import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { TestGateway } from '../../support/gateway/test-gateway.ts';

describe('what is static', () => {
  const folder = mkdtempSync(join(tmpdir(), 'static-'));
  const [web, ui] = [join(folder, 'web'), join(folder, 'ui')];
  let gateway: TestGateway;
  let cookie: string;
  beforeAll(async () => {
    mkdirSync(join(web, 'parts'), { recursive: true });
    writeFileSync(join(web, 'app.js'), 'void 0;');
    writeFileSync(join(web, 'styles.css'), 'p {}');
    mkdirSync(join(ui, 'assets'), { recursive: true });
    writeFileSync(join(ui, 'index.html'), '<!doctype html><title>UI</title>');
    writeFileSync(join(ui, 'assets', 'a.js.gz'), gzipSync('void 1;'));
    writeFileSync(join(ui, 'icon.png'), 'x');
    gateway = await TestGateway.start({ webDirectory: web, uiDirectory: ui });
    const login = await fetch(`${gateway.url}/login`, {
      method: 'POST',
      redirect: 'manual',
      headers: { origin: gateway.url, 'sec-fetch-site': 'same-origin' },
      body: new URLSearchParams({ api_key: gateway.alice }),
    });
    cookie = login.headers.get('set-cookie')?.split(';')[0] ?? '';
  });
  afterAll(async () => {
    await gateway.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const read = (path: string, headers: Readonly<Record<string, string>> = {}) =>
    fetch(`${gateway.url}${path}`, {
      headers: { cookie, 'cache-control': 'max-age=0', ...headers },
      redirect: 'manual',
    });
  const script = async () =>
    /src="(\/_web\/[^"]+)"/.exec(await (await read('/')).text())?.[1] ?? 'no script';

  it.each<[string, () => Promise<string> | string]>([
    ['the document of the interface', () => '/openapi.json'],
    ['the same for people', () => '/docs'],
    ['a page', () => '/'],
    ['the page of a conversation', () => '/c/1'],
    ['the script of the pages', script],
    ['a page of the web UI', () => '/conversations/1'],
    ['a file of the web UI', () => '/icon.png'],
    ['a packed file of the web UI', () => '/assets/a.js'],
  ])('is sent once to a client that keeps it: %s', async (_case, pathOf) => {
    const path = await pathOf();
    const first = await read(path);
    const tag = first.headers.get('etag') ?? '';
    expect([first.status, tag]).toEqual([200, expect.stringMatching(/^"[\w-]{43}"$/)]);
    expect((await first.arrayBuffer()).byteLength).toBeGreaterThan(0);

    for (const sent of [tag, `W/${tag}`, `"other", ${tag}`, '*']) {
      const again = await read(path, { 'if-none-match': sent });
      expect([again.status, await again.text()]).toEqual([304, '']);
      expect(again.headers.get('etag')).toBe(tag);
      expect(again.headers.get('content-type')).toBeNull();
      expect(again.headers.get('cache-control')).toBe(first.headers.get('cache-control'));
      expect(again.headers.get('content-security-policy')).toBe(
        first.headers.get('content-security-policy'),
      );
    }
    expect((await read(path, { 'if-none-match': '"other"' })).status).toBe(200);
  });

  it('has another tag in another form', async () => {
    const path = await script();
    const tags = await Promise.all(
      ['gzip', 'identity'].map(async (form) =>
        (await read(path, { 'accept-encoding': form })).headers.get('etag'),
      ),
    );
    expect(new Set(tags).size).toBe(2);
  });

  it('is asked for with a session each time: a tag opens no page', async () => {
    const answer = await read('/', { cookie: '', 'if-none-match': '*' });
    expect(answer.status).toBe(303);
  });
});
