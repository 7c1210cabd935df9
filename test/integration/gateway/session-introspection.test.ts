import { systemClock } from '@conversation-operator/base/clock';
import { directly } from '@conversation-operator/outward/outward';
import type { AuditKind } from '../../../src/observability/audit.ts';
import type { IssuerSettings } from '../../../src/gateway/sign-in/identity.ts';
import { SignInBrowser } from '../../support/gateway/sign-in-browser.ts';
import { TestGateway } from '../../support/gateway/test-gateway.ts';
import { TestIssuer, type Person } from '../../support/gateway/test-issuer.ts';
import { OidcProvider } from '../../support/oidc-provider.ts';

let now = 0;
const clock = {
  ...systemClock,
  now: () => Date.now() + now,
  monotonic: () => systemClock.monotonic() + now,
};
const settings = (issuer: string, more: Partial<IssuerSettings> = {}): IssuerSettings => ({
  name: 'company',
  issuer,
  clientId: 'gateway',
  clientSecret: 'gateway-secret',
  scopes: ['openid', 'profile', 'groups'],
  nameClaim: ['name'],
  rules: [
    { claim: ['groups'], value: 'developers', role: 'user' },
    { claim: ['groups'], value: 'visitors', role: 'viewer' },
  ],
  recheckSeconds: 60,
  recheck: 'introspection',
  ...more,
});
const signInAt = (url: string, more?: Partial<IssuerSettings>) => ({
  issuers: [settings(url, more)],
  outward: directly,
  requireActivePerson: false,
});
beforeEach(() => {
  now = 0;
});

/** The lines of the audit log of one kind, of this gateway. */
const lines = (gateway: TestGateway, kind: AuditKind) =>
  gateway.log.filter(({ message }) => message === kind).map(({ fields }) => fields);

const browserOf = (gateway: TestGateway) => {
  const browser = new SignInBrowser();
  const at = (path: string) => new URL(path, gateway.url);
  const ask = async (path: string, on = gateway) => {
    const { host } = new URL(gateway.url);
    const other = new URL(path, on.url);
    browser.jar.set(other.host, browser.jar.get(host) ?? new Map<string, string>());
    const headers = { host, 'sec-fetch-site': 'same-origin' };
    const { status, text } = await browser.visit(other, { headers });
    return { status, json: (text === '' ? undefined : JSON.parse(text)) as unknown };
  };
  return { browser, at, me: (on = gateway) => ask('/api/v1/users/me', on), ask };
};

