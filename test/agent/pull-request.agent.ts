import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { startForge, type Forge, type ForgeToken } from '../forge/support/forge.ts';
import { eventually } from '../support/eventually.ts';
import { startBehindProxy, type BehindProxy } from '../support/behind-proxy.ts';
import { finish, marker, ModelServer, tool } from '../support/model-server.ts';
import { Agents, hookMs, modelKey, startMs } from './support/agents.ts';
import { tracesOf } from './support/traces.ts';

const shop = 'acme/shop';
const person = { name: 'Ada Owner', email: 'ada@example.com' };
/** Secrets by their names in the environment of commands. */
const values = {
  OWNER_TOKEN: 'value-of-the-owner-0123456789',
  START_TOKEN: "value of the 'start' $HOME",
};
const tools = ['create_pull_request', 'get_pull_request', 'comment'];

const credentials = mkdtempSync(join(tmpdir(), 'agent-pulls-'));
/** Names that only the proxy can resolve. */
const hosts = { git: 'git.example.test', model: 'model.example.test' };
/** The forge uses the name by which it is called, and does not know of the TLS before it. */
const pageUrl = `http://${hosts.git}/${shop}/pulls/1`;
let forge: Forge;
let outside: BehindProxy;
let agents: Agents;
let token: ForgeToken;

const newToken = async (): Promise<ForgeToken> => {
  const made = await forge.newToken('robot', ['write:repository', 'write:issue']);
  writeFileSync(join(credentials, 'forgejo.local'), made.text);
  return made;
};

beforeAll(async () => {
  forge = await startForge();
  for (const user of ['acme', 'robot']) await forge.newUser(user);
  await forge.newRepository('acme', 'shop', { files: { 'README.md': 'for acme alone\n' } });
  await forge.addCollaborator(shop, 'robot', 'write');
  token = await newToken();
  const model = await ModelServer.start();
  outside = await startBehindProxy({ [hosts.git]: forge.url, [hosts.model]: model.baseUrl });
  agents = await Agents.start(
    {
      ...outside.env,
      LLM_BASE_URL: `https://${hosts.model}/v1`,
      GIT_HOSTS: JSON.stringify({ forgejo: `https://${hosts.git}` }),
      GIT_CREDENTIALS_DIR: credentials,
      LOG_LEVEL: 'debug',
    },
    model,
  );
  await change('/api/v1/settings', { git_user_name: person.name, git_user_email: person.email });
  await change('/api/v1/secrets', { name: 'OWNER_TOKEN', value: values.OWNER_TOKEN });
}, 2 * hookMs);
afterAll(async () => {
  // The agents of the template without the relay have the key of the model.
  await agents.stop();
  await outside[Symbol.asyncDispose]();
  await forge.close();
  rmSync(credentials, { recursive: true });
}, hookMs);

async function change(path: string, body: object): Promise<void> {
  const { status, body: answer } = await agents.up.call('POST', path, body);
  expect([status, answer]).toEqual([status < 300 ? status : 200, answer]);
}

/** Outputs of the tools that the model has been shown, in order. */
const outputs = (script: string): readonly string[] =>
  (agents.model.requests(script).at(-1)?.messages ?? [])
    .filter(({ role }) => role === 'tool')
    .map(({ content }) => content);

/** Places that contain one of the texts, as they are or in Base64. */
const found = async (...texts: readonly string[]) =>
  (
    await Promise.all(
      texts
        .flatMap((text) => [text, Buffer.from(text).toString('base64').replace(/=+$/, '')])
        .map((text) => tracesOf(agents, text)),
    )
  ).flat();

const pause = async (id: string, sandbox: string) => {
  await agents.up.call('POST', `/api/v1/sandboxes/${sandbox}/pause`);
  await agents.reaches(id, { sandbox_status: 'PAUSED' });
};
const resume = async (id: string, sandbox: string, body?: object) => {
  await agents.up.call('POST', `/api/v1/sandboxes/${sandbox}/resume`, body);
  await agents.reaches(id, { sandbox_status: 'RUNNING' });
};

