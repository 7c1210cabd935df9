import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../support/eventually.ts';
import { GitServer } from '../support/git-server.ts';
import { finish, marker, tool } from '../support/model-server.ts';
import { Agents, hookMs, startMs } from './support/agents.ts';
import { processTexts, tracesOf } from './support/traces.ts';

const password = 's3cret-of-local';
const credential = `bot:${password}`;
const secrets = [password, Buffer.from(credential).toString('base64')];

const credentials = mkdtempSync(join(tmpdir(), 'agent-credentials-'));
let host: GitServer;
let agents: Agents;

beforeAll(async () => {
  const shop = {
    'AGENTS.md': 'Rule 42: the shop is closed on Sundays.\n',
    '.openhands/setup.sh': { run: 'echo "set up in $(basename "$PWD")" > set-up.txt\n' },
  };
  host = await GitServer.start({
    repositories: {
      'acme/shop': { files: shop },
      'acme/secret': { files: { 'README.md': 'for acme alone\n' } },
    },
    readers: { 'acme/secret': [credential] },
  });
  writeFileSync(join(credentials, 'github.local'), credential);
  agents = await Agents.start({
    GIT_HOSTS: JSON.stringify({ github: host.url }),
    GIT_CREDENTIALS_DIR: credentials,
    LOG_LEVEL: 'debug',
  });
}, hookMs);
afterAll(async () => {
  await agents.stopKeyless();
  await host.stop();
  rmSync(credentials, { recursive: true });
}, hookMs);

describe('a repository', () => {
  it('is cloned and set up, and what it says to agents is in the prompt; a second conversation shares the sandbox', async () => {
    agents.model.script('shop', tool('cat set-up.txt'), finish);
    const { id, sandbox } = await agents.begin(`Read the shop. ${marker('shop')}`, {
      selected_repository: 'acme/shop',
    });
    await agents.reaches(id, { execution_status: 'finished' });
    const [first, second] = agents.model.requests('shop');
    const prompt =
      first?.messages.filter(({ role }) => role === 'system').map(({ content }) => content) ?? [];
    expect(prompt.join('\n')).toContain('Rule 42: the shop is closed on Sundays.');
    expect(second?.messages.at(-1)?.content).toContain('set up in project');

    agents.model.script('guest', tool('echo guest > guest.txt'), finish);
    const guest = await agents.begin(`Join. ${marker('guest')}`, { sandbox_id: sandbox });
    expect(guest.sandbox).toBe(sandbox);
    // A conversation's marker is in its first message, so this continues with that script.
    agents.model.script('shop', tool('echo host > host.txt'), finish);
    await agents.say(id, 'Continue.');
    await agents.reaches(guest.id, { execution_status: 'finished' });
    await expect(agents.events(id, '&kind=MessageEvent')).resolves.not.toHaveLength(0);
    const after = await agents.reaches(id, { execution_status: 'finished' });
    expect(after.sandbox_id).toBe(sandbox);
    expect(agents.model.requests('guest')).toHaveLength(2);
    expect(agents.model.requests('shop')).toHaveLength(2);
  });
});

/** Places that contain one of the secrets. */
const found = async (...wanted: readonly string[]) =>
  (await Promise.all(wanted.map((secret) => tracesOf(agents, secret)))).flat();

describe('a private repository', () => {
  it('is cloned and worked on, its credential is nowhere to be found, and a sandbox that comes back has it still', async () => {
    let open = (): void => undefined;
    host.gates.set('acme/secret', new Promise((resolve) => (open = resolve)));
    agents.model.script(
      'secret',
      tool('cat README.md; git config remote.origin.url; env; echo changed >> README.md'),
      tool(
        'git checkout -qb agent/work && git -c user.name=a -c user.email=a@b commit -qam Work && git push origin agent/work',
      ),
      finish,
    );
    const { id: task } = await agents.up.start(`Read it. ${marker('secret')}`, {
      selected_repository: 'acme/secret',
    });
    host.taken();
    await eventually(
      'the clone to begin',
      () => host.requests.some(({ method }) => method === 'POST'),
      startMs,
    );
    const texts = [...processTexts(agents)];
    // The sandbox has a ticket instead, in the environment of git alone.
    const ticket =
      texts.flatMap(([, text]) => /Authorization: Bearer (\d+\.[\w-]+)/.exec(text)?.[1] ?? [])[0] ??
      '';
    expect(ticket).not.toBe('');
    expect(
      texts.filter(([path, text]) => path.endsWith('cmdline') && text.includes(ticket)),
    ).toEqual([]);
    expect(await found(...secrets)).toEqual([]);
    open();

    const { status, app_conversation_id, sandbox_id } = await agents.up.over(task, startMs);
    expect(status).toBe('READY');
    const [id, sandbox] = [app_conversation_id ?? '', sandbox_id ?? ''];
    await agents.reaches(id, { execution_status: 'finished' });
    const [first, second] = agents.model.requests('secret');
    expect(JSON.stringify(first?.messages)).toContain('You may push to acme/secret with git');
    const seen = second?.messages.at(-1)?.content;
    expect(seen).toContain('for acme alone');
    expect(seen).toContain(`${host.url}/acme/secret.git`);
    const pushes = await agents.k('get', 'conversation', id, '-o', 'jsonpath={.status.pushes}');
    expect(JSON.parse(pushes)).toMatchObject([
      { ref: 'refs/heads/agent/work', outcome: 'Accepted' },
    ]);
    for (const secret of [...secrets, ticket])
      expect(JSON.stringify(agents.model.requests('secret'))).not.toContain(secret);
    expect(await found(...secrets, ticket)).toEqual([]);

    host.taken();
    await agents.up.call('POST', `/api/v1/sandboxes/${sandbox}/pause`);
    await agents.reaches(id, { sandbox_status: 'PAUSED' });
    await agents.up.call('POST', `/api/v1/sandboxes/${sandbox}/resume`);
    await agents.reaches(id, { sandbox_status: 'RUNNING' });
    agents.model.script('secret', tool('cat README.md; git log -1 --format=%s'), finish);
    await agents.say(id, 'Read it again.');
    await eventually(
      'the work to be done',
      () => agents.model.requests('secret').length === 2,
      startMs,
    );
    await agents.reaches(id, { execution_status: 'finished' });
    expect(agents.model.requests('secret').at(-1)?.messages.at(-1)?.content).toMatch(
      /for acme alone\s+changed\s+Work/,
    );
    // The repository is not cloned again.
    expect(host.taken()).toEqual([]);
    expect(await found(...secrets, ticket)).toEqual([]);
  });
});
