import { systemClock } from '@conversation-operator/base/clock';
import { directly } from '@conversation-operator/outward/outward';
import { eventually } from '../../support/eventually.ts';
import type { IssuerSettings } from '../../../src/gateway/sign-in/identity.ts';
import { SignInBrowser, type Visit } from '../../support/gateway/sign-in-browser.ts';
import type { AuditKind } from '../../../src/observability/audit.ts';
import { apiKeyScopes, apiKeys } from '../../../src/resources/api-key.ts';
import { namespace, TestGateway } from '../../support/gateway/test-gateway.ts';
import { TestIssuer, type Person } from '../../support/gateway/test-issuer.ts';

let company: TestIssuer;
let partner: TestIssuer;
let gateway: TestGateway;
let replica: TestGateway;
let now = 0;
const clock = { ...systemClock, now: () => Date.now() + now };

const settings = (
  name: string,
  { url }: TestIssuer,
  more: Partial<IssuerSettings> = {},
): IssuerSettings => ({
  name,
  title: `The ${name}`,
  issuer: url,
  clientId: 'gateway',
  clientSecret: 'gateway-secret',
  scopes: ['openid', 'profile'],
  nameClaim: ['name'],
  rules: [
    { claim: ['groups'], value: 'admins', role: 'admin' },
    { claim: ['groups'], value: 'developers', role: 'user' },
    { claim: ['groups'], value: 'testers', role: 'user', templates: ['default'] },
    { claim: ['groups'], value: 'visitors', role: 'viewer' },
  ],
  recheckSeconds: 900,
  ...more,
});

const ofCompany = () => ({
  issuers: [settings('company', company)],
  outward: directly,
  requireActivePerson: false,
});

beforeAll(async () => {
  [company, partner] = await Promise.all([TestIssuer.start(), TestIssuer.start()]);
  const signIn = {
    ...ofCompany(),
    issuers: [settings('company', company), settings('partner', partner)],
  };
  gateway = await TestGateway.start({ clock, signIn });
  // A proxy before both has the one address that browsers and issuers know.
  replica = await gateway.replica({ clock, signIn, publicUrl: gateway.url });
});
afterAll(async () => {
  await replica.stop();
  await gateway.stop();
  await company.stop();
  await partner.stop();
});
const alice: Person = { sub: 'alice', name: 'Alice', groups: ['developers'] };
beforeEach(() => {
  now = 0;
  for (const issuer of [company, partner]) {
    issuer.person = alice;
    issuer.forge = () => undefined;
    issuer.redirect = () => undefined;
    issuer.answer = () => false;
    issuer.userinfo = {};
    issuer.requests.length = 0;
  }
});

const at = (path: string) => new URL(path, gateway.url);
const isCallback = ({ pathname }: URL) => pathname.startsWith('/oauth/callback/');

/** Signs in as the person of the issuer; returns the last page. */
const enter = (browser: SignInBrowser, name = 'company', returnTo = '/docs'): Promise<Visit> =>
  browser.open(at(`/login/${name}?return_to=${encodeURIComponent(returnTo)}`));

/** The address at which the issuer sends the browser back, which the browser has not opened yet. */
const beforeReturn = async (browser: SignInBrowser, name = 'company'): Promise<URL> =>
  (await browser.open(at(`/login/${name}`), isCallback)).url;

const ask = async (browser: SignInBrowser, path: string, method = 'GET', body?: object) => {
  const { status, text } = await browser.visit(at(path), {
    method,
    headers: { origin: gateway.url, 'sec-fetch-site': 'same-origin' },
    ...(body === undefined ? {} : { json: JSON.stringify(body) }),
  });
  return { status, json: (text === '' ? undefined : JSON.parse(text)) as unknown };
};
const me = (browser: SignInBrowser) => ask(browser, '/api/v1/users/me');
/** The lines of the audit log of one kind. */
const lines = (kind: AuditKind) =>
  gateway.log.filter(({ message }) => message === kind).map(({ fields }) => fields);

