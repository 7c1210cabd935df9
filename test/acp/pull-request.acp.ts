import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startForge, type Forge, type ForgeToken } from '../forge/support/forge.ts';
import { hookMs } from '../support/agent-service.ts';
import { startBehindProxy, type BehindProxy } from '../support/behind-proxy.ts';
import { AcpAgents, modelKey } from './support/acp-agents.ts';
import { MockModels, scriptTask } from './support/mock-models.ts';

const shop = 'acme/shop';
const person = { name: 'Ada Owner', email: 'ada@example.com' };
const secret = 'value-of-the-owner-0123456789';
const credentials = mkdtempSync(join(tmpdir(), 'acp-pulls-'));
/** Names that only the proxy can resolve: this network has nothing but loopback. */
const hosts = { git: 'git.example.test', models: 'models.example.test' };
/** Hosts on which codex searches for plugins, without which it works. */
const ownHosts = ['github.com', 'api.github.com', 'chatgpt.com'];
/** The forge uses the name by which it is called, and does not know of the TLS before it. */
const pageUrl = `http://${hosts.git}/${shop}/pulls/1`;
let forge: Forge;
let token: ForgeToken;
let outside: BehindProxy;
let agents: AcpAgents;

beforeAll(async () => {
  forge = await startForge();
  for (const user of ['acme', 'robot']) await forge.newUser(user);
  await forge.newRepository('acme', 'shop', { files: { 'README.md': 'A shop.\n' } });
  await forge.addCollaborator(shop, 'robot', 'write');
  token = await forge.newToken('robot', ['write:repository', 'write:issue']);
  writeFileSync(join(credentials, 'forgejo.local'), token.text);
  const models = await MockModels.start();
  outside = await startBehindProxy({ [hosts.git]: forge.url, [hosts.models]: models.baseUrl });
  agents = await AcpAgents.start(
    {
      ...outside.env,
      AGENTS: 'codex',
      LLM_BASE_URL: `https://${hosts.models}`,
      GIT_HOSTS: JSON.stringify({ forgejo: `https://${hosts.git}` }),
      GIT_CREDENTIALS_DIR: credentials,
    },
    models,
  );
  for (const [path, body] of [
    ['/api/v1/settings', { git_user_name: person.name, git_user_email: person.email }],
    ['/api/v1/secrets', { name: 'SHOP_TOKEN', value: secret }],
  ] as const) {
    const { status } = await agents.up.call('POST', path, body);
    expect(status).toBeLessThan(300);
  }
}, 2 * hookMs);
afterAll(async () => {
  await agents.stopKeyless();
  await outside[Symbol.asyncDispose]();
  await forge.close();
  rmSync(credentials, { recursive: true });
}, hookMs);

describe('codex', () => {
  it('pushes a branch, opens a pull request by the tool of the gateway, has the secrets of its owner and is archived, by a proxy that sees no credential', async () => {
    agents.models.script(
      'shop',
      { command: 'git checkout -qb agent/work && git commit -q --allow-empty -m Work' },
      { command: 'git push origin agent/work' },
      { call: 'create_pull_request', input: { title: 'Work', body: 'By an agent.' } },
      { command: 'printf %s "$SHOP_TOKEN" | sha256sum' },
      { command: `echo "$SHOP_TOKEN"; echo ${secret}` },
      { text: `The value is ${secret}.` },
    );
    const { id, sandbox } = await agents.begin(`Work. ${scriptTask('shop')}`, {
      sandbox_spec_id: 'codex',
      confirmation_policy: 'NeverConfirm',
      selected_repository: shop,
    });
    await agents.reaches(id, { execution_status: 'finished' });
    expect(agents.models.toolsOf('shop')).toContain(
      'mcp__conversation_operator/create_pull_request',
    );
    const [pull] = await forge.pulls(shop);
    expect(pull).toMatchObject({
      title: 'Work',
      body: 'By an agent.',
      state: 'open',
      head: 'agent/work',
      base: 'main',
      author: 'robot',
    });
    const seen = agents.models.lastRequest('shop');
    expect(seen).toContain(pageUrl);
    expect(seen).toContain(createHash('sha256').update(secret).digest('hex'));
    expect(await agents.up.conversation(id)).toMatchObject({ pr_number: [1] });
    const { body: commit } = await forge.api(
      'GET',
      `/repos/${shop}/git/commits/${pull?.headCommit ?? ''}`,
    );
    expect(commit).toMatchObject({ commit: { author: person, message: 'Work\n' } });

    const live = await agents.events(id);
    const events = JSON.stringify(live);
    for (const text of ['; echo <secret-hidden>', 'The value is <secret-hidden>.'])
      expect(events).toContain(text);
    const resources = await agents.k(
      ...['get', 'conversations,sandboxes,pods,events', '-o', 'json'],
    );
    for (const text of [events, resources, agents.up.output]) expect(text).not.toContain(secret);

    await agents.pause(id, sandbox);
    await outside.expectArchived(agents.up, id, live);
    await outside.expectNothingSeen(agents.up, {
      hosts: Object.values(hosts),
      refused: ownHosts,
      secrets: { token: token.text, 'key of the model': modelKey, 'secret of the owner': secret },
    });
  });
});
