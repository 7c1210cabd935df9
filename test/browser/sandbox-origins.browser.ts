import type { IncomingMessage } from 'node:http';
import type { GatewayOptions } from '../../src/gateway/gateway-options.ts';
import { apiKeys } from '../../src/resources/api-key.ts';
import { conversations } from '../../src/resources/conversation.ts';
import { eventually } from '../support/eventually.ts';
import { StubAgent } from '../support/gateway/stub-agent.ts';
import { namespace, TestGateway } from '../support/gateway/test-gateway.ts';
import { Window } from './support/browser.ts';

const secret = 'Plans that no agent may read';

/** Everything that a page of an agent can try with the cookie of the person who opens it. */
const attacks = (service: string): string => `
const results = {};
const attempt = async (name, work) => {
  try { results[name] = String(await work()); } catch (error) { results[name] = 'refused: ' + error; }
};
const call = (path, options) => fetch('${service}' + path, { credentials: 'include', ...options });
const framed = (make) => new Promise((resolve) => {
  const frame = document.createElement('iframe');
  frame.name = 'target';
  document.body.append(frame);
  make(frame);
  setTimeout(() => {
    try { resolve(frame.contentDocument.documentElement.outerHTML); } catch (error) { resolve('refused: ' + error); }
  }, 1000);
});
const submit = (action, fields) => framed(() => {
  const form = document.createElement('form');
  Object.assign(form, { method: 'post', action: '${service}' + action, target: 'target' });
  for (const [name, value] of Object.entries(fields)) {
    const input = document.createElement('input');
    Object.assign(input, { name, value });
    form.append(input);
  }
  document.body.append(form);
  form.submit();
});
const start = { method: 'POST', body: JSON.stringify({ initial_message: { content: [{ type: 'text', text: 'x' }] } }) };
const json = { headers: { 'content-type': 'application/json' } };
(async () => {
  await attempt('the cookie', () => document.cookie);
  await attempt('a read', async () => (await call('/api/v1/users/me')).text());
  await attempt('an opaque read', async () => (await call('/api/v1/users/me', { mode: 'no-cors' })).text());
  await attempt('a list', async () => (await call('/api/v1/app-conversations/search')).text());
  await attempt('a page', async () => (await call('/')).text());
  await attempt('a start', async () => (await call('/api/v1/app-conversations', { ...start, ...json })).text());
  await attempt('an opaque start', async () => (await call('/api/v1/app-conversations', { ...start, mode: 'no-cors' })).text());
  await attempt('an opaque key', async () => (await call('/api/keys', { method: 'POST', mode: 'no-cors', body: '{"name":"x"}' })).text());
  await attempt('a script', () => import('${service}/api/v1/users/me'));
  await attempt('a service worker', () => navigator.serviceWorker.register('/server_info'));
  await attempt('the stream', () => new Promise((resolve, reject) => {
    const source = new EventSource('${service}/api/v1/stream', { withCredentials: true });
    source.addEventListener('snapshot', ({ data }) => resolve(data));
    source.onerror = reject;
  }));
  await attempt('a frame', () => framed((frame) => { frame.src = '${service}/'; }));
  await attempt('a sign-in by a form', () => submit('/login', { api_key: 'MALLORY' }));
  await attempt('a sign-out by a form', () => submit('/logout', {}));
  globalThis.results = results;
})();`;

const hostilePage = (service: string, key: string): string =>
  [
    '<!doctype html><meta charset="utf-8"><title>An agent</title><h1>An agent</h1>',
    `<img src="${service}/logout"><iframe src="${service}/"></iframe>`,
    `<link rel="stylesheet" href="${service}/api/v1/users/me">`,
    `<script src="${service}/api/v1/users/me"></script>`,
    '<svg onload="globalThis.ran = true"></svg>',
    `<script>${attacks(service).replace('MALLORY', key)}</script>`,
  ].join('\n');

interface Layout {
  readonly options: Partial<GatewayOptions>;
  readonly host: string;
  /** Host of the agent. Its scripts run where that is another one. */
  readonly agentHost: RegExp;
}