describe('a person who signs in at an identity provider', () => {
  it('gets a session of an own owner, and the page of before', async () => {
    const browser = new SignInBrowser();
    const page = await enter(browser);
    expect([page.status, page.url.pathname]).toEqual([200, '/docs']);
    expect(await me(browser)).toEqual({
      status: 200,
      json: {
        id: 'company:alice',
        email: null,
        name: 'Alice',
        role: 'user',
        scopes: [...apiKeyScopes],
      },
    });
  });

  it('sees the providers on the page', async () => {
    const { text } = await new SignInBrowser().open(at('/login?return_to=/c/1'));
    expect(text).toContain(
      '<a href="login/company?return_to=%2Fc%2F1">Sign in with The company</a>',
    );
    expect(text).toContain('Sign in with The partner');
  });

  it('is another owner than the one of the same subject at another provider', async () => {
    const browser = new SignInBrowser();
    await enter(browser, 'partner');
    expect(await me(browser)).toMatchObject({ json: { id: 'partner:alice' } });
  });

  it('is an admin, or reads only, as the rules say', async () => {
    const browser = new SignInBrowser();
    company.person = { ...alice, groups: ['admins', 'visitors'] };
    await enter(browser);
    expect(await ask(browser, '/api/v1/admin/overview')).toMatchObject({ status: 200 });
    company.person = { ...alice, groups: ['visitors'] };
    await enter(browser);
    expect(await ask(browser, '/api/v1/admin/overview')).toMatchObject({ status: 403 });
    expect(await ask(browser, '/api/v1/app-conversations/search')).toMatchObject({ status: 200 });
    expect(await ask(browser, '/api/v1/sandboxes', 'POST')).toMatchObject({
      status: 403,
      json: { code: 'insufficient-scope' },
    });
  });

  it('starts the templates of the rules alone', async () => {
    const browser = new SignInBrowser();
    company.person = { ...alice, groups: ['testers'] };
    await enter(browser);
    expect(await ask(browser, '/api/v1/sandbox-specs/search')).toMatchObject({
      json: { items: [{ id: 'default' }] },
    });
    company.person = { ...alice, sub: 'tom', groups: ['testers'] };
    const other = new SignInBrowser();
    await enter(other);
    expect(await ask(other, '/api/v1/sandboxes?sandbox_spec_id=other', 'POST')).toMatchObject({
      status: 403,
      json: { code: 'template-not-allowed' },
    });
    expect(await ask(other, '/api/v1/sandboxes?sandbox_spec_id=default', 'POST')).toMatchObject({
      status: 200,
    });
  });

  it.each([
    ['no group', []],
    ['a group whose name begins as that of a rule', ['developers-of-others', 'admin']],
    ['a group in other letters', ['Developers']],
    ['a group that is a text with the name in it', 'x,developers,y'],
    ['groups that are objects', [{ name: 'developers' }]],
  ])('gets nothing with %s', async (_case, groups) => {
    company.person = { ...alice, groups };
    const browser = new SignInBrowser();
    const page = await enter(browser);
    expect(page.status).toBe(403);
    expect(page.text).toContain('no rule of this service gives your account a role');
    expect(lines('SignInRefused').at(-1)).toMatchObject({
      way: 'provider',
      issuer: 'company',
      client: '127.0.0.1',
      reason: expect.stringContaining('no rule of this service') as string,
    });
    expect(await me(browser)).toMatchObject({ status: 401 });
  });

  it('has the claims of userinfo too, where the ID token lacks them', async () => {
    company.person = { sub: 'ursula' };
    company.userinfo = { name: 'Ursula', groups: ['admins'] };
    const browser = new SignInBrowser();
    await enter(browser);
    expect(await me(browser)).toMatchObject({
      json: { id: 'company:ursula', name: 'Ursula', role: 'admin' },
    });
  });

  it('may begin at one replica and return to the other', async () => {
    const browser = new SignInBrowser();
    const back = await beforeReturn(browser);
    const cookies = browser.jar.get(new URL(gateway.url).host);
    const other = new URL(replica.url);
    // Cookies of a host without TLS have the port in their name; one address has one name.
    browser.jar.set(other.host, new Map(cookies));
    const { status } = await browser.visit(new URL(back.pathname + back.search, replica.url), {
      headers: { host: new URL(gateway.url).host },
    });
    expect(status).toBe(303);
  });

  it('signs out at the provider too', async () => {
    const browser = new SignInBrowser();
    await enter(browser);
    const page = await browser.visit(at('/logout'), {
      method: 'POST',
      form: {},
      headers: { origin: gateway.url, 'sec-fetch-site': 'same-origin' },
    });
    expect(page.text).toContain(`url=${company.url}/end?`);
    expect(page.text).toContain(encodeURIComponent(`${gateway.url}/login`));
    expect(await me(browser)).toMatchObject({ status: 401 });
  });
});

