import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startForge, type Forge } from '../forge/support/forge.ts';
import { hookMs } from '../support/agent-service.ts';
import { AcpAgents } from './support/acp-agents.ts';
import { scriptTask } from './support/mock-models.ts';

const shop = 'acme/shop';
const person = { name: 'Ada Owner', email: 'ada@example.com' };
const secret = 'value-of-the-owner-0123456789';
const credentials = mkdtempSync(join(tmpdir(), 'acp-pulls-'));
let forge: Forge;
let agents: AcpAgents;

beforeAll(async () => {
  forge = await startForge();
  for (const user of ['acme', 'robot']) await forge.newUser(user);
  await forge.newRepository('acme', 'shop', { files: { 'README.md': 'A shop.\n' } });
  await forge.addCollaborator(shop, 'robot', 'write');
  const { text } = await forge.newToken('robot', ['write:repository', 'write:issue']);
  writeFileSync(join(credentials, 'forgejo.local'), text);
  agents = await AcpAgents.start({
    AGENTS: 'codex',
    GIT_HOSTS: JSON.stringify({ forgejo: forge.url }),
    GIT_CREDENTIALS_DIR: credentials,
  });
  for (const [path, body] of [
    ['/api/v1/settings', { git_user_name: person.name, git_user_email: person.email }],
    ['/api/v1/secrets', { name: 'SHOP_TOKEN', value: secret }],
  ] as const) {
    const { status } = await agents.up.call('POST', path, body);
    expect(status).toBeLessThan(300);
  }
}, 2 * hookMs);
afterAll(async () => {
  await agents.stop();
  await forge.close();
  rmSync(credentials, { recursive: true });
}, hookMs);

describe('codex', () => {
  it('pushes a branch, opens a pull request by the tool of the gateway, and has the secrets of its owner', async () => {
    agents.models.script(
      'shop',
      { command: 'git checkout -qb agent/work && git commit -q --allow-empty -m Work' },
      { command: 'git push origin agent/work' },
      {
        call: 'create_pull_request',
        input: { title: 'Work', body: 'By an agent.' },
      },
      { command: 'printf %s "$SHOP_TOKEN" | sha256sum' },
      { command: `echo "$SHOP_TOKEN"; echo ${secret}` },
      { text: `The value is ${secret}.` },
    );
    const { id } = await agents.begin(`Work. ${scriptTask('shop')}`, {
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
      ...{ title: 'Work', body: 'By an agent.', state: 'open' },
      ...{ head: 'agent/work', base: 'main', author: 'robot' },
    });
    const seen = agents.models.lastRequest('shop');
    expect(seen).toContain(pull?.url);
    expect(seen).toContain(createHash('sha256').update(secret).digest('hex'));
    expect(await agents.up.conversation(id)).toMatchObject({ pr_number: [1] });
    const { body: commit } = await forge.api(
      'GET',
      `/repos/${shop}/git/commits/${pull?.headCommit ?? ''}`,
    );
    expect(commit).toMatchObject({ commit: { author: person, message: 'Work\n' } });

    const events = JSON.stringify(await agents.events(id));
    for (const text of ['; echo <secret-hidden>', 'The value is <secret-hidden>.'])
      expect(events).toContain(text);
    const resources = await agents.k(
      ...['get', 'conversations,sandboxes,pods,events', '-o', 'json'],
    );
    for (const text of [events, resources, agents.up.output]) expect(text).not.toContain(secret);
  });
});
