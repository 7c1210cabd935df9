import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ModelServer, finish, marker, tool } from '../support/model-server.ts';
import { Agents } from './support/agents.ts';

const folder = mkdtempSync(join(tmpdir(), 'agent-story-'));
let model: ModelServer;
let agents: Agents;

/** A repository with all that is for agents, on a git host that is a folder. */
function makeRepository(): string {
  const tree = join(folder, 'tree');
  const git = (where: string, ...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=test', '-c', 'user.email=test@localhost', '-C', where, ...args], { stdio: 'pipe' });
  mkdirSync(join(tree, '.openhands'), { recursive: true });
  writeFileSync(join(tree, 'AGENTS.md'), 'Rule 42: the shop is closed on Sundays.\n');
  writeFileSync(join(tree, '.openhands', 'setup.sh'), 'echo "set up in $(basename "$PWD")" > set-up.txt\n');
  git(tree, 'init', '--quiet', '--initial-branch', 'main');
  git(tree, 'add', '.');
  git(tree, 'commit', '--quiet', '--message', 'first');
  mkdirSync(join(folder, 'hosted', 'acme'), { recursive: true });
  git(folder, 'clone', '--quiet', '--bare', tree, join(folder, 'hosted', 'acme', 'shop.git'));
  return `file://${join(folder, 'hosted')}`;
}

beforeAll(async () => {
  model = await ModelServer.start();
  agents = await Agents.start(model, { env: { GIT_HOSTS: JSON.stringify({ github: makeRepository() }) } });
}, 60_000);
afterAll(async () => {
  await agents.up.stop();
  await model[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
}, 60_000);

describe('a task for the real agent', () => {
  it('is done with its shell, and is followed over REST', async () => {
    model.script('task', tool('echo made > file.txt; cat file.txt'), finish);
    const { id, sandbox } = await agents.begin(`Make a file. ${marker('task')}`);
    await agents.reaches(id, { execution_status: 'finished' });
    expect(await agents.file(sandbox, 'file.txt')).toBe('made\n');

    // Two steps and the title, 10 and 2 tokens each.
    const metrics = { accumulated_cost: 0, accumulated_token_usage: { prompt_tokens: 30, completion_tokens: 6 } };
    expect(await agents.reaches(id, { title: 'A title', metrics })).toMatchObject({ agent_kind: 'openhands' });
    const kinds = (await agents.events(id)).map(({ kind }) => kind);
    expect(kinds).toEqual(expect.arrayContaining(['SystemPromptEvent', 'MessageEvent', 'ActionEvent', 'ObservationEvent']));
    expect((await agents.agent(id, 'GET', '/events/search?limit=100')) as object).toMatchObject({ items: await agents.events(id) });
    expect(await agents.agent(id, 'GET', '/agent_final_response')).toEqual({ response: 'all done' });

    const [first, second] = model.requests('task');
    expect(first).toMatchObject({ model: 'm', authorization: 'Bearer llm-key-of-the-tests' });
    expect(second?.messages.at(-1)?.content).toContain('made');
    expect(model.titles.length).toBeGreaterThan(0);
  });

  it('is told by kubectl too', async () => {
    const [line = ''] = (await agents.k('get', 'conversations', '--no-headers')).trim().split('\n');
    expect(line).toMatch(/RUNNING\s+finished\s+READY/);
    expect(await agents.k('get', 'conversations', '-o', 'wide')).toContain('A title');
    const [pod = ''] = (await agents.k('get', 'pods', '-o', 'name')).split('\n');
    expect(await agents.k('logs', pod)).toContain('Application startup complete');
  });

  it('shows the key of the model nowhere: not in a resource, a log, a file of the sandbox, or the environment of its processes', async () => {
    const key = 'llm-key-of-the-tests';
    const resources = await agents.k('get', 'conversations,sandboxes,sandboxtemplates,pods,pvc,events', '-o', 'json');
    const sandbox = (await agents.k('get', 'sandboxes', '-o', 'name')).trim().replace(/^.*\//, '');
    const logs = `${agents.up.output}\n${await agents.k('logs', sandbox)}`;
    const found = (where: string) => {
      try {
        return execFileSync('grep', ['-rla', key, where], { encoding: 'utf8' }).trim().split('\n');
      } catch {
        return [];
      }
    };
    const environments = agents.up.agentProcesses().map((pid) => `/proc/${pid}/environ`);
    expect(environments.length).toBeGreaterThan(0);
    expect([resources.includes(key), logs.includes(key)]).toEqual([false, false]);
    expect([...found(agents.up.dataDir), ...environments.flatMap(found)]).toEqual([]);
  });
});

describe('a repository', () => {
  it('is cloned and set up, and what it says to agents is in the prompt; a second conversation shares the sandbox', async () => {
    model.script('shop', tool('cat set-up.txt'), finish);
    const { id, sandbox } = await agents.begin(`Look around. ${marker('shop')}`, { selected_repository: 'acme/shop' });
    await agents.reaches(id, { execution_status: 'finished' });
    const [first, second] = model.requests('shop');
    const prompt = first?.messages.filter(({ role }) => role === 'system').map(({ content }) => content) ?? [];
    expect(prompt.join('\n')).toContain('Rule 42: the shop is closed on Sundays.');
    expect(second?.messages.at(-1)?.content).toContain('set up in project');

    model.script('guest', tool('echo guest > guest.txt'), finish);
    model.script('again', tool('echo host > host.txt'), finish);
    const guest = await agents.begin(`Join. ${marker('guest')}`, { sandbox_id: sandbox });
    expect(guest.sandbox).toBe(sandbox);
    // A conversation's marker is in its first message, so this goes on with that script.
    model.script('shop', tool('echo host > host.txt'), finish);
    const { status } = await agents.up.call('POST', `/api/v1/app-conversations/${id}/send-message`, {
      role: 'user',
      content: [{ type: 'text', text: 'Go on.' }],
      run: true,
    });
    expect(status).toBe(200);
    await agents.reaches(guest.id, { execution_status: 'finished' });
    await expect(agents.events(id, '&kind=MessageEvent')).resolves.not.toHaveLength(0);
    const after = await agents.reaches(id, { execution_status: 'finished' });
    expect(after.sandbox_id).toBe(sandbox);
    expect(model.requests('guest')).toHaveLength(2);
    expect(model.requests('shop')).toHaveLength(2);
  });
});

describe('a run that its owner pauses in the middle of a command', () => {
  it('stands until it is told to go on, and then finishes', async () => {
    model.script(
      'pause',
      tool('echo before >> before.txt'),
      tool('touch begun; sleep 60; touch ended'),
      tool('echo after >> after.txt'),
      finish,
    );
    const { id, sandbox } = await agents.begin(`Work. ${marker('pause')}`);
    await agents.file(sandbox, 'begun');
    await agents.up.call('POST', `/api/v1/sandboxes/${sandbox}/pause`);
    await agents.reaches(id, { sandbox_status: 'PAUSED', sandbox_status_reason: 'user', execution_status: 'paused' });
    await agents.up.call('POST', `/api/v1/sandboxes/${sandbox}/resume`, { run: true });
    await agents.reaches(id, { sandbox_status: 'RUNNING' });
    await agents.reaches(id, { execution_status: 'finished' });
    expect([await agents.fileNow(sandbox, 'before.txt'), await agents.fileNow(sandbox, 'after.txt')]).toEqual(['before\n', 'after\n']);
    expect(await agents.fileNow(sandbox, 'ended')).toBeUndefined();
    expect(model.requests('pause')[2]?.messages.at(-1)?.content).toContain('interrupted before completion');
    expect(model.requests('pause')).toHaveLength(4);
  });
});