describe('the return from a provider is refused with', () => {
  const refused = async (browser: SignInBrowser, back: URL, status = 400) => {
    const page = await browser.visit(back);
    expect(page.status).toBe(status);
    expect(await me(browser)).toMatchObject({ status: 401 });
    return page;
  };

  it.each<[string, (token: Parameters<TestIssuer['forge']>[0]) => void]>([
    ['no signature', (token) => (token.algorithm = 'none')],
    ['the signature of another key', (token) => (token.algorithm = 'other key')],
    ['another audience', ({ claims }) => (claims['aud'] = 'another')],
    ['another issuer', ({ claims }) => (claims['iss'] = partner.url)],
    ['another nonce', ({ claims }) => (claims['nonce'] = 'another')],
    ['no nonce', ({ claims }) => delete claims['nonce']],
    ['an expiry 61 s ago', ({ claims }) => (claims['exp'] = Math.floor(Date.now() / 1000) - 61)],
    ['a start in 65 s', ({ claims }) => (claims['nbf'] = Math.floor(Date.now() / 1000) + 65)],
    ['no subject', ({ claims }) => delete claims['sub']],
    ['a subject of 256 characters', ({ claims }) => (claims['sub'] = 'x'.repeat(256))],
    ['groups of 1 MB', ({ claims }) => (claims['groups'] = ['developers', 'x'.repeat(1_000_000)])],
  ])('an ID token with %s', async (_case, forge) => {
    company.forge = forge;
    const browser = new SignInBrowser();
    await refused(browser, await beforeReturn(browser));
  });

  it.each<[string, (token: Parameters<TestIssuer['forge']>[0]) => void]>([
    ['an expiry 55 s ago', ({ claims }) => (claims['exp'] = Math.floor(Date.now() / 1000) - 55)],
    ['a start in 55 s', ({ claims }) => (claims['nbf'] = Math.floor(Date.now() / 1000) + 55)],
  ])('nothing, where clocks differ: %s', async (_case, forge) => {
    company.forge = forge;
    const browser = new SignInBrowser();
    expect((await enter(browser)).status).toBe(200);
  });

  it('another state', async () => {
    const browser = new SignInBrowser();
    const back = await beforeReturn(browser);
    back.searchParams.set('state', 'another');
    await refused(browser, back);
  });

  it('the code a second time', async () => {
    const browser = new SignInBrowser();
    const back = await beforeReturn(browser);
    expect((await browser.visit(back)).status).toBe(303);
    const thief = new SignInBrowser();
    await refused(thief, back);
    // The browser that is signed in goes on.
    const again = await browser.visit(back);
    expect([again.status, again.location]).toEqual([303, '../../']);
  });

  it('the code a second time, where the browser has kept its cookies', async () => {
    const browser = new SignInBrowser();
    const back = await beforeReturn(browser);
    const cookies = new Map(browser.jar.get(back.host));
    expect((await browser.visit(back)).status).toBe(303);
    const thief = new SignInBrowser();
    thief.jar.set(back.host, cookies);
    await refused(thief, back);
  });

  it('more failures of one address than 30, which no longer reach the provider', async () => {
    const limited = await gateway.replica({
      clock,
      publicUrl: gateway.url,
      signIn: ofCompany(),
      rateLimits: { failedKeysPerMinute: 30 },
    });
    company.requests.length = 0;
    const statuses = new Set<number>();
    for (let index = 0; index < 60; index++) {
      const browser = new SignInBrowser();
      const { location = '' } = await browser.visit(new URL('/login/company', limited.url), {
        headers: { host: new URL(gateway.url).host },
      });
      if (location === '') continue;
      const back = new URL(location).searchParams;
      const query = new URLSearchParams({
        code: 'x',
        state: back.get('state') ?? '',
        iss: company.url,
      });
      const callback = new URL(`/oauth/callback/company?${query.toString()}`, limited.url);
      const { status } = await browser.visit(callback, {
        headers: { host: new URL(gateway.url).host },
      });
      statuses.add(status);
    }
    await limited.stop();
    expect(statuses).toEqual(new Set([400]));
    expect(company.requests.filter((path) => path === '/token').length).toBeLessThanOrEqual(31);
    // Answers with errors, which anyone can cause, make the gateway read nothing anew.
    expect(company.requests.filter((path) => path.startsWith('/.well-known'))).toHaveLength(1);
  });

  it('nothing, in the tab that has begun last', async () => {
    const browser = new SignInBrowser();
    const first = await beforeReturn(browser);
    const second = await beforeReturn(browser);
    expect((await browser.visit(first)).status).toBe(400);
    expect((await browser.visit(second)).status).toBe(303);
    const again = await browser.visit(first);
    expect([again.status, again.location]).toEqual([303, '../../']);
  });

  it('the code of another person, in a browser that has begun its own sign-in', async () => {
    const attacker = new SignInBrowser();
    const back = await beforeReturn(attacker);
    const victim = new SignInBrowser();
    await beforeReturn(victim);
    await refused(victim, back);
  });

  it('the code of another person, in a browser that has begun none', async () => {
    const back = await beforeReturn(new SignInBrowser());
    await refused(new SignInBrowser(), back);
  });

  it('the address of another provider', async () => {
    const browser = new SignInBrowser();
    const back = await beforeReturn(browser);
    back.pathname = '/oauth/callback/partner';
    await refused(browser, back);
    expect(partner.requests).not.toContain('/token');
  });

  it('the name of another provider', async () => {
    company.redirect = ({ searchParams }) => searchParams.set('iss', partner.url);
    const browser = new SignInBrowser();
    await refused(browser, await beforeReturn(browser));
    expect(company.requests).not.toContain('/token');
  });

  it('a sign-in of 10 minutes ago', async () => {
    const browser = new SignInBrowser();
    const back = await beforeReturn(browser);
    now = 10 * 60_000;
    const page = await refused(browser, back);
    expect(page.text).toContain('it took more than 10 minutes');
  });

  it('a changed cookie, and a cookie of a session in its place', async () => {
    const browser = new SignInBrowser();
    const back = await beforeReturn(browser);
    const cookies = browser.jar.get(back.host) ?? new Map<string, string>();
    const [name = ''] = [...cookies.keys()].filter((one) => one.endsWith('-sign-in'));
    const sealed = cookies.get(name) ?? '';
    cookies.set(name, `${sealed.slice(0, -2)}AA`);
    await refused(browser, back);
    const signedIn = new SignInBrowser();
    await enter(signedIn);
    const session =
      [...(signedIn.jar.get(back.host) ?? new Map<string, string>()).values()][0] ?? '';
    const other = await beforeReturn(browser);
    cookies.set(name, session);
    await refused(browser, other);
    // Nor does the cookie of a sign-in open a session.
    cookies.clear();
    cookies.set(name.replace('-sign-in', ''), sealed);
    expect(await me(browser)).toMatchObject({ status: 401 });
  });

  it('what the person or the provider has refused', async () => {
    company.redirect = ({ searchParams }) => {
      searchParams.delete('code');
      searchParams.set('error', 'access_denied');
      searchParams.set('error_description', '<script>alert(1)</script>');
    };
    const browser = new SignInBrowser();
    const page = await refused(browser, await beforeReturn(browser), 403);
    expect(page.text).not.toContain('<script>');
  });

  it.each(['https://elsewhere.example/', '//elsewhere.example', '/\\elsewhere.example'])(
    'no page of another site: %s',
    async (returnTo) => {
      const browser = new SignInBrowser();
      const page = await enter(browser, 'company', returnTo);
      expect([page.url.origin, page.url.pathname]).toEqual([gateway.url, '/']);
    },
  );
});

