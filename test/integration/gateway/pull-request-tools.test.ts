import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { silentLogger } from '@conversation-operator/base/logger';
import { systemClock } from '@conversation-operator/base/clock';
import { IndexedStore } from '@conversation-operator/kube/store';
import { SandboxKeys } from '../../../src/agent/keys.ts';
import {
  createCallbackServer,
  type CallbackServer,
} from '../../../src/gateway/callback-server/callback-server.ts';
import { gatewayIndexers } from '../../../src/gateway/lookup/cache.ts';
import { PullRequests } from '../../../src/gateway/pull-requests/pull-requests.ts';
import { pullRequestTools } from '../../../src/gateway/pull-requests/tools.ts';
import { createMetrics } from '../../../src/observability/metrics.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../../src/resources/cached-conversation.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import { gitSettingsSchema } from '../../../src/resources/git-settings.ts';
import { conversationIdOf } from '../../../src/resources/ids.ts';
import type { Sandbox } from '../../../src/resources/sandbox.ts';
import type { SandboxTemplate } from '../../../src/resources/sandbox-template.ts';
import { aStoredConversation, aSandbox, aTemplate, noon } from '../../support/builders.ts';
import { FakeHostApi } from '../../support/fake-host-api.ts';
import { quietCache } from '../../support/gateway/quiet-cache.ts';
import { FakeKubeClient } from '../../support/fake-kube-client.ts';

const keys = new SandboxKeys([Buffer.alloc(32, 7)]);
const stores = {
  sandboxes: new IndexedStore<Sandbox>(gatewayIndexers.sandboxes),
  conversations: new IndexedStore<CachedConversation>(gatewayIndexers.conversations),
  templates: new IndexedStore<SandboxTemplate>({}),
};
const client = new FakeKubeClient();
let host: FakeHostApi;
let side: CallbackServer;
let url: string;

beforeAll(async () => {
  const common = { clock: systemClock, logger: silentLogger, metrics: createMetrics() };
  const pullRequests = new PullRequests({
    client,
    ...common,
    audit: () => undefined,
    events: { record: () => undefined },
    credentials: {
      of: () => Promise.resolve({ authorization: 'Basic x', token: 's3cret', name: 'forgejo' }),
    },
    templates: quietCache(stores.templates),
    apiOf: () => host,
    defaultProvider: 'forgejo',
  });
  const tools = pullRequestTools({
    ...common,
    keys,
    pullRequests,
    version: '1.2.3',
    conversations: quietCache(stores.conversations),
  });
  side = createCallbackServer({
    handlers: [tools],
    sandboxes: quietCache(stores.sandboxes),
    ...common,
    namespace: 'default',
    host: '127.0.0.1',
    port: 0,
  });
  url = `http://127.0.0.1:${(await side.listen()).port}`;
});
beforeEach(() => {
  host = new FakeHostApi();
});
afterAll(() => side.close());

let number = 0;

async function aWorkplace({
  owner = 'alice',
  replicas = 1,
  git = {},
}: { owner?: string; replicas?: 0 | 1; git?: object } = {}) {
  const name = `sbx-${++number}`;
  const sandbox = aSandbox({ name, owner, replicas });
  const template = aTemplate({ git: gitSettingsSchema.parse(git) });
  const conversation = await client.create(conversations, {
    ...aStoredConversation({
      name: `c-${name}`,
      spec: { owner, templateName: name, repository: { name: 'acme/shop' } },
    }),
    status: {
      sandboxName: name,
      sandboxUID: sandbox.metadata.uid,
      start: { status: 'READY', transitions: [] },
      pushes: [
        {
          id: 'p',
          ref: 'refs/heads/agent/fix',
          oldId: '0'.repeat(40),
          newId: '1'.repeat(40),
          time: noon,
          outcome: 'Accepted',
        },
      ],
    },
  });
  stores.sandboxes.set(sandbox);
  stores.templates.set({ ...template, metadata: { ...template.metadata, name } });
  stores.conversations.set(cachedConversation(conversation));
  const id = conversationIdOf(conversation);
  return { name, sandbox, id, url: `${url}/mcp/${name}/${id}` };
}
type Workplace = Awaited<ReturnType<typeof aWorkplace>>;

const authorizationOf = ({ sandbox }: Pick<Workplace, 'sandbox'>) => ({
  Authorization: `Bearer ${keys.toolsToken(sandbox.metadata.uid)}`,
});

/** The published client, with the connection of one agent. */
async function withClient<T>(workplace: Workplace, work: (client: Client) => Promise<T>) {
  const mcp = new Client({ name: 'test', version: '1' });
  await mcp.connect(
    new StreamableHTTPClientTransport(new URL(workplace.url), {
      requestInit: { headers: authorizationOf(workplace) },
    }),
  );
  try {
    return await work(mcp);
  } finally {
    await mcp.close();
  }
}

