import { createHash } from 'node:crypto';
import { SandboxKeys } from '../../../src/agent/keys.ts';
import { systemClock } from '@conversation-operator/base/clock';
import { apiKeys } from '../../../src/resources/api-key.ts';
import { CookieBrowser } from '../../support/gateway/cookie-browser.ts';
import { TestGateway, namespace } from '../../support/gateway/test-gateway.ts';

let gateway: TestGateway;
let replica: TestGateway;
let now = 0;
const clock = {
  ...systemClock,
  now: () => Date.now() + now,
  monotonic: () => systemClock.monotonic() + now,
};
const advance = (ms: number) => {
  now += ms;
};

beforeEach(async () => {
  gateway = await TestGateway.start({ clock });
  replica = await gateway.replica({ clock, publicUrl: gateway.url });
});
afterEach(async () => {
  await replica.stop();
  await gateway.stop();
});

interface Login {
  readonly device_code: string;
  readonly user_code: string;
  readonly verification_uri: string;
  readonly verification_uri_complete: string;
}
const begin = async (on = gateway): Promise<Login> => {
  const answer = await on.post(
    '/oauth/device/authorize',
    {},
    { key: null, headers: { 'user-agent': 'openhands-cli/1.16 <b>' } },
  );
  expect(answer.status).toBe(200);
  return answer.json as Login;
};
const grantType = 'urn:ietf:params:oauth:grant-type:device_code';
const redeem = async (code: string | undefined, { on = gateway, type = grantType } = {}) => {
  const fields = {
    ...(type === '' ? {} : { grant_type: type }),
    ...(code === undefined ? {} : { device_code: code }),
  };
  const { status, json } = await on.send('POST', '/oauth/device/token', {
    key: null,
    rawBody: new URLSearchParams(fields).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  });
  return { status, ...(json as { error?: string; access_token?: string; expires_in?: number }) };
};
/** Polls after the interval. */
const poll = (code: string, on = gateway) => {
  advance(5_000);
  return redeem(code, { on });
};
const signedIn = async (key = gateway.alice) => {
  const browser = new CookieBrowser(gateway);
  expect((await browser.submit('/login', { api_key: key })).status).toBe(303);
  return browser;
};
const answer = (browser: CookieBrowser, code: string, fields: Record<string, string> = {}) =>
  browser.submit('/device', {
    user_code: code,
    answer: 'allow',
    opens: 'all',
    days: '7',
    ...fields,
  });
const me = (key: string | undefined) => gateway.get('/api/keys/current', { key: key ?? '' });

