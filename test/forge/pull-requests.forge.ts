import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { eventually } from '../support/eventually.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';
import { leaksIn } from '../support/leaks.ts';
import { pushOf, say, startAgent, toolCall, type AgentAtWork } from './support/agent-at-work.ts';
import { startForge, type Forge, type ForgeToken } from './support/forge.ts';

const shop = 'acme/shop';
const folder = mkdtempSync(join(tmpdir(), 'forge-pulls-'));
const credential = join(folder, 'credentials', 'forgejo.local');
let forge: Forge;
let up: Installation;
let agent: AgentAtWork;
let token: ForgeToken;

beforeAll(async () => {
  forge = await startForge();
  for (const user of ['acme', 'robot']) await forge.newUser(user);
  await forge.newRepository('acme', 'shop', { files: { 'README.md': 'private\n' } });
  await forge.addCollaborator(shop, 'robot', 'write');
  token = await forge.newToken('robot', ['write:repository', 'write:issue']);
  mkdirSync(join(folder, 'credentials'));
  writeFileSync(credential, token.text);
  up = await Installation.start({
    env: {
      GIT_HOSTS: JSON.stringify({ forgejo: forge.url }),
      GIT_CREDENTIALS_DIR: join(folder, 'credentials'),
      LOG_LEVEL: 'debug',
    },
  });
  agent = await startAgent(up, shop);
});
afterAll(async () => {
  await up.stop();
  await forge.close();
  rmSync(folder, { recursive: true });
});

const openedSchema = z.object({ number: z.number(), url: z.string(), provider: z.string() });
const recordSchema = z.array(
  z.object({
    pr_number: z.array(z.number()),
    pull_requests: z.array(z.object({ number: z.number(), state: z.string() })),
  }),
);

const open = (body: object, conversation = agent.conversation) =>
  up.call('POST', `/api/v1/app-conversations/${conversation}/pull-request`, body);

async function record() {
  const { body } = await up.call('GET', `/api/v1/app-conversations?ids=${agent.conversation}`);
  const [found] = recordSchema.parse(body);
  return found;
}

/** Calls a tool of the gateway as the reference agent does: by a code block. */
const callTool = (name: string, input: object): Promise<void> =>
  say(up, agent.conversation, toolCall(name, input));

it('a client opens a pull request from the branch that was pushed last', async () => {
  expect(await open({ title: 'Too early' })).toMatchObject({
    status: 422,
    body: { errors: [{ path: 'body.head' }] },
  });
  expect(await agent.run(pushOf('agent/first'))).toMatchObject({ code: 0 });
  await eventually('the record of the push', async () => (await agent.pushes()).length === 1);
  const { status, body } = await open({ title: 'First', body: 'Done by an agent.' });
  expect(status).toBe(201);
  const opened = openedSchema.parse(body);
  expect(opened).toEqual({ number: 1, url: `${forge.url}/${shop}/pulls/1`, provider: 'forgejo' });
  expect(await forge.pulls(shop)).toMatchObject([
    {
      number: 1,
      title: 'First',
      body: 'Done by an agent.',
      state: 'open',
      isDraft: false,
      head: 'agent/first',
      base: 'main',
      author: 'robot',
      url: opened.url,
    },
  ]);
  expect(await open({ title: 'First again' })).toMatchObject({
    status: 409,
    body: { code: 'pull-request-exists', detail: expect.stringContaining(opened.url) as string },
  });
  expect(await record()).toEqual({
    pr_number: [1],
    pull_requests: [expect.objectContaining({ number: 1, state: 'open' })],
  });
  const { stdout } = await kubectl(up.kubeconfig, [
    ...['get', 'conversation', agent.conversation, '-o', 'wide'],
  ]);
  expect(stdout).toMatch(/\bPR\b.*\bPR-STATE\b[^]* 1 .* Open /);
});

