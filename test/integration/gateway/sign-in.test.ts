import { SandboxKeys } from '../../../src/agent/keys.ts';
import { systemClock } from '@conversation-operator/base/clock';
import { maxChainLength } from '../../../src/gateway/auth/key-ring.ts';
import { createLoginLink } from '../../../src/gateway/sign-in/sessions.ts';
import { apiKeys } from '../../../src/resources/api-key.ts';
import { eventually } from '../../support/eventually.ts';
import { CookieBrowser } from '../../support/gateway/cookie-browser.ts';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';

describe('A person signs in', () => {
  let gateway: TestGateway;
  let now = 0;
  const clock = { ...systemClock, now: () => now };
  beforeEach(async () => {
    now = Date.now();
    gateway = await TestGateway.start({ clock });
  });
  afterEach(() => gateway.stop());

  /** A link, once the gateway has seen its ApiKey. */
  async function aLink(owner = 'alice', role: 'user' | 'admin' = 'user'): Promise<string> {
    const { client, url } = gateway;
    const link = await createLoginLink({ client, namespace, clock, url, owner, role });
    const path = link.slice(url.length);
    await eventually('the link is known', () =>
      Promise.resolve(
        gateway.caches.apiKeys.store
          .list()
          .some(({ spec }) => spec.signIn === 'Link' && spec.owner === owner),
      ),
    );
    return path;
  }

  const signInKeys = () =>
    gateway.caches.apiKeys.store.list().filter(({ spec }) => spec.signIn !== undefined);

  const withKey = async (key = gateway.alice) => {
    const browser = new CookieBrowser(gateway);
    expect((await browser.submit('/login', { api_key: key })).status).toBe(303);
    return browser;
  };

  it('by a link, which works once', async () => {
    const link = await aLink();
    const browser = new CookieBrowser(gateway);
    const { status, headers } = await browser.signInBy(`${link}&return_to=/c/1`);
    expect([status, headers.location]).toEqual([303, './c/1']);
    expect(headers['set-cookie']).toEqual([
      expect.stringMatching(
        new RegExp(
          `^conversation-operator-${gateway.port}=[\\w-]+; Path=/; Max-Age=604800; HttpOnly; SameSite=Lax$`,
        ),
      ),
    ]);
    expect(await browser.owner()).toBe('alice');
    const other = new CookieBrowser(gateway);
    const again = await other.open(link);
    expect([again.status, again.headers['set-cookie']]).toEqual([401, undefined]);
    expect(again.text).toContain('login-link');
    expect(await other.owner()).toBe(401);
  });

  it('by one of two concurrent uses of a link on two replicas', async () => {
    const replica = await gateway.replica({ clock });
    try {
      const link = await aLink();
      await eventually('the replica knows the link', () =>
        Promise.resolve(replica.caches.apiKeys.store.list().length === 3),
      );
      const browsers = [new CookieBrowser(gateway), new CookieBrowser(replica)];
      const answers = await Promise.all(browsers.map((browser) => browser.signInBy(link)));
      expect(answers.map(({ status }) => status).sort()).toEqual([303, 401]);
      expect(await gateway.client.list(apiKeys, { namespace })).toMatchObject({
        items: { length: 3 },
      });
    } finally {
      await replica.stop();
    }
  });

  it('on one replica, and is known on another at once', async () => {
    const replica = await gateway.replica({ clock });
    try {
      const browser = new CookieBrowser(gateway);
      await browser.signInBy(await aLink());
      expect(
        await new CookieBrowser(replica, browser.cookie).fetch('GET', '/api/v1/users/me'),
      ).toMatchObject({ status: 401 });
      const [, value = ''] = browser.cookie?.split('=') ?? [];
      const cookie = `conversation-operator-${replica.port}=${value}`;
      expect(await new CookieBrowser(replica, cookie).owner()).toBe('alice');
    } finally {
      await replica.stop();
    }
  });

  it.each([
    ['is wrong', () => `/login?token=co_${'x'.repeat(38)}`],
    ['is no token', () => '/login?token=%3Cscript%3E'],
    ['is an API key', () => `/login?token=${gateway.alice}`],
  ])('not by a link that %s', async (_why, link) => {
    const browser = new CookieBrowser(gateway);
    const { status, headers, text } = await browser.open(link());
    expect([status, headers['set-cookie']]).toEqual([401, undefined]);
    expect(text).not.toContain('<script>');
  });

  it('not by a link after 10 minutes', async () => {
    const link = await aLink();
    now += 10 * 60_000 + 1;
    expect((await new CookieBrowser(gateway).open(link)).status).toBe(401);
  });

  it.each<[string, string, Record<string, string>]>([
    ['a scanner of mails without headers of a browser', 'GET', {}],
    [
      'a scanner that drives a whole browser',
      'GET',
      { 'sec-fetch-site': 'none', 'sec-fetch-mode': 'navigate', 'sec-fetch-user': '?1' },
    ],
    ['a chat that shows a preview', 'HEAD', {}],
    [
      'a browser that loads it in advance',
      'GET',
      { 'sec-fetch-site': 'none', 'sec-purpose': 'prefetch;prerender' },
    ],
    ['another site over plain http', 'GET', { referer: 'http://evil.example/' }],
  ])('once by a link that was opened before by %s', async (_who, method, headers) => {
    const link = await aLink();
    const opened = await new CookieBrowser(gateway).send(method, link, { headers });
    expect([opened.status, opened.headers['set-cookie']]).toEqual([200, undefined]);
    const browser = new CookieBrowser(gateway);
    expect((await browser.signInBy(link)).status).toBe(303);
    expect(await browser.owner()).toBe('alice');
    expect((await new CookieBrowser(gateway).signInBy(link)).status).toBe(401);
  });

  it('not with the key of a link as an API key', async () => {
    const [, key = ''] = (await aLink()).split('=');
    expect((await gateway.get('/api/v1/users/me', { key })).status).toBe(401);
    expect((await new CookieBrowser(gateway).submit('/login', { api_key: key })).status).toBe(401);
  });

  it('by the form, until the key is revoked', async () => {
    const browser = await withKey();
    expect(await browser.owner()).toBe('alice');
    const { json } = await gateway.get('/api/keys/current');
    await gateway.client.delete(apiKeys, namespace, (json as { id: string }).id);
    await eventually('the session has ended', async () => (await browser.owner()) === 401);
  });

  it('not with a key that ends a chain of the maximum length', async () => {
    let key = gateway.alice;
    for (let made = 1; made < maxChainLength; made += 1) {
      const { json } = await gateway.post('/api/keys', { name: 'next' }, { key });
      ({ key } = json as { key: string });
    }
    const { status, json } = await new CookieBrowser(gateway).submit('/login', { api_key: key });
    expect([status, json]).toEqual([409, expect.objectContaining({ code: 'key-depth-exceeded' })]);
    expect((await gateway.get('/api/v1/users/me', { key })).status).toBe(200);
  });

  it('not with a wrong key in the form, and the page shows why', async () => {
    const browser = new CookieBrowser(gateway);
    const { status, text } = await browser.submit('/login', { api_key: '<b>', return_to: '"><b>' });
    expect([status, browser.cookie]).toEqual([401, undefined]);
    expect(text).toContain('The API key is not valid.');
    expect(text).not.toContain('"><b>');
  });

  it('for 7 days at most, and never longer than the key', async () => {
    const browser = await withKey();
    now += 7 * 86_400_000 - 1000;
    expect(await browser.owner()).toBe('alice');
    now += 1000;
    expect(await browser.owner()).toBe(401);
    const issued = await gateway.post('/api/keys', {
      name: 'short',
      expires_at: new Date(now + 60_000).toISOString(),
    });
    const short = await withKey((issued.json as { key: string }).key);
    now += 60_000;
    expect(await short.owner()).toBe(401);
  });

  it('with the role of the link, whose session ends with its maker', async () => {
    const { client, url } = gateway;
    const [issuer] = gateway.caches.apiKeys.store.list().filter(({ spec }) => spec.owner === 'bob');
    if (issuer === undefined) throw new Error('bob has no key');
    const options = {
      client,
      namespace,
      clock,
      url,
      owner: 'root',
      role: 'admin',
      issuer,
    } as const;
    const link = await createLoginLink(options);
    await eventually('the link is known', () => Promise.resolve(signInKeys().length === 1));
    const browser = new CookieBrowser(gateway);
    await browser.signInBy(link.slice(url.length));
    // The chain has the lowest role of its keys.
    expect((await browser.fetch('GET', '/api/v1/users/me')).json).toMatchObject({
      id: 'root',
      role: 'user',
    });
    await client.delete(apiKeys, namespace, issuer.metadata.name);
    await eventually('the session has ended', async () => (await browser.owner()) === 401);
  });

  it('and out, which ends the session everywhere', async () => {
    const browser = new CookieBrowser(gateway);
    await browser.signInBy(await aLink());
    const stolen = new CookieBrowser(gateway, browser.cookie);
    expect(await stolen.owner()).toBe('alice');
    const { status, headers } = await browser.submit('/logout', {});
    expect([status, headers.location, browser.cookie]).toEqual([303, './login', undefined]);
    expect(await stolen.owner()).toBe(401);
    expect(signInKeys()).toEqual([]);
  });

  it('and out of a session of an API key, which stays valid', async () => {
    const browser = await withKey();
    const stolen = new CookieBrowser(gateway, browser.cookie);
    await browser.submit('/logout', {});
    expect(browser.cookie).toBeUndefined();
    expect(await stolen.owner()).toBe(401);
    expect((await gateway.get('/api/v1/users/me')).status).toBe(200);
  });

  it('fifty times, of which the oldest session ends with the next', async () => {
    for (let index = 0; index < 51; index++) {
      await new CookieBrowser(gateway).signInBy(await aLink());
      await eventually('the link is gone', () =>
        Promise.resolve(signInKeys().every(({ spec }) => spec.signIn === 'Session')),
      );
    }
    expect(signInKeys()).toHaveLength(50);
    // They are none of the keys that a person may make.
    expect((await gateway.post('/api/keys', { name: 'one more' })).status).toBe(201);
  });

  it('and earlier links and sessions that have expired are deleted', async () => {
    await aLink();
    await new CookieBrowser(gateway).signInBy(await aLink('bob'));
    now += 8 * 86_400_000;
    await new CookieBrowser(gateway).signInBy(await aLink('bob'));
    await eventually('only the new session of bob is left', () =>
      Promise.resolve(signInKeys().filter(({ spec }) => spec.owner === 'bob').length === 1),
    );
  });

  describe('and pages elsewhere', () => {
    it.each<[string, Record<string, string>]>([
      ['another site', { origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }],
      ['a sandbox', { origin: 'http://127.130.0.1', 'sec-fetch-site': 'cross-site' }],
      ['another port', { origin: 'http://127.0.0.1:1', 'sec-fetch-site': 'same-site' }],
      ['a page without an origin', { origin: 'null', 'sec-fetch-site': 'cross-site' }],
      ['a forged origin', { origin: 'https://evil.example', 'sec-fetch-site': 'same-origin' }],
      ['no origin', { 'sec-fetch-site': 'same-origin' }],
      ['no site', { origin: 'own' }],
    ])('cannot write with the session: %s', async (_where, { origin, ...site }) => {
      const browser = await withKey();
      const headers = {
        ...site,
        ...(origin === undefined ? {} : { origin: origin === 'own' ? gateway.url : origin }),
      };
      for (const [method, path] of [
        ['POST', '/api/v1/app-conversations'],
        ['POST', '/api/keys'],
        ['POST', '/logout'],
        ['POST', '/login'],
      ] as const) {
        const { status } = await browser.fetch(method, path, {}, headers);
        expect([path, status === 401 || status === 403]).toEqual([path, true]);
      }
      expect(await browser.owner()).toBe('alice');
      expect(gateway.caches.apiKeys.store.list()).toHaveLength(3);
    });

    it('cannot read with the session', async () => {
      const browser = await withKey();
      for (const site of ['cross-site', 'same-site']) {
        const { status } = await browser.fetch('GET', '/api/v1/users/me', undefined, {
          'sec-fetch-site': site,
        });
        expect([site, status]).toEqual([site, 401]);
      }
    });

    it('open no agent with a stolen cookie, at the address of its sandbox', async () => {
      await gateway.addSandbox('sbx-1', {});
      const { cookie = '' } = await withKey();
      const value = cookie.split('=')[1] ?? '';
      const at = '/sandboxes/sbx-1/AGENT_SERVER/api/conversations';
      for (const headers of [{ cookie }, { 'x-session-api-key': value }]) {
        const { status } = await gateway.get(at, { key: null, headers });
        expect(status).toBe(401);
      }
      expect((await gateway.get(at, { key: value })).status).toBe(401);
    });

    it('cannot sign a person in as another owner: the page asks first', async () => {
      const link = await aLink('mallory');
      for (const browser of [new CookieBrowser(gateway), await withKey()]) {
        const before = browser.cookie;
        const { status, text } = await browser.open(link);
        expect([status, browser.cookie]).toEqual([200, before]);
        expect(text).toContain('Sign in as mallory?');
      }
      // Nor does a link replace the session of another person without a question.
      const alice = await withKey();
      expect((await alice.open(link)).text).toContain('signed in as <b>alice</b> now');
      const token = link.slice(link.indexOf('=') + 1);
      expect((await alice.submit('/login', { token })).status).toBe(303);
      expect(await alice.owner()).toBe('mallory');
    });

    it('cannot fix a session: every sign-in gets another cookie', async () => {
      const browser = new CookieBrowser(gateway, `conversation-operator-${gateway.port}=chosen`);
      await browser.signInBy(await aLink());
      const [first] = [browser.cookie];
      expect(first).not.toContain('chosen');
      await browser.submit('/login', { api_key: gateway.alice });
      expect(browser.cookie).not.toBe(first);
    });

    it.each([
      'https://evil.example/',
      'https:evil.example',
      '\\\\evil.example',
      '/\n/evil.example',
      '%2f%2fevil.example',
      '//evil.example/',
      '/\\evil.example/',
      '/%5cevil.example',
      '/./ /evil',
      '/..//evil.example/',
      'javascript:alert(1)',
      '/\t/evil.example',
      `/${'x'.repeat(3000)}`,
    ])('are never the page after a sign-in: %s', async (wanted) => {
      const browser = new CookieBrowser(gateway);
      const fields = { api_key: gateway.alice, return_to: wanted };
      const { headers } = await browser.submit('/login', fields);
      const target = new URL(headers.location ?? '', `${gateway.url}/login`);
      expect(target.origin).toBe(gateway.url);
      expect(target.pathname.startsWith('//')).toBe(false);
    });
  });

  describe('and a cookie is refused that', () => {
    const cookieOf = async (of: TestGateway) => (await signIn(of)).cookie ?? '';
    const signIn = async (of: TestGateway) => {
      const browser = new CookieBrowser(of);
      await browser.submit('/login', { api_key: of.alice });
      return browser;
    };

    it('was changed', async () => {
      const cookie = await cookieOf(gateway);
      const [name = '', value = ''] = cookie.split('=');
      for (const at of [0, 14, 30, value.length - 2]) {
        const changed = `${value.slice(0, at)}${value[at] === 'A' ? 'B' : 'A'}${value.slice(at + 1)}`;
        expect(await new CookieBrowser(gateway, `${name}=${changed}`).owner()).toBe(401);
      }
      expect(await new CookieBrowser(gateway, `${name}=${value}; ${name}=${value}`).owner()).toBe(
        401,
      );
      expect(await new CookieBrowser(gateway, `${name}=${'A'.repeat(5000)}`).owner()).toBe(401);
    });

    it('another installation has sealed', async () => {
      const keys = new SandboxKeys([Buffer.alloc(32, 8)]);
      const other = await TestGateway.start({ keys });
      try {
        const [, value = ''] = (await cookieOf(other)).split('=');
        expect(
          await new CookieBrowser(
            gateway,
            `conversation-operator-${gateway.port}=${value}`,
          ).owner(),
        ).toBe(401);
      } finally {
        await other.stop();
      }
    });
  });

  it('behind TLS with a cookie that no other host can set', async () => {
    const secure = await TestGateway.start({ publicUrl: 'https://agents.example.com/' });
    try {
      const host = { host: 'agents.example.com' };
      const own = { origin: 'https://agents.example.com', 'sec-fetch-site': 'same-origin' };
      const answer = await secure.send('POST', '/login', {
        key: null,
        rawBody: new URLSearchParams({ api_key: secure.alice }).toString(),
        headers: { ...host, ...own, 'content-type': 'application/x-www-form-urlencoded' },
      });
      const [line = ''] = answer.headers['set-cookie'] ?? [];
      expect(line).toMatch(/^__Host-conversation-operator=[^;]+; Path=\/; .*HttpOnly; .*; Secure$/);
      const [cookie = ''] = line.split(';');
      const me = await secure.get('/api/v1/users/me', { key: null, headers: { ...host, cookie } });
      expect(me.json).toMatchObject({ id: 'alice' });
    } finally {
      await secure.stop();
    }
  });

  it('and nothing of it is in a log', async () => {
    const link = await aLink();
    const browser = new CookieBrowser(gateway);
    await browser.signInBy(link);
    await browser.submit('/login', { api_key: gateway.alice });
    const lines = JSON.stringify(gateway.log);
    expect(lines).not.toContain(link.slice(link.indexOf('=') + 1));
    expect(lines).not.toContain(browser.cookie?.split('=')[1]);
  });

  it('with the same failures as for API keys counted for an address', async () => {
    const limited = await TestGateway.start({ rateLimits: { failedKeysPerMinute: 3 } });
    try {
      const browser = new CookieBrowser(limited);
      const statuses = [];
      for (let index = 0; index < 5; index++)
        statuses.push((await browser.submit('/login', { api_key: 'co_wrong' })).status);
      expect(statuses).toEqual([401, 401, 401, 429, 429]);
    } finally {
      await limited.stop();
    }
  });

  it('and the web UI asks whether one has', async () => {
    const browser = await withKey();
    expect((await browser.fetch('POST', '/api/authenticate')).json).toEqual({ success: true });
    expect((await new CookieBrowser(gateway).fetch('POST', '/api/authenticate')).status).toBe(401);
  });
});