describe('a program that logs in by a code', () => {
  it('waits for a person, and gets a key of that person once', async () => {
    const login = await begin();
    expect(login).toMatchObject({
      user_code: expect.stringMatching(
        /^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/,
      ) as string,
      verification_uri: `${gateway.url}/device`,
      verification_uri_complete: `${gateway.url}/device?user_code=${login.user_code}`,
      expires_in: 600,
      interval: 5,
    });
    expect(await poll(login.device_code)).toEqual({ status: 400, error: 'authorization_pending' });
    const browser = await signedIn();
    const page = await browser.open(`/device?user_code=${login.user_code}`);
    expect(page.status).toBe(200);
    expect(page.text).toContain(login.user_code);
    expect(page.text).toContain('openhands-cli/1.16 &lt;b&gt;');
    expect(page.text).toContain('127.0.0.1');
    expect((await answer(browser, login.user_code)).status).toBe(200);
    const granted = await poll(login.device_code);
    expect(granted).toMatchObject({ status: 200, token_type: 'Bearer' });
    expect(await me(granted.access_token)).toMatchObject({
      status: 200,
      json: { user_id: 'alice', name: 'openhands-cli/1.16 <b>' },
    });
    expect(await poll(login.device_code)).toEqual({ status: 400, error: 'expired_token' });
    const line = (kind: string) => gateway.log.find(({ message }) => message === kind)?.fields;
    const program = 'openhands-cli/1.16 <b>';
    const who = { owner: 'alice', client: '127.0.0.1', program };
    expect(line('DeviceLogin')).toMatchObject({ ...who, isAllowed: true, address: '127.0.0.1' });
    expect(line('DeviceKeyRead')).toMatchObject({ ...who, key: line('DeviceLogin')?.['made'] });
    expect(JSON.stringify(gateway.log)).not.toContain(granted.access_token);
    expect(JSON.stringify(gateway.log)).not.toContain(login.device_code);
  });

  it('has a code that the cluster stores as a keyed hash alone', async () => {
    const login = await begin();
    const code = login.user_code.replace('-', '');
    const stored = JSON.stringify(await gateway.client.list(apiKeys, { namespace }));
    expect(stored).toContain('userCodeHash');
    const hash = createHash('sha256').update(code).digest('hex');
    for (const hidden of [login.user_code, code, login.device_code, hash])
      expect(stored).not.toContain(hidden);
    // A replica that has another master key first, in the middle of a rotation, knows the code.
    const rotated = await gateway.replica({
      clock,
      publicUrl: gateway.url,
      keys: new SandboxKeys([Buffer.alloc(32, 9), Buffer.alloc(32, 7)]),
    });
    const browser = new CookieBrowser(rotated);
    const headers = { origin: gateway.url, 'sec-fetch-site': 'same-origin' };
    expect((await browser.submit('/login', { api_key: gateway.alice }, headers)).status).toBe(303);
    const page = await browser.open(`/device?user_code=${login.user_code}`);
    expect([page.status, page.text.includes(login.user_code)]).toEqual([200, true]);
    await rotated.stop();
  });

  it('gets one key from two replicas', async () => {
    const login = await begin(replica);
    await answer(await signedIn(), login.user_code.toLowerCase().replace('-', ' '));
    advance(5_000);
    const results = await Promise.all([
      redeem(login.device_code),
      redeem(login.device_code, { on: replica }),
    ]);
    expect(results.map(({ status }) => status).sort()).toEqual([200, 400]);
  });

  it('gets a key with the scopes and the end that the person chose', async () => {
    const login = await begin();
    await answer(await signedIn(), login.user_code, { opens: 'read', days: '1' });
    const { access_token: key, expires_in: seconds } = await poll(login.device_code);
    expect((await me(key)).json).toMatchObject({ scopes: ['read'] });
    expect(seconds).toBeGreaterThan(86_400 - 60);
    expect(seconds).toBeLessThanOrEqual(86_400);
  });

  it('loses its key with the session of the person', async () => {
    const login = await begin();
    const browser = await signedIn();
    await answer(browser, login.user_code);
    const { access_token: key } = await poll(login.device_code);
    expect(await me(key)).toMatchObject({ status: 200 });
    // As every key of a session, it shows no value of a secret.
    const { metadata } = await gateway.addSandbox('sbx-device', {});
    const path = `/api/v1/sandboxes/${metadata.name}/settings/secrets/TOKEN`;
    expect(await gateway.get(path, { key: key ?? '' })).toMatchObject({
      status: 403,
      json: { code: 'forbidden' },
    });
    await browser.submit('/logout', {});
    expect(await me(key)).toMatchObject({ status: 401 });
  });

  it('gets the key of the first answer where another person answers too', async () => {
    const login = await begin();
    const [alice, bob] = [await signedIn(), await signedIn(gateway.bob)];
    const page = await bob.open(`/device?user_code=${login.user_code}`);
    expect(page.status).toBe(200);
    expect((await answer(alice, login.user_code, { opens: 'read' })).status).toBe(200);
    expect((await answer(bob, login.user_code)).status).toBe(404);
    expect((await answer(alice, login.user_code, { answer: 'refuse' })).status).toBe(404);
    const { access_token: key } = await poll(login.device_code);
    expect((await me(key)).json).toMatchObject({ user_id: 'alice', scopes: ['read'] });
  });

  it('never gets more than the answer says', async () => {
    const login = await begin();
    const browser = await signedIn();
    for (const opens of ['', 'everything', 'constructor'])
      expect((await answer(browser, login.user_code, { opens })).status).toBe(422);
    expect(await poll(login.device_code)).toMatchObject({ error: 'authorization_pending' });
  });

  it('gets nothing where the person refuses', async () => {
    const login = await begin();
    await answer(await signedIn(), login.user_code, { answer: 'refuse' });
    expect(await poll(login.device_code)).toEqual({ status: 400, error: 'access_denied' });
    expect(await poll(login.device_code)).toEqual({ status: 400, error: 'expired_token' });
  });

  it('gets one key where the person answers twice', async () => {
    const login = await begin();
    const browser = await signedIn();
    const answers = await Promise.all([
      answer(browser, login.user_code),
      answer(browser, login.user_code),
    ]);
    expect(answers.map(({ status }) => status)).toContain(200);
    expect(answers.map(({ status }) => status)).not.toContain(500);
    const { items } = await gateway.client.list(apiKeys, { namespace });
    expect(items.filter(({ spec }) => spec.description?.startsWith('openhands'))).toHaveLength(1);
    expect(await poll(login.device_code)).toMatchObject({ status: 200 });
  });

  it('is told to be slow, and that its code has expired', async () => {
    const { device_code: code } = await begin();
    expect(await redeem(code, { type: '' })).toMatchObject({ error: 'authorization_pending' });
    expect(await redeem(code)).toEqual({ status: 400, error: 'slow_down' });
    advance(600_000);
    expect(await redeem(code)).toEqual({ status: 400, error: 'expired_token' });
    expect(await redeem('co_x')).toEqual({ status: 400, error: 'expired_token' });
    expect(await redeem(undefined)).toEqual({ status: 400, error: 'invalid_request' });
    expect(await redeem(code, { type: 'password' })).toMatchObject({
      error: 'unsupported_grant_type',
    });
  });

  it('opens nothing with its device code, before and after the answer', async () => {
    const login = await begin();
    expect(await me(login.device_code)).toMatchObject({ status: 401 });
    await answer(await signedIn(), login.user_code);
    expect(await me(login.device_code)).toMatchObject({ status: 401 });
  });

  it('does not fill the cluster', async () => {
    for (let index = 0; index < 10; index++) await begin();
    expect(await gateway.post('/oauth/device/authorize', {}, { key: null })).toMatchObject({
      status: 429,
    });
    advance(700_000);
    await begin();
    const { items } = await gateway.client.list(apiKeys, { namespace });
    expect(items.filter(({ spec }) => spec.signIn === 'Device')).toHaveLength(1);
  });
});