describe('a provider', () => {
  it('that is away answers with words, and works once it is back', async () => {
    now = 0;
    partner.answer = (_request, response) => {
      response.writeHead(503).end();
      return true;
    };
    // The gateway keeps its addresses and keys for a minute.
    const begun = new SignInBrowser();
    const { location = '' } = await begun.visit(at('/login/partner'));
    if (location !== '') {
      // A return that fails makes the gateway read both again.
      const state = new URL(location).searchParams.get('state') ?? '';
      const query = new URLSearchParams({ code: 'x', state, iss: partner.url });
      const { status } = await begun.visit(at(`/oauth/callback/partner?${query.toString()}`));
      expect(status).toBe(400);
    }
    const page = await new SignInBrowser().open(at('/login/partner'));
    expect(page.status).toBe(503);
    expect(page.text).toContain('The partner can not be reached');
    partner.answer = () => false;
    await eventually('the person to get in', async () => {
      const browser = new SignInBrowser();
      await enter(browser, 'partner');
      return (await me(browser)).status === 200;
    });
  });

  it('that changes its key meanwhile lets the person in, at the second try at the latest', async () => {
    await enter(new SignInBrowser());
    await company.rotateKey();
    const browser = new SignInBrowser();
    await enter(browser);
    await enter(browser);
    expect(await me(browser)).toMatchObject({ status: 200 });
  });

  it('that changes its key in the middle of a sign-in lets the person in at the next try', async () => {
    const browser = new SignInBrowser();
    const back = await beforeReturn(browser);
    await company.rotateKey();
    const { status } = await browser.visit(back);
    expect([303, 400]).toContain(status);
    await enter(browser);
    expect(await me(browser)).toMatchObject({ status: 200 });
  });

  it('that never answers fails after its time, and holds up nobody else', async () => {
    const browser = new SignInBrowser();
    const back = await beforeReturn(browser, 'partner');
    partner.answer = () => true;
    const hanging = browser.visit(back);
    const other = new SignInBrowser();
    await enter(other);
    expect(await me(other)).toMatchObject({ status: 200 });
    const page = await hanging;
    expect(page.status).toBe(400);
    expect(page.text).toContain('The partner can not be reached');
    expect(await me(browser)).toMatchObject({ status: 401 });
  });

  it('that is none of this service does not exist', async () => {
    expect((await new SignInBrowser().open(at('/login/none'))).status).toBe(404);
    expect((await new SignInBrowser().open(at('/oauth/callback/none'))).status).toBe(404);
  });
});