async function callTool(workplace: Workplace, name: string, args: Record<string, unknown> = {}) {
  const result = await withClient(workplace, (mcp) => mcp.callTool({ name, arguments: args }));
  const [content] = result.content as { readonly text: string }[];
  return { isError: result.isError === true, text: content?.text ?? '' };
}

it('lists the tools with schemas that models can use', async () => {
  const { tools } = await withClient(await aWorkplace(), (mcp) => mcp.listTools());
  expect(tools.map(({ name, inputSchema }) => [name, inputSchema.required ?? []])).toEqual([
    ['create_pull_request', ['title']],
    ['get_pull_request', []],
    ['comment', ['body']],
  ]);
});

it('opens, comments on and reads a pull request', async () => {
  const workplace = await aWorkplace();
  const opened = await callTool(workplace, 'create_pull_request', { title: 'Fix', draft: true });
  expect(opened.isError).toBe(false);
  expect(JSON.parse(opened.text)).toEqual({
    number: 1,
    url: 'https://git.example.com/acme/shop/pulls/1',
    state: 'Open',
    head: 'agent/fix',
    base: 'main',
    draft: true,
    created: true,
  });
  const again = await callTool(workplace, 'create_pull_request', { title: 'Fix' });
  expect(JSON.parse(again.text)).toMatchObject({ number: 1, created: false });
  expect((await callTool(workplace, 'comment', { body: 'Ready.' })).isError).toBe(false);
  const read = await callTool(workplace, 'get_pull_request');
  expect(JSON.parse(read.text)).toMatchObject({ number: 1, comments: [{ body: 'Ready.' }] });
  expect(JSON.stringify([opened, again, read])).not.toContain('s3cret');
});

it.each<[string, string, Record<string, unknown>, RegExp]>([
  ['no title', 'create_pull_request', {}, /title/],
  ['a head of another repository', 'create_pull_request', { title: 'x', head: 'eve:fix' }, /head/],
  [
    'a branch that may not be pushed',
    'create_pull_request',
    { title: 'x', head: 'main' },
    /policy/,
  ],
  ['a tool that merges', 'merge_pull_request', { number: 1 }, /not found/],
  ['a pull request that is absent', 'get_pull_request', { number: 77 }, /no such pull request/],
])('says to the model what is wrong with %s', async (_what, name, args, expected) => {
  const result = await callTool(await aWorkplace(), name, args);
  expect(result).toEqual({ isError: true, text: expect.stringMatching(expected) as string });
  expect(host.pullRequests).toEqual([]);
});

const listRequest = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} };
const post = (to: string, headers: Record<string, string>, body: unknown = listRequest) =>
  fetch(to, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });

describe('a request is refused', () => {
  it.each<[string, (own: Workplace, other: Workplace) => Promise<Response>, number]>([
    ['without a token', (own) => post(own.url, {}), 401],
    [
      'with the token of another sandbox',
      (own, other) => post(own.url, authorizationOf(other)),
      401,
    ],
    [
      'with the git token',
      (own) => {
        const token = keys.gitToken(own.sandbox.metadata.uid);
        return post(own.url, { Authorization: `Bearer ${token}` });
      },
      401,
    ],
    [
      'about a conversation of another sandbox',
      (own, other) => post(`${url}/mcp/${own.name}/${other.id}`, authorizationOf(own)),
      403,
    ],
    ['for a sandbox that is absent', (own) => post(`${url}/mcp/none/${own.id}`, {}), 401],
    ['with GET', (own) => fetch(own.url, { headers: authorizationOf(own) }), 405],
    [
      'with more than it may have',
      (own) => post(own.url, authorizationOf(own), 'x'.repeat(300_000)),
      413,
    ],
    ['with no JSON', (own) => post(own.url, authorizationOf(own), '{'), 400],
    ['with another path', (own) => post(`${own.url}/more`, authorizationOf(own)), 404],
  ])('%s', async (_what, request, status) => {
    const [own, other] = [await aWorkplace(), await aWorkplace({ owner: 'bob' })];
    const response = await request(own, other);
    expect(response.status).toBe(status);
    await response.body?.cancel();
  });

  it('while the sandbox is paused', async () => {
    const paused = await aWorkplace({ replicas: 0 });
    expect((await post(paused.url, authorizationOf(paused))).status).toBe(403);
  });

  it('beyond the rate of a sandbox, which leaves others alone', async () => {
    const [own, other] = [await aWorkplace(), await aWorkplace()];
    const statuses = await Promise.all(
      Array.from({ length: 80 }, async () => (await post(own.url, authorizationOf(own))).status),
    );
    expect(statuses).toContain(429);
    expect((await post(other.url, authorizationOf(other))).status).toBe(200);
  });
});