describe('the page of the code', () => {
  it('leads to the sign-in first, and back', async () => {
    const { status, text } = await new CookieBrowser(gateway).open('/device?user_code=BCDF-GHJK');
    expect(status).toBe(200);
    const address = `login?return_to=${encodeURIComponent('/device?user_code=BCDF-GHJK')}`;
    expect(text).toContain(`url=${address}`);
  });

  it('takes no answer of a page elsewhere', async () => {
    const login = await begin();
    const browser = await signedIn();
    const forged = await browser.submit(
      '/device',
      { user_code: login.user_code, answer: 'allow' },
      { origin: 'https://elsewhere.example', 'sec-fetch-site': 'cross-site' },
    );
    expect(forged.status).toBe(403);
    expect(await poll(login.device_code)).toMatchObject({ error: 'authorization_pending' });
  });

  it('bounds guesses', async () => {
    const { user_code } = await begin();
    const browser = await signedIn();
    const beganMs = clock.monotonic();
    const statuses = new Map<number, number>();
    const guesses = Array.from({ length: 10_000 }, (_none, index) => String(index));
    const guess = async () => {
      for (let code = guesses.pop(); code !== undefined; code = guesses.pop()) {
        const answered = await fetch(`${gateway.url}/device?user_code=BBBB-${code}`, {
          headers: { cookie: browser.cookie ?? '' },
        });
        await answered.arrayBuffer();
        statuses.set(answered.status, (statuses.get(answered.status) ?? 0) + 1);
      }
    };
    await Promise.all(Array.from({ length: 10 }, guess));
    const minutes = (clock.monotonic() - beganMs) / 60_000;
    // Ten codes count at once, and ten a minute, of 25,600,000,000.
    expect(statuses.get(404)).toBeLessThanOrEqual(10 + Math.ceil(10 * minutes));
    expect([...statuses.keys()].toSorted()).toEqual([404, 429]);
    const refusals = gateway.log.filter(({ message }) => message === 'Refused');
    expect(refusals.length).toBeLessThanOrEqual(10 + Math.ceil(minutes));
    // A right code is no exception, or guessing would go on.
    expect((await browser.open(`/device?user_code=${user_code}`)).status).toBe(429);
  });

  it('is not for a session that makes no keys', async () => {
    const login = await begin();
    const made = await gateway.post('/api/keys', { name: 'reader', scopes: ['read'] });
    const browser = await signedIn((made.json as { readonly key: string }).key);
    expect((await browser.open(`/device?user_code=${login.user_code}`)).status).toBe(403);
    expect((await answer(browser, login.user_code)).status).toBe(403);
  });
});
