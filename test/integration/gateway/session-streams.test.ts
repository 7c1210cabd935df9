import type { IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { systemClock, type Clock } from '@conversation-operator/base/clock';
import { createLoginLink } from '../../../src/gateway/sign-in/sessions.ts';
import { apiKeys } from '../../../src/resources/api-key.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import { eventually } from '../../support/eventually.ts';
import { CookieBrowser } from '../../support/gateway/cookie-browser.ts';
import { namespace, TestGateway, type RequestOptions } from '../../support/gateway/test-gateway.ts';

const dayMs = 86_400_000;
/** Delay until the expiry of a key is checked again, and the one that these tests have. */
const [recheckMs, soonMs] = [10_000, 20];

/** A stream of a browser, as far as it has been read. */
class Stream {
  text = '';
  readonly response: IncomingMessage;

  constructor(response: IncomingMessage) {
    this.response = response.setEncoding('utf8');
    response.on('data', (chunk: string) => (this.text += chunk));
    response.on('error', () => undefined);
  }

  until = (text: string) =>
    eventually(`the stream has ${text}`, () => Promise.resolve(this.text.includes(text)));
}

let gateway: TestGateway;
let now = 0;
const clock: Clock = {
  ...systemClock,
  now: () => now,
  after: (delayMs, callback) =>
    systemClock.after(delayMs === recheckMs ? soonMs : delayMs, callback),
};
const streams: Stream[] = [];
beforeEach(async () => {
  now = Date.now();
  gateway = await TestGateway.start({ clock });
});
afterEach(async () => {
  for (const { response } of streams.splice(0)) response.destroy();
  await gateway.stop();
});

async function byLink(): Promise<CookieBrowser> {
  const { client, url } = gateway;
  const link = await createLoginLink({
    client,
    namespace,
    clock,
    url,
    owner: 'alice',
    role: 'user',
  });
  const browser = new CookieBrowser(gateway);
  await eventually(
    'the link signs in',
    async () => (await browser.signInBy(link.slice(url.length))).status === 303,
  );
  return browser;
}

async function byKey(key = gateway.alice): Promise<CookieBrowser> {
  const browser = new CookieBrowser(gateway);
  await browser.submit('/login', { api_key: key });
  return browser;
}

async function openStream({ cookie = '', ownHeaders }: CookieBrowser): Promise<Stream> {
  return follow({ key: null, headers: { ...ownHeaders, cookie } });
}

async function follow(options: RequestOptions): Promise<Stream> {
  const stream = new Stream(await gateway.open('GET', '/api/v1/stream', options));
  streams.push(stream);
  await stream.until('"last":true');
  return stream;
}

const keyNameOf = async (browser: CookieBrowser): Promise<string> => {
  const { json } = await browser.fetch('GET', '/api/keys/current');
  return (json as { id: string }).id;
};

const signIns = [
  ['a link', byLink],
  ['an API key', () => byKey()],
] as const;

it.each<[string, () => Promise<CookieBrowser>, (browser: CookieBrowser) => Promise<unknown>]>([
  ['the person signs out', byLink, (browser) => browser.submit('/logout', {})],
  [
    'the person signs out of a session of an API key, which stays',
    () => byKey(),
    (browser) => browser.submit('/logout', {}),
  ],
  [
    'a session of an API key has lasted for 7 days',
    () => byKey(),
    () => {
      now += 7 * dayMs;
      return Promise.resolve();
    },
  ],
  [
    'its ApiKey is revoked',
    () => byKey(),
    async (browser) => gateway.client.delete(apiKeys, namespace, await keyNameOf(browser)),
  ],
  [
    'it has lasted for 7 days',
    byLink,
    () => {
      now += 7 * dayMs;
      return Promise.resolve();
    },
  ],
])('a stream of a session is closed after %s', async (_what, signIn, end) => {
  const browser = await signIn();
  const stream = await openStream(browser);
  const other = await follow({ key: gateway.bob });
  await end(browser);
  await stream.until('key-invalid');
  expect(other.text).not.toContain('key-invalid');
});

it.each(signIns)(
  'a stream of a start ends with its session by %s, and the start continues',
  async (_by, signIn) => {
    const [browser, other] = [await signIn(), await signIn()];
    const open = async ({ cookie = '', ownHeaders }: CookieBrowser) => {
      const response = await gateway.open('POST', '/api/v1/app-conversations/stream-start', {
        key: null,
        headers: { ...ownHeaders, cookie },
        body: { initial_message: { content: [{ type: 'text', text: 'Hello' }] } },
      });
      const stream = new Stream(response);
      streams.push(stream);
      await stream.until('WORKING');
      return stream;
    };
    const [stream, kept] = [await open(browser), await open(other)];
    await browser.submit('/logout', {});
    await stream.until(']');
    await eventually('the connection of the stream is over', () =>
      Promise.resolve(stream.response.complete),
    );
    expect(kept.response.complete).toBe(false);
    expect(await gateway.client.list(conversations, { namespace })).toMatchObject({
      items: { length: 2 },
    });
  },
);

it('a stream of another session of the same API key stays', async () => {
  const [browser, another] = [await byKey(), await byKey()];
  const [stream, other] = [await openStream(browser), await openStream(another)];
  await browser.submit('/logout', {});
  await stream.until('key-invalid');
  expect(other.text).not.toContain('event: closed');
});

it.each(signIns)(
  'a clock that jumps by a day ends no session by %s, and no stream',
  async (_by, signIn) => {
    const browser = await signIn();
    const stream = await openStream(browser);
    for (const [index, jump] of [dayMs, -2 * dayMs, dayMs].entries()) {
      now += jump;
      const title = `Title ${index}`;
      await gateway.addConversation(`c-${index}`, { spec: { title } });
      await stream.until(title);
      await delay(3 * soonMs);
      expect(await browser.owner()).toBe('alice');
    }
    expect(stream.text).not.toContain('event: closed');
  },
);
