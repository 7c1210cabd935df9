import { once } from 'node:events';
import { createServer, request as httpRequest, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { newUuid, dashedUuid } from '@conversation-operator/base/uuid';
import { TestGateway } from '../support/gateway/test-gateway.ts';
import { sessionCookie } from '../support/gateway/session.ts';
import { fakeAgent, type FakeAgent } from '../unit/agent/fake-agent.ts';
import { violationsIn } from './support/accessibility.ts';
import { Window } from './support/browser.ts';

const webDirectory = fileURLToPath(new URL('../../dist/web', import.meta.url));
const time = '2026-01-01T00:00:00Z';
const folder = '/workspace/shop';
const is = (type: string) => ({
  type,
  status: 'True' as const,
  reason: type,
  message: 'Ready.',
  lastTransitionTime: time,
});
const hostile = `"'><script>globalThis.owned = 1</script><img src=x onerror="globalThis.owned = 2">`;
const message = (id: string, source: string, text: string) => ({
  id,
  kind: 'MessageEvent',
  source,
  timestamp: '2026-01-01T00:00:00',
  llm_message: { content: [{ type: 'text', text }] },
});

let gateway: TestGateway;
let agent: FakeAgent;
let window: Window;
let id: string;
let items: object[];

beforeAll(async () => {
  window = await Window.open({ firstPicture: 900 });
});
afterAll(() => window.close());

beforeEach(async () => {
  gateway = await TestGateway.start({ webDirectory });
  id = newUuid(Date.now());
  items = [
    { id: '0', kind: 'SystemPromptEvent', source: 'agent', system_prompt: { text: 'Prompt.' } },
    message('1', 'user', 'Fix the **cart**.'),
    message('2', 'agent', `It is fixed. ${hostile}`),
  ];
  const events = `GET /api/conversations/${dashedUuid(id)}/events`;
  agent = await fakeAgent({
    [`${events}/search`]: () => ({ body: { items: items.toReversed(), next_page_id: null } }),
    [`${events}/count`]: () => ({ body: items.length }),
    'POST /api/bash/execute_bash_command': ({ body }) => ({
      body: {
        exit_code: 0,
        stdout: (body as { readonly command: string }).command.includes('visible')
          ? 'visible\n'
          : Buffer.from('\0\0src/cart.ts\0README.md\0').toString('base64'),
      },
    }),
    'GET /api/file/download': { text: 'export const size = 2;\n' },
    'GET /api/git/changes': { body: [{ status: 'UPDATED', path: 'src/cart.ts' }] },
    'GET /api/git/diff': {
      body: { modified: 'export const size = 2;\n', original: 'export const size = 1;\n' },
    },
  });
  await gateway.addSandbox('sbx', {
    status: {
      podIP: '127.0.0.1',
      agentPort: Number(new URL(agent.endpoint.baseUrl).port),
      conditions: [is('Admitted'), is('Ready')],
    },
  });
  await gateway.addConversation(id, {
    spec: { title: `The cart ${hostile}`, repository: { name: 'acme/shop', provider: 'github' } },
    status: {
      start: { status: 'READY', transitions: [{ status: 'READY', time }] },
      sandboxName: 'sbx',
      workingDir: folder,
      executionStatus: 'running',
    },
  });
});
afterEach(async () => {
  await window.page.context().clearCookies();
  await window.page.goto('about:blank');
  await gateway.stop();
  await agent[Symbol.asyncDispose]();
});

const shares = () => `/api/v1/app-conversations/${id}/shares`;
const share = async (subject: object = { kind: 'link' }) => {
  const { json } = await gateway.post(shares(), { subject, expires_at: '2099-01-01T00:00:00Z' });
  const { id: name, url } = json as { readonly id: string; readonly url: string };
  return { name, url, path: new URL(url).pathname };
};

it('is read in a private window, and nothing else is asked for', async () => {
  const { url } = await share();
  const { page } = window;
  const asked = new Set<string>();
  const referrers = new Set<string | undefined>();
  page.on('request', (request) => {
    asked.add(new URL(request.url()).pathname);
    referrers.add(request.headers()['referer']);
  });
  await page.goto(url);
  await page.getByRole('heading', { level: 1 }).getByText('The cart').waitFor();
  await page.getByText('It is fixed.').waitFor();
  await page.getByText('To read only, shared by alice until').waitFor();
  expect(await page.title()).toContain('The cart');
  expect(await violationsIn(page)).toEqual([]);
  await window.picture('shared-events', { fullPage: true });
  expect(await page.getByRole('textbox').count()).toBe(0);
  for (const name of ['Send', 'Pause', 'Delete', 'Download', 'Find', 'Rename', 'Stop'])
    expect({ name, count: await page.getByRole('button', { name }).count() }).toEqual({
      name,
      count: 0,
    });
  await page.getByRole('tab', { name: 'Changes' }).click();
  await page.getByText('src/cart.ts').click();
  await page.getByText('export const size = 2;').first().waitFor();
  await window.picture('shared-changes', { fullPage: true });
  await page.getByRole('tab', { name: 'Files' }).click();
  await page.getByRole('button', { name: 'README.md' }).click();
  await page.getByText('export const size = 2;').first().waitFor();
  await window.picture('shared-files', { fullPage: true });
  await page.getByRole('tab', { name: 'Life' }).click();
  await page.getByText('The agent has accepted the conversation.').waitFor();
  expect(await page.getByText('In the cluster').count()).toBe(0);
  await window.picture('shared-life', { fullPage: true });
  const token = url.slice(url.lastIndexOf('/') + 1);
  const foreign = [...asked].filter(
    (path) =>
      !path.startsWith(`/api/v1/shared/${token}/`) &&
      !path.startsWith('/_web/') &&
      path !== `/shared/${token}`,
  );
  expect(foreign).toEqual([]);
  expect([...referrers].filter(Boolean)).toEqual([]);
  expect(await page.evaluate(() => (globalThis as { owned?: unknown }).owned)).toBeUndefined();
  expect([...window.outside]).toEqual([]);
  expect(window.faults()).toEqual([]);
});

it('shows new events of a running agent within 5 seconds, and ends with words after a revocation', async () => {
  const { name, url } = await share();
  const { page } = window;
  await page.goto(url);
  await page.getByText('It is fixed.').waitFor();
  items.push(message('3', 'agent', 'All tests pass.'));
  await page.getByText('All tests pass.').waitFor({ timeout: 5_500 });
  await gateway.send('DELETE', `${shares()}/${name}`);
  await page.getByText('This link no longer opens anything.').waitFor({ timeout: 9_000 });
  expect(await page.getByText('It is fixed.').count()).toBe(0);
  await window.picture('shared-revoked');
  const before = gateway.log.length;
  await page.waitForTimeout(5_000);
  expect(gateway.log.length).toBe(before);
  expect(window.faults().every((fault) => fault.startsWith('GET 404 '))).toBe(true);
});

it('leads to the sign-in and back where it is for a person', async () => {
  const { url } = await share({ kind: 'user', name: 'bob' });
  const { page } = window;
  await page.goto(url);
  await page.getByText('This link opens nothing, or no longer.').waitFor();
  await window.picture('shared-sign-in');
  await page.getByRole('link', { name: 'sign in' }).click();
  await page.getByLabel('API key').fill(gateway.bob);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('It is fixed.').waitFor();
  expect(page.url()).toBe(url);
  await page.context().clearCookies();
  const cookie = await sessionCookie(gateway.url, await gateway.issueKey('carol'));
  const [cookieName = '', value = ''] = cookie.split('=');
  await page.context().addCookies([{ name: cookieName, value, url: gateway.url }]);
  await page.reload();
  await page.getByText('Ask the person who sent it for another one.').waitFor();
  window.faults();
});

describe('below a path', () => {
  let proxy: Server;
  beforeEach(async () => {
    proxy = createServer((request, response) => {
      const path = request.url?.replace(/^\/tools\/agents/, '') ?? '/';
      if (path === request.url) {
        response.writeHead(418).end();
        return;
      }
      const { method, headers } = request;
      httpRequest(`${gateway.url}${path}`, { method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      }).end();
    });
    proxy.listen(0, '127.0.0.1');
    await once(proxy, 'listening');
  });
  afterEach(() => {
    proxy.closeAllConnections();
    proxy.close();
  });

  it('is read too', async () => {
    const { path } = await share();
    const { port } = proxy.address() as AddressInfo;
    const { page } = window;
    await page.goto(`http://127.0.0.1:${port}/tools/agents${path}`);
    await page.getByText('It is fixed.').waitFor();
    await page.getByRole('tab', { name: 'Changes' }).click();
    await page.getByText('src/cart.ts').click();
    await page.getByText('export const size = 2;').first().waitFor();
    expect(window.faults()).toEqual([]);
  });
});