describe('a session at oidc-provider, with introspection', () => {
  let provider: OidcProvider;
  let gateway: TestGateway;
  let replica: TestGateway;
  beforeAll(async () => {
    provider = await OidcProvider.start({
      dora: { password: 'd-password', name: 'Dora', groups: ['developers'] },
    });
    gateway = await TestGateway.start({ clock, signIn: signInAt(provider.url) });
    replica = await gateway.replica({
      clock,
      signIn: signInAt(provider.url),
      publicUrl: gateway.url,
    });
    provider.serveClient(gateway.url);
  });
  afterAll(async () => {
    await replica.stop();
    await gateway.stop();
    await provider.stop();
  });
  const dora = () => {
    const account = provider.accounts.get('dora');
    if (account === undefined) throw new Error('there is no dora');
    return account;
  };
  beforeEach(() => {
    dora().groups = ['developers'];
  });
  const enter = async () => {
    const session = browserOf(gateway);
    const { browser, at } = session;
    const { url } = await browser.open(at('/login/company?return_to=/docs'));
    const form = { username: 'dora', password: 'd-password' };
    const { location = '' } = await browser.visit(url, { method: 'POST', form });
    expect((await browser.open(new URL(location, url))).url.pathname).toBe('/docs');
    return session;
  };

  it('goes on without the browser, on every replica, with the same key', async () => {
    const { me, ask } = await enter();
    expect(await me()).toMatchObject({ status: 200, json: { id: 'company:dora', name: 'Dora' } });
    const before = await ask('/api/keys/current');
    now = 61_000;
    const answers = await Promise.all([me(), me(), me(replica), me(replica)]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    const id = (answer: { json: unknown }) => (answer.json as { readonly id: string }).id;
    expect(id(await ask('/api/keys/current'))).toBe(id(before));
    expect(lines(gateway, 'SignIn')).toMatchObject([{ isNew: true, subject: 'dora' }]);
    expect(lines(replica, 'SignIn')).toEqual([]);
  });

  it('ends where the group is taken away, with the keys that it made', async () => {
    const { browser, at, me } = await enter();
    const made = await browser.visit(at('/api/keys'), {
      method: 'POST',
      json: '{"name": "made"}',
      headers: { origin: gateway.url, 'sec-fetch-site': 'same-origin' },
    });
    const { key } = JSON.parse(made.text) as { readonly key: string };
    dora().groups = ['developers-of-others'];
    now = 61_000;
    expect(await me()).toMatchObject({ status: 401 });
    expect(await gateway.get('/api/v1/users/me', { key })).toMatchObject({ status: 401 });
    expect(lines(gateway, 'SessionEnded').at(-1)).toMatchObject({
      reason: 'Refused',
      detail: expect.stringContaining('no rule of this service') as string,
      person: { issuer: 'company', subject: 'dora' },
      client: '127.0.0.1',
    });
    dora().groups = ['developers'];
    expect(await me()).toMatchObject({ status: 401 });
  });

  it('ends where the token is revoked', async () => {
    const { me } = await enter();
    await provider.endTokens();
    expect(await me()).toMatchObject({ status: 200 });
    now = 61_000;
    expect(await me()).toMatchObject({ status: 401 });
    now = 0;
    expect(await me()).toMatchObject({ status: 401 });
    expect(lines(gateway, 'SessionEnded').at(-1)).toMatchObject({ reason: 'TokenEnded' });
  });

  it('asks by the browser once the token has expired', async () => {
    const { browser, at, me, ask } = await enter();
    const before = await ask('/api/keys/current');
    now = 301_000;
    expect(await me()).toMatchObject({ status: 401 });
    const page = await browser.open(at('/login?return_to=/docs'));
    expect([page.status, page.url.pathname]).toEqual([200, '/docs']);
    expect(await ask('/api/keys/current')).toEqual(before);
    // The cookie has the new token.
    now += 61_000;
    expect(await me()).toMatchObject({ status: 200 });
  });
});

describe('a session with introspection, at a provider that', () => {
  let issuer: TestIssuer;
  let gateway: TestGateway;
  const alice: Person = { sub: 'alice' };
  const claims = { name: 'Alice', groups: ['developers'] };
  beforeAll(async () => {
    issuer = await TestIssuer.start();
    gateway = await TestGateway.start({ clock, signIn: signInAt(issuer.url) });
  });
  afterAll(async () => {
    await gateway.stop();
    await issuer.stop();
  });
  beforeEach(() => {
    issuer.person = alice;
    issuer.userinfo = {};
    issuer.introspection = { active: true, sub: 'alice', ...claims };
    issuer.accessToken = 'an-access-token';
    issuer.expiresIn = 300;
    issuer.answer = () => false;
    issuer.requests.length = 0;
  });
  const enter = async () => {
    const session = browserOf(gateway);
    const page = await session.browser.open(session.at('/login/company?return_to=/docs'));
    return { ...session, page };
  };

  it('has the claims in introspection alone', async () => {
    const { me } = await enter();
    expect(await me()).toMatchObject({ status: 200, json: { name: 'Alice' } });
    now = 61_000;
    expect(await me()).toMatchObject({ status: 200 });
    issuer.introspection = { ...issuer.introspection, groups: ['visitors'] };
    now = 122_000;
    expect(await me()).toMatchObject({ status: 401 });
    expect(await me()).toMatchObject({ status: 401 });
    expect(lines(gateway, 'SessionEnded')).toMatchObject([{ reason: 'OtherRights' }]);
  });

  it('repeats old groups in introspection, and has new ones in userinfo', async () => {
    issuer.userinfo = claims;
    const { me } = await enter();
    issuer.userinfo = { ...claims, groups: [] };
    now = 61_000;
    expect(await me()).toMatchObject({ status: 401 });
  });

  it('has the groups in the ID token alone opens nothing, as the first check would', async () => {
    issuer.person = { ...alice, ...claims };
    issuer.introspection = { active: true };
    const { page, me } = await enter();
    expect(page.status).toBe(403);
    expect(await me()).toMatchObject({ status: 401 });
  });

  it('is away opens nothing meanwhile, and is not asked at each request', async () => {
    const { me } = await enter();
    issuer.answer = ({ url }, response) => {
      if (url !== '/introspect') return false;
      response.writeHead(503).end();
      return true;
    };
    now = 61_000;
    issuer.requests.length = 0;
    for (let index = 0; index < 5; index++) expect(await me()).toMatchObject({ status: 401 });
    expect(issuer.requests.filter((path) => path === '/introspect')).toHaveLength(1);
    issuer.answer = () => false;
    now = 72_000;
    expect(await me()).toMatchObject({ status: 200 });
  });

  it('answers about another subject, or with 1 MB, opens nothing', async () => {
    const { me } = await enter();
    issuer.introspection = { active: true, ...claims, sub: 'bob' };
    now = 61_000;
    expect(await me()).toMatchObject({ status: 401 });
    issuer.introspection = { active: true, ...claims, more: 'x'.repeat(1_000_000) };
    now = 72_000;
    expect(await me()).toMatchObject({ status: 401 });
  });

  it('makes longer tokens than a cookie has room for asks by the browser', async () => {
    issuer.accessToken = 'x'.repeat(2_301);
    const { me, browser, at } = await enter();
    expect(await me()).toMatchObject({ status: 200 });
    expect(gateway.log.map(({ message }) => message)).toContainEqual(
      expect.stringContaining('too long for a cookie'),
    );
    now = 61_000;
    expect(await me()).toMatchObject({ status: 401 });
    await browser.open(at('/login?return_to=/docs'));
    expect(await me()).toMatchObject({ status: 200 });
  });

  it('makes tokens of the maximum length sets a cookie that browsers keep', async () => {
    issuer.accessToken = 'x'.repeat(2_298);
    const { me, browser, at } = await enter();
    const [cookie, ...others] = [...(browser.jar.get(at('/').host) ?? [])];
    expect(others).toEqual([]);
    // Browsers keep 4,096 bytes of name and value.
    expect(cookie?.join('=').length).toBeLessThan(3_800);
    now = 61_000;
    expect(await me()).toMatchObject({ status: 200 });
    expect(JSON.stringify(gateway.caches.apiKeys.store.list())).not.toContain('xxxx');
    expect(JSON.stringify(gateway.log)).not.toContain('xxxx');
  });
});
