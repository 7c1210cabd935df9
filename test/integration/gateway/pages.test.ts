import { createHash } from 'node:crypto';
import { createContext, Script } from 'node:vm';
import { newUuid } from '@conversation-operator/kube/uuid';
import { startTaskIdOf } from '../../../src/resources/ids.ts';
import { eventually } from '../../support/eventually.ts';
import { TestGateway } from '../../support/gateway/test-gateway.ts';

const id = newUuid(Date.now());
const hashOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

describe('pages', () => {
  let gateway: TestGateway;
  beforeAll(async () => {
    gateway = await TestGateway.start();
    await gateway.addConversation(id, {
      spec: { title: 'A <b>bold</b> one', repository: { name: 'owner/name', branch: 'topic' } },
      status: { sandboxName: 'sbx-1' },
    });
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

  it.each([['/docs'], [`/conversations/${id}`]])(
    '%s takes nothing from elsewhere and runs only its own code',
    async (path) => {
      const { status, headers, html } = await read(path);
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
      const scripts = [...html.matchAll(/<script[^>]*>([^]*?)<\/script>/g)].map(
        ([, script = '']) => script,
      );
      expect(policy.includes('script-src')).toBe(scripts.length > 0);
      for (const script of scripts) expect(policy).toContain(`script-src ${hashOf(script)}`);
      expect(html).not.toMatch(/ on\w+=| style=| src=|<link|<img|<iframe|javascript:/);
      expect(
        [...html.matchAll(/href="([^"#]+)"/g)]
          .map(([, href]) => href)
          .filter((href) => href !== 'openapi.json'),
      ).toEqual([]);
    },
  );

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

  it('/conversations/{id} is the same for everybody, whether there is one or not', async () => {
    const { html } = await read(`/conversations/${id}`);
    expect((await read(`/conversations/${newUuid(Date.now())}`)).html).toBe(html);
    expect((await read('/conversations/%3Cscript%3E')).html).toBe(html);
    expect(html).not.toContain(id);
  });

  /** As much of a browser's document as the page's script uses. */
  class FakeElement {
    textContent = '';
    value = '';
    children: readonly FakeElement[] = [];
    submit: (event: { preventDefault: () => void }) => void = () => undefined;
    addEventListener(_type: string, listener: FakeElement['submit']): void {
      this.submit = listener;
    }
    replaceChildren(...children: readonly FakeElement[]): void {
      this.children = children;
    }
  }

  const openPage = async (path: string) => {
    const [, script = ''] = /<script>([^]*?)<\/script>/.exec((await read(path)).html) ?? [];
    const elements: Readonly<Record<string, FakeElement>> = {
      title: new FakeElement(),
      open: new FakeElement(),
      key: new FakeElement(),
      notice: new FakeElement(),
      facts: new FakeElement(),
    };
    const timers: (() => void)[] = [];
    const page = {
      document: {
        getElementById: (name: string) => elements[name],
        createElement: () => new FakeElement(),
      },
      location: new URL(path, gateway.url),
      fetch,
      setTimeout: (callback: () => void) => timers.push(callback),
      clearTimeout: () => timers.splice(0),
    };
    new Script(script).runInContext(createContext(page));
    const text = (name: string) => elements[name]?.textContent ?? '';
    return {
      timers,
      text,
      key: () => elements['key']?.value,
      facts: () => elements['facts']?.children.map(({ textContent }) => textContent) ?? [],
      give: (key: string) => {
        if (elements['key'] !== undefined) elements['key'].value = key;
        elements['open']?.submit({ preventDefault: () => undefined });
      },
    };
  };

  it.each([
    ['its id', id, ['Sandbox', 'STARTING, starting', 'Conversation', id]],
    ["its start task's id", startTaskIdOf(id), ['Start', 'WORKING']],
  ])(
    'shows a conversation under %s once it has a key, and polls again',
    async (_case, shown, facts) => {
      const page = await openPage(`/conversations/${shown}`);
      page.give(`${gateway.alice} `);
      await eventually(
        'the facts are there',
        () => page.facts().length > 0 && page.timers.length > 0,
      );
      expect(page.facts()).toEqual(
        expect.arrayContaining([...facts, 'Repository', 'owner/name, topic']),
      );
      // As text: nothing of it becomes markup.
      expect(page.text('title')).toBe('A <b>bold</b> one');
      expect(page.key()).toBe('');
      for (const poll of page.timers.splice(0)) poll();
      await eventually('it has polled again', () => page.timers.length > 0);
    },
  );

  it.each<[string, () => string, string, RegExp]>([
    ['a wrong key', () => 'co_wrong', id, /API key is missing or not valid/],
    ["another owner's key", () => gateway.bob, id, /no such conversation among those of this key/],
    ['an id that is none', () => gateway.alice, 'none', /must be a UUID/],
  ])('shows nothing with %s, and asks no more', async (_case, key, shown, notice) => {
    const page = await openPage(`/conversations/${shown}`);
    page.give(key());
    await eventually('it says why', () => notice.test(page.text('notice')));
    expect(page.facts()).toEqual([]);
    expect(page.timers).toEqual([]);
  });

  it('keeps the key out of storage, and text out of markup', async () => {
    const { html } = await read(`/conversations/${id}`);
    expect(html).not.toMatch(/sessionStorage|localStorage|cookie|innerHTML|eval\(/);
  });
});