it('the agent opens one by its tool after a pause and with another token', async () => {
  await agent.pause();
  const old = token;
  token = await forge.newToken('robot', ['write:repository', 'write:issue']);
  writeFileSync(credential, token.text);
  await forge.revoke(old);
  expect(await agent.run(pushOf('agent/second'))).toMatchObject({ code: 0 });
  await callTool('create_pull_request', { title: 'Second', draft: true });
  await eventually('the pull request', async () => (await forge.pulls(shop)).length === 2);
  expect((await forge.pulls(shop))[1]).toMatchObject({ head: 'agent/second', isDraft: true });
  await callTool('comment', { body: 'Please review.' });
  await eventually('the comment', async () => {
    const { body } = await forge.api('GET', `/repos/${shop}/issues/2/comments`);
    return JSON.stringify(body).includes('Please review.');
  });
});

it('a renamed repository gets branches, pull requests and comments, by the exceptions of its new name', async () => {
  const rename = (from: string, name: string) =>
    forge.api('PATCH', `/repos/acme/${from}`, { name });
  const allow = (enabled: boolean) =>
    kubectl(up.kubeconfig, [
      ...['patch', 'sandboxtemplate', 'default', '--type', 'merge', '--patch'],
      JSON.stringify({
        spec: { git: { overrides: [{ repository: 'acme/Store', pullRequests: { enabled } }] } },
      }),
    ]);
  await rename('shop', 'store');
  try {
    expect(await agent.run(pushOf('agent/renamed'))).toMatchObject({ code: 0 });
    await allow(false);
    expect(await open({ title: 'Renamed', head: 'agent/renamed' })).toMatchObject({ status: 403 });
    await allow(true);
    const { status, body } = await open({ title: 'Renamed', head: 'agent/renamed' });
    expect({ status, body }).toMatchObject({ status: 201, body: { number: 3 } });
    await callTool('comment', { number: 3, body: 'Done.\n/close' });
    await eventually('the comment', async () => {
      const { body: comments } = await forge.api('GET', '/repos/acme/store/issues/3/comments');
      return JSON.stringify(comments).includes(String.raw`Done.\n\\/close`);
    });
  } finally {
    await rename('store', 'shop');
  }
});

it('the status shows what people do on the forge', async () => {
  await forge.mergePull(shop, 1);
  await callTool('get_pull_request', { number: 1 });
  await eventually('the state', async () =>
    (await record())?.pull_requests.some(({ number, state }) => number === 1 && state === 'merged'),
  );
  const { stdout } = await kubectl(up.kubeconfig, ['get', 'events', '-o', 'json']);
  expect(stdout.match(/"reason": "PullRequestOpened"/g)).toHaveLength(3);
});

it.each([
  ['from a branch beyond the policy', { title: 'x', head: 'main' }, 403, 'pull-request-refused'],
  ['from a branch that is absent', { title: 'x', head: 'agent/none' }, 422, 'pull-request-invalid'],
  ['to a branch that is absent', { title: 'x', base: 'none' }, 422, 'pull-request-invalid'],
  ['from a fork', { title: 'x', head: 'eve:agent/x' }, 422, 'invalid-request'],
  ['without a title', {}, 422, 'invalid-request'],
])('a pull request %s is refused with a reason', async (_what, body, status, code) => {
  const before = await forge.pulls(shop);
  expect(await open(body)).toMatchObject({ status, body: { code } });
  expect(await forge.pulls(shop)).toEqual(before);
});

it('a token that is revoked opens none, and no token is in a resource or a log line', async () => {
  expect(await agent.run(pushOf('agent/third'))).toMatchObject({ code: 0 });
  await forge.revoke(token);
  expect(await open({ title: 'x', head: 'agent/third' })).toMatchObject({
    status: 403,
    body: { code: 'git-host-denied' },
  });
  const { stdout } = await kubectl(up.kubeconfig, [
    ...['get', 'conversations,sandboxes,pods,events', '-o', 'json'],
  ]);
  for (const text of [stdout, up.output]) expect(leaksIn(text, { token: token.text })).toEqual([]);
});