/** Sends a message, and waits until the model has had that number of requests. */
async function work(id: string, script: string, requests: number): Promise<void> {
  const message = { role: 'user', content: [{ type: 'text', text: 'Continue.' }], run: true };
  const { status } = await agents.up.call(
    ...(['POST', `/api/v1/app-conversations/${id}/send-message`, message] as const),
  );
  // A sandbox that starts gets the message later.
  expect([200, 202]).toContain(status);
  await eventually(
    `the work of ${script}`,
    () => agents.model.requests(script).length === requests,
    startMs,
  );
  await agents.reaches(id, { execution_status: 'finished' });
}

const commitSchema = z.object({
  commit: z.object({
    author: z.object({ name: z.string(), email: z.string() }),
    message: z.string(),
  }),
});
async function commitOf(branch: string): Promise<z.output<typeof commitSchema>['commit']> {
  const id = (await forge.branches(shop))[branch] ?? 'none';
  const { body } = await forge.api('GET', `/repos/${shop}/git/commits/${id}`);
  return commitSchema.parse(body).commit;
}

it('the agent commits as its owner, pushes with the credential of the day, opens a pull request and is archived, by a proxy that sees no credential', async () => {
  agents.model.script(
    'shop',
    tool('cat README.md && echo changed >> README.md && git checkout -qb agent/work'),
    tool('git commit -qam Work && git log -1 --format=%s'),
    'hang',
  );
  const { id, sandbox } = await agents.begin(`Change it. ${marker('shop')}`, {
    selected_repository: shop,
  });
  await eventually('the commit', () => agents.model.requests('shop').length === 3, startMs);
  expect(outputs('shop')).toEqual([
    expect.stringContaining('for acme alone'),
    expect.stringContaining('Work'),
  ]);
  const [first] = agents.model.requests('shop');
  expect(first?.tools).toEqual(expect.arrayContaining(tools));
  expect(first?.messages[0]?.content).toContain(
    'create_pull_request, whose name may have a prefix, opens',
  );

  const live = await agents.events(id);
  await pause(id, sandbox);
  await outside.expectArchived(agents.up, id, live);
  const old = token;
  token = await newToken();
  await forge.revoke(old);
  agents.model.script(
    'shop',
    tool('git push origin agent/work'),
    { tool: 'create_pull_request', arguments: { title: 'Change', body: 'As asked.' } },
    { tool: 'comment', arguments: { body: 'Please review.' } },
    finish,
  );
  await resume(id, sandbox, { run: true });
  await agents.reaches(id, { execution_status: 'finished' });
  const [pull] = await forge.pulls(shop);
  expect(pull).toMatchObject({
    number: 1,
    title: 'Change',
    body: 'As asked.',
    state: 'open',
    isDraft: false,
    head: 'agent/work',
    base: 'main',
    author: 'robot',
  });
  expect(outputs('shop').at(-2)).toContain(pageUrl);
  const { body: comments } = await forge.api('GET', `/repos/${shop}/issues/1/comments`);
  expect(comments).toMatchObject([{ body: 'Please review.' }]);
  expect(await agents.up.conversation(id)).toMatchObject({ pr_number: [1] });
  const commit = await commitOf('agent/work');
  expect(commit.author).toEqual(person);
  expect(commit.message).toMatch(
    /^Work\n\nCo-authored-by: openhands <openhands@all-hands\.dev>\n*$/,
  );

  agents.model.script(
    'shop',
    tool('git commit -q --allow-empty -m More && git push origin agent/work'),
    { tool: 'get_pull_request', arguments: {} },
    finish,
  );
  await work(id, 'shop', 3);
  expect(outputs('shop').at(-1)).toContain('Please review.');
  expect((await commitOf('agent/work')).message).toContain('More');
  expect((await forge.pulls(shop))[0]?.headCommit).toBe((await forge.branches(shop))['agent/work']);
  expect(await found(old.text, token.text)).toEqual([]);
  await outside.expectNothingSeen(agents.up, {
    hosts: Object.values(hosts),
    secrets: { old: old.text, token: token.text, 'key of the model': modelKey, ...values },
  });
  await agents.delete(id);
});

const sumOf = (text: string) => createHash('sha256').update(`${text}\n`).digest('hex');
const sums = Object.values(values).map(sumOf);
const commandOfSums = Object.keys(values)
  .map((name) => `echo "$${name}" | sha256sum`)
  .join('; ');