const layouts: Readonly<Record<string, Layout>> = {
  'below a path of the service': { options: {}, host: '127.0.0.1', agentHost: /^127\.0\.0\.1$/ },
  'at a loopback address of its own': {
    options: { loopbackOrigins: { read: () => undefined, write: () => undefined } },
    host: '127.0.0.1',
    agentHost: /^127\.(1[3-9]|2|12[89])/,
  },
  'at a host of the same site': {
    options: {
      publicUrl: 'http://agents.localhost',
      sandboxUrlTemplate: 'http://{sandbox}-{port}.agents.localhost',
    },
    host: 'agents.localhost',
    agentHost: /^sbx-1-agent-server\.agents\.localhost$/,
  },
};

/** The URL of the agent, as its record has it. */
const agentUrl = (gateway: TestGateway, { agentHost }: Layout): Promise<URL> =>
  eventually('the sandbox has its address', async () => {
    const { json } = await gateway.get('/api/v1/sandboxes?id=sbx-1');
    const [record] = json as readonly { readonly exposed_urls: readonly { url: string }[] }[];
    const url = new URL(`${record?.exposed_urls[0]?.url ?? ''}/server_info`);
    url.port = String(gateway.port);
    return agentHost.test(url.hostname) ? url : undefined;
  });

let agent: StubAgent;
let window: Window;
beforeAll(async () => {
  agent = await StubAgent.start();
  window = await Window.open({ firstPicture: 91 });
});
afterAll(async () => {
  await window.close();
  await agent.stop();
});
afterEach(() => window.page.context().clearCookies());

describe.each(Object.entries(layouts))('A page of an agent %s', (_where, layout) => {
  it('gets and changes nothing with the session of the person who opens it', async () => {
    const gateway = await TestGateway.start(layout.options);
    try {
      const { page } = window;
      const service = `http://${layout.host}:${gateway.port}`;
      await gateway.addConversation('secret', { spec: { title: secret } });
      await gateway.addSandbox('sbx-1', { status: agent.status });
      const seen: IncomingMessage['headers'][] = [];
      agent.answer = ({ headers }, response) => {
        seen.push(headers);
        response.writeHead(200, {
          'content-type': 'text/html',
          'access-control-allow-origin': '*',
          'content-security-policy': "default-src * 'unsafe-inline' 'unsafe-eval'",
          'service-worker-allowed': '/',
          'set-cookie': `conversation-operator-${gateway.port}=chosen; Path=/`,
        });
        response.end(hostilePage(service, gateway.bob));
      };
      await page.goto(`${service}/login?return_to=/docs`);
      await page.getByLabel('API key').fill(gateway.alice);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.waitForURL(`${service}/docs`);
      const cookies = await page.context().cookies();
      const keys = () => gateway.client.list(apiKeys, { namespace });
      const { items: keysBefore } = await keys();

      const url = await agentUrl(gateway, layout);
      await page.goto(url.href);
      await page.getByRole('heading', { name: 'An agent' }).waitFor();
      if (url.hostname !== layout.host) {
        await page.waitForFunction('globalThis.results !== undefined');
        const results = await page.evaluate<Readonly<Record<string, string>>>('results');
        expect(Object.keys(results)).toHaveLength(14);
        for (const [attack, result] of Object.entries(results))
          expect([attack, /alice|bob|Sign in|Conversations|data:|co_/.exec(result)?.[0]]).toEqual([
            attack,
            undefined,
          ]);
        expect(JSON.stringify(results)).not.toContain(secret);
      } else {
        await page.waitForTimeout(1000);
        expect(await page.evaluate('[typeof results, typeof ran, origin]')).toEqual([
          ...['undefined', 'undefined', 'null'],
        ]);
      }
      expect(seen.length).toBeGreaterThan(0);
      expect(seen.filter(({ cookie }) => cookie !== undefined)).toEqual([]);
      expect(await gateway.client.list(conversations, { namespace })).toMatchObject({
        items: [{ metadata: { name: 'secret' } }],
      });
      expect((await keys()).items).toEqual(keysBefore);
      // The session is the same as before, and is what the attacks were to use.
      expect(await page.context().cookies()).toEqual(cookies);
      await page.goto(`${service}/api/v1/users/me`);
      expect(await page.textContent('body')).toContain('"alice"');
    } finally {
      await gateway.stop();
    }
  });
});