describe('a session of a person', () => {
  const keyOf = async (browser: SignInBrowser) =>
    ((await ask(browser, '/api/keys/current')).json as { readonly id: string }).id;

  it('needs a confirmation of the provider after a while, and goes on with it', async () => {
    const browser = new SignInBrowser();
    await enter(browser);
    const before = await keyOf(browser);
    now = 890_000;
    expect(await me(browser)).toMatchObject({ status: 200 });
    now = 901_000;
    expect(await me(browser)).toMatchObject({ status: 401 });
    const page = await browser.open(at('/login?return_to=/docs'));
    expect([page.status, page.url.pathname]).toEqual([200, '/docs']);
    expect(await keyOf(browser)).toBe(before);
    const who = { owner: 'company:alice', key: before, session: before, subject: 'alice' };
    expect(lines('SignIn').slice(-2)).toMatchObject([
      { ...who, way: 'provider', isNew: true, role: 'user', issuer: 'company', name: 'Alice' },
      { ...who, way: 'provider', isNew: false },
    ]);
    now = 1_780_000;
    expect(await me(browser)).toMatchObject({ status: 200 });
  });

  it('ends where the provider has taken the group away, with the keys that it made', async () => {
    const browser = new SignInBrowser();
    await enter(browser);
    const { json } = await ask(browser, '/api/keys', 'POST', { name: 'made' });
    const made = json as { readonly key: string; readonly expires_at: string };
    const ofKey = () => gateway.get('/api/v1/users/me', { key: made.key });
    // The confirmation bounds the session, and not the keys that it has made.
    expect(Date.parse(made.expires_at)).toBeGreaterThan(Date.now() + 6 * 86_400_000);
    now = 901_000;
    expect(await me(browser)).toMatchObject({ status: 401 });
    expect(await ofKey()).toMatchObject({ status: 200 });
    company.person = { ...alice, groups: [] };
    now = 901_000;
    const page = await browser.open(at('/login?return_to=/docs'));
    expect([page.status, page.url.pathname]).toEqual([403, '/oauth/callback/company']);
    company.person = alice;
    now = 0;
    expect(await me(browser)).toMatchObject({ status: 401 });
    expect(await ofKey()).toMatchObject({ status: 401 });
  });

  it('ends where the provider has disabled the person, also before the return', async () => {
    const browser = new SignInBrowser();
    await enter(browser);
    now = 901_000;
    company.redirect = ({ searchParams }) => {
      searchParams.delete('code');
      searchParams.set('error', 'access_denied');
    };
    expect((await browser.open(at('/login?return_to=/docs'))).status).toBe(403);
    now = 0;
    expect(await me(browser)).toMatchObject({ status: 401 });
    expect(lines('SessionEnded').at(-1)).toMatchObject({
      owner: 'company:alice',
      reason: 'Refused',
      person: { issuer: 'company', subject: 'alice', name: 'Alice' },
    });
  });

  it('ends where an admin disables its ApiKey, and a new sign-in begins another one', async () => {
    const browser = new SignInBrowser();
    await enter(browser);
    const before = await keyOf(browser);
    await gateway.client.mergePatch(apiKeys, namespace, before, { spec: { disabled: true } });
    await eventually('the session has ended', async () => (await me(browser)).status === 401);
    await enter(browser);
    expect(await keyOf(browser)).not.toBe(before);
  });

  it('is never the one that another person has left in the browser', async () => {
    company.person = { ...alice, sub: 'mallory' };
    const attacker = new SignInBrowser();
    await enter(attacker);
    const planted = attacker.jar.get(new URL(gateway.url).host);
    const victim = new SignInBrowser();
    victim.jar.set(new URL(gateway.url).host, new Map(planted));
    company.person = alice;
    await enter(victim);
    expect(await me(victim)).toMatchObject({ json: { id: 'company:alice' } });
    // The session that it replaces has ended, so that the attacker sees nothing of alice either.
    expect(await me(attacker)).toMatchObject({ status: 401 });
    expect(lines('SessionEnded').at(-1)).toMatchObject({
      owner: 'company:mallory',
      reason: 'Replaced',
    });
  });

  it('is another one where the person has another role', async () => {
    const browser = new SignInBrowser();
    await enter(browser);
    const before = await keyOf(browser);
    company.person = { ...alice, groups: ['visitors'] };
    now = 901_000;
    await browser.open(at('/login?return_to=/docs'));
    // The API server, which dates the session, has the real time.
    now = 0;
    expect(await keyOf(browser)).not.toBe(before);
    expect(await ask(browser, '/api/v1/sandboxes', 'POST')).toMatchObject({ status: 403 });
  });

  it('shows the page of the sign-in where the person is signed out at the provider', async () => {
    const browser = new SignInBrowser();
    await enter(browser);
    company.person = undefined;
    now = 901_000;
    const page = await browser.open(at('/login?return_to=/docs'));
    expect([page.status, page.url.pathname]).toEqual([200, '/login']);
    expect(page.text).toContain('login/company?return_to=%2Fdocs');
  });
});