it('commands have the secrets that they name, and the values are nowhere, also after a pause', async () => {
  agents.model.script(
    'secrets',
    tool(commandOfSums),
    tool('echo "The first is $OWNER_TOKEN." "The second is $START_TOKEN."'),
    tool('sleep 0; env | grep -c _TOKEN'),
    finish,
  );
  const { id, sandbox } = await agents.begin(`Use them. ${marker('secrets')}`, {
    selected_repository: shop,
    secrets: { START_TOKEN: values.START_TOKEN },
  });
  await agents.reaches(id, { execution_status: 'finished' });
  const expectNowhere = async () => {
    const events = JSON.stringify(await agents.events(id));
    expect(events).toContain('The first is <secret-hidden>. The second is <secret-hidden>.');
    const seen = [events, JSON.stringify(agents.model.requests('secrets'))];
    for (const value of Object.values(values))
      for (const text of seen) expect(text).not.toContain(JSON.stringify(value).slice(1, -1));
    expect(await found(...Object.values(values))).toEqual([]);
  };
  for (const sum of sums) expect(outputs('secrets')[0]).toContain(sum);
  expect(outputs('secrets')[1]).toContain(
    'The first is <secret-hidden>. The second is <secret-hidden>.',
  );
  await expectNowhere();

  await pause(id, sandbox);
  expect(await found(...Object.values(values))).toEqual([]);
  await resume(id, sandbox);
  agents.model.script('secrets', tool(commandOfSums), finish);
  await work(id, 'secrets', 2);
  for (const sum of sums) expect(outputs('secrets').at(-1)).toContain(sum);
  await expectNowhere();
  await agents.delete(id);
});

it('the tools and the secrets are there after the end of everything, and a gateway that is away costs no run', async () => {
  agents.model.script('powerless', tool('git checkout -qb agent/powerless'), finish);
  // With the relay for models, a gateway that is away is a model that is away.
  await agents.addTemplate('direct', { models: { relay: false } });
  const { id } = await agents.begin(`Begin. ${marker('powerless')}`, {
    sandbox_spec_id: 'direct',
    selected_repository: shop,
    secrets: { START_TOKEN: values.START_TOKEN },
  });
  await agents.reaches(id, { execution_status: 'finished' });
  await agents.kill();
  await agents.startAgain();
  agents.model.script(
    'powerless',
    tool(commandOfSums),
    tool('git commit -q --allow-empty -m Powerless && git push origin agent/powerless'),
    { tool: 'create_pull_request', arguments: { title: 'After the end' } },
    finish,
  );
  await work(id, 'powerless', 4);
  const [secrets, push] = outputs('powerless').slice(-3);
  for (const sum of sums) expect(secrets).toContain(sum);
  expect(push).toContain('new branch');
  expect((await forge.pulls(shop)).map(({ head }) => head)).toContain('agent/powerless');

  // Without its port of the last time, the gateway is away for the conversations before.
  await agents.kill();
  rmSync(join(agents.up.dataDir, 'agent-side-port'));
  await agents.startAgain();
  agents.model.script('powerless', tool('cat README.md'), finish);
  await work(id, 'powerless', 2);
  expect(outputs('powerless').at(-1)).toContain('for acme alone');
  const [first] = agents.model.requests('powerless');
  for (const name of tools) expect(first?.tools).not.toContain(name);
  await agents.delete(id);
});

it('a server of the owner that is away costs neither the run nor the tools of the gateway', async () => {
  await change('/api/v1/settings', { mcp_config: { away: { url: 'http://127.0.0.1:1/mcp' } } });
  agents.model.script('away', tool('cat README.md'), finish);
  const { id } = await agents.begin(`Read it. ${marker('away')}`, { selected_repository: shop });
  await agents.reaches(id, { execution_status: 'finished' });
  expect(outputs('away')[0]).toContain('for acme alone');
  const [first] = agents.model.requests('away');
  // The agent prefixes the names of tools when it has several servers.
  expect(first?.tools).toEqual(
    expect.arrayContaining(tools.map((name) => `conversation-operator_${name}`)),
  );
  await change('/api/v1/settings', { mcp_config: { away: null } });
  await agents.delete(id);
});
