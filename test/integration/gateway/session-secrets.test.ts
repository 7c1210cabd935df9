import { systemClock } from '@conversation-operator/base/clock';
import { createLoginLink } from '../../../src/gateway/sign-in/sessions.ts';
import { CookieBrowser } from '../../support/gateway/cookie-browser.ts';
import { StubAgent } from '../../support/gateway/stub-agent.ts';
import { namespace, TestGateway, type Answer } from '../../support/gateway/test-gateway.ts';

const value = 'hunter2-hunter2';
const list = '/api/v1/sandboxes/sbx-one/settings/secrets';
const record = '/api/v1/sandboxes?id=sbx-one';

let agent: StubAgent;
let gateway: TestGateway;
beforeAll(async () => {
  agent = await StubAgent.start();
});
afterAll(() => agent.stop());
beforeEach(async () => {
  gateway = await TestGateway.start();
  await gateway.addSandbox('sbx-one', { status: agent.status });
  await gateway.post('/api/v1/secrets', { name: 'TOKEN', value });
});
afterEach(() => gateway.stop());

async function byKey(): Promise<CookieBrowser> {
  const browser = new CookieBrowser(gateway);
  await browser.submit('/login', { api_key: gateway.alice });
  return browser;
}

async function byLink(): Promise<CookieBrowser> {
  const { client, url } = gateway;
  const link = await createLoginLink({
    client,
    namespace,
    url,
    clock: systemClock,
    owner: 'alice',
    role: 'user',
  });
  const browser = new CookieBrowser(gateway);
  await browser.signInBy(link.slice(url.length));
  return browser;
}

const sessionKeyIn = ({ json }: Answer) =>
  (json as [{ session_api_key: string }])[0].session_api_key;
const newKeyIn = ({ json }: Answer) => (json as { key: string }).key;

async function read(headers: Record<string, string>) {
  const answer = await fetch(`${gateway.url}${list}/TOKEN`, { headers });
  return { status: answer.status, text: await answer.text() };
}
const byApiKey = (key: string) => read({ authorization: `Bearer ${key}` });
const bySessionKey = (key: string) => read({ 'x-session-api-key': key });

type Reading = (browser: CookieBrowser) => ReturnType<typeof read>;

const withCookie: Reading = ({ cookie = '', ownHeaders }) => read({ ...ownHeaders, cookie });
const withSessionKey: Reading = async (browser) =>
  bySessionKey(sessionKeyIn(await browser.fetch('GET', record)));
const made = async (browser: CookieBrowser) =>
  newKeyIn(await browser.fetch('POST', '/api/keys', { name: 'made' }));
const withMadeKey: Reading = async (browser) => byApiKey(await made(browser));
const withKeyOfMadeKey: Reading = async (browser) => {
  const body = { name: 'later' };
  return byApiKey(newKeyIn(await gateway.post('/api/keys', body, { key: await made(browser) })));
};
const withSessionKeyOfMadeKey: Reading = async (browser) =>
  bySessionKey(sessionKeyIn(await gateway.get(record, { key: await made(browser) })));

describe.each([
  ['an API key', byKey],
  ['a link', byLink],
] as const)('A person who has signed in by %s', (_by, signIn) => {
  it('reads names of secrets', async () => {
    const browser = await signIn();
    expect((await browser.fetch('GET', list)).json).toMatchObject({ secrets: [{ name: 'TOKEN' }] });
  });

  it.each<[string, Reading]>([
    ['the cookie', withCookie],
    ['a key that the session makes', withMadeKey],
    ['a key that such a key makes', withKeyOfMadeKey],
    ['the session key of a record', withSessionKey],
    ['the session key of a record that a made key reads', withSessionKeyOfMadeKey],
  ])('reads no value of a secret with %s', async (_what, readWith) => {
    const { status, text } = await readWith(await signIn());
    expect([status, JSON.parse(text)]).toEqual([
      403,
      expect.objectContaining({ code: 'forbidden' }),
    ]);
    expect(gateway.log.filter(({ message }) => message === 'SecretRead')).toEqual([]);
  });
});

it('An API key, a key that it makes, and their session keys read the value', async () => {
  const later = newKeyIn(await gateway.post('/api/keys', { name: 'later' }));
  for (const key of [gateway.alice, later]) {
    expect(await byApiKey(key)).toEqual({ status: 200, text: value });
    const sessionKey = sessionKeyIn(await gateway.get(record, { key }));
    expect(await bySessionKey(sessionKey)).toEqual({ status: 200, text: value });
  }
});
