import { randomBytes } from 'node:crypto';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../support/eventually.ts';
import { GitServer } from '../support/git-server.ts';
import { Installation, saying } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';

const password = 's3cret-of-all';
const credential = `bot:${password}`;
const encoded = Buffer.from(credential).toString('base64');

const folder = mkdtempSync(join(tmpdir(), 'repository-'));
let host: GitServer;
let up: Installation;
beforeAll(async () => {
  const credentials = join(folder, 'forgejo');
  writeFileSync(credentials, credential);
  const files = { 'README.md': 'private\n', 'large.bin': randomBytes(3 * 1024 * 1024) };
  host = await GitServer.start({
    repositories: { 'acme/shop': { branches: ['trunk'], head: 'trunk' }, 'acme/secret': { files } },
    readers: { 'acme/secret': [credential] },
  });
  const hosts = JSON.stringify({ forgejo: host.url });
  up = await Installation.start({
    env: { GIT_HOSTS: hosts, GIT_CREDENTIALS_DIR: folder, LOG_LEVEL: 'debug' },
  });
});
afterEach(() => host.gates.clear());
afterAll(async () => {
  await up.stop();
  await host.stop();
  rmSync(folder, { recursive: true });
});

/** The working tree of a sandbox, on this machine. */
async function projectOf(sandboxId: string | null): Promise<string> {
  const { stdout } = await kubectl(up.kubeconfig, [
    'get',
    'pvc',
    sandboxId ?? '',
    '-o',
    'jsonpath={.metadata.uid}',
  ]);
  return join(up.dataDir, 'node', 'volumes', stdout, 'project');
}

/** Arguments and environments of processes, which every user can read, but not this one's. */
const processes = (): string =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((pid) =>
      ['cmdline', 'environ'].map((file) => {
        try {
          return readFileSync(join('/proc', pid, file), 'latin1');
        } catch {
          return '';
        }
      }),
    )
    .join('\n');

/** Delays the objects of a repository until the returned function is called. */
function gate(name: string): () => void {
  let open = (): void => undefined;
  host.gates.set(name, new Promise((resolve) => (open = resolve)));
  return () => open();
}

/** A start in the middle of its clone, which waits for the test. */
async function hold() {
  const open = gate('acme/secret');
  const { id } = await up.start('Hello.', { selected_repository: 'acme/secret' });
  host.taken();
  await eventually('the clone has begun', () =>
    host.requests.some(({ method }) => method === 'POST'),
  );
  return { id, open };
}

describe('an installation with a git host', () => {
  it('clones what is there, and refuses what is not', async () => {
    const task = await up.over((await up.start('Hello.', { selected_repository: 'acme/shop' })).id);
    expect(task).toMatchObject({
      status: 'READY',
      error: null,
      steps: [
        { name: 'clone', state: 'done' },
        { name: 'setup', state: 'done' },
      ],
    });
    const refused = await up.call('POST', '/api/v1/app-conversations', {
      ...saying('Hello.'),
      selected_repository: 'acme/none',
    });
    expect(refused).toMatchObject({ status: 403, body: { code: 'repository-access-denied' } });
  });

  it('finds what its credentials open, and keeps them to itself', async () => {
    const { body } = await up.call('GET', '/api/v1/git/repositories/search?query=acme/secret');
    expect(body).toMatchObject({
      items: [{ full_name: 'acme/secret', is_public: false, main_branch: 'main' }],
    });
    expect(JSON.stringify(body) + up.output).not.toContain('s3cret');
  });

  it('clones a private repository, and the credential is nowhere but in the gateway', async () => {
    const { id, open } = await hold();
    const seen = processes();
    expect(seen.includes('CO_STEP=')).toBe(true);
    for (const secret of [password, encoded]) expect(seen.includes(secret)).toBe(false);
    // The sandbox has a ticket instead, in the environment of git alone.
    const ticket = /Authorization: Bearer (\d+\.[\w-]+)/.exec(seen)?.[1] ?? '';
    expect(ticket).not.toBe('');
    const commandLines = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
    for (const pid of commandLines) {
      const path = join('/proc', pid, 'cmdline');
      expect(existsSync(path) && readFileSync(path, 'latin1').includes(ticket)).toBe(false);
    }
    const { stdout: during } = await kubectl(up.kubeconfig, [
      'get',
      'conversations,sandboxes,pods,events',
      '-o',
      'yaml',
    ]);
    open();
    const task = await up.over(id);
    expect(task).toMatchObject({ status: 'READY' });
    const project = await projectOf(task.sandbox_id);
    expect(readFileSync(join(project, 'README.md'), 'utf8')).toBe('private\n');
    expect(readFileSync(join(project, '.git', 'config'), 'utf8')).toContain(
      `url = ${host.url}/acme/secret.git\n`,
    );
    const { stdout: after } = await kubectl(up.kubeconfig, [
      'get',
      'conversations,sandboxes,pods,events',
      '-o',
      'yaml',
    ]);
    for (const secret of [password, encoded, ticket]) {
      expect(during + after + up.output).not.toContain(secret);
      expect(spawnSync('grep', ['-rlF', secret, up.dataDir]).stdout.toString()).toBe('');
    }
  });

  it('leaves the shells of the agent the settings of git, and the token in one file alone', async () => {
    const ask = 'git remote get-url';
    const shell = `\`\`\`sh\n{ ${ask} origin; ${ask} --push origin; } >../urls\n\`\`\``;
    const { id } = await up.start(shell, { selected_repository: 'acme/secret' });
    const task = await up.over(id);
    const workspace = join(await projectOf(task.sandbox_id), '..');
    const urls = join(workspace, 'urls');
    await eventually('the agent has run its commands', () =>
      existsSync(urls) ? readFileSync(urls, 'utf8').trim().split('\n').length === 2 : false,
    );
    const url = `/git/${task.sandbox_id}/forgejo/acme/secret.git`;
    for (const line of readFileSync(urls, 'utf8').trim().split('\n'))
      expect(new URL(line)).toMatchObject({ pathname: url, username: '', password: '' });

    const file = join(workspace, '.agent/git/token');
    const token = readFileSync(file, 'utf8');
    expect(token).toMatch(/^[\w-]{43}$/);
    const { stdout } = await kubectl(up.kubeconfig, [
      'get',
      'conversations,sandboxes,pods,events',
      '-o',
      'yaml',
    ]);
    expect(stdout + processes() + up.output).not.toContain(token);
    const found = spawnSync('grep', ['-rlF', '-e', token, up.dataDir]).stdout.toString();
    expect(found.trim().split('\n')).toEqual([file]);
  });

  it('pushes what the agent has committed, also after a pause, and not to the default branch', async () => {
    const branches = () =>
      execFileSync('git', ['ls-remote', '--heads', host.folderOf('acme/secret')]).toString();
    const commit = (branch: string) =>
      [
        '```sh',
        `git checkout -q -B ${branch} && date +%N >>work.txt && git add work.txt`,
        "git -c user.name=agent -c user.email=agent@localhost commit -qm 'Work'",
        `git push origin ${branch}; echo "code $?"`,
        '```',
      ].join('\n');
    const { id } = await up.start(commit('agent/first'), { selected_repository: 'acme/secret' });
    const task = await up.over(id);
    const conversation = task.app_conversation_id ?? '';
    const pushes = async (): Promise<readonly (readonly [string, string])[]> => {
      const { stdout } = await kubectl(up.kubeconfig, [
        ...['get', 'conversation', conversation, '-o', 'json'],
      ]);
      const { status } = JSON.parse(stdout) as {
        status: { pushes?: readonly { ref: string; outcome: string }[] };
      };
      return (status.pushes ?? []).map(({ ref, outcome }) => [ref, outcome] as const);
    };
    const say = (text: string) =>
      up.call('POST', `/api/v1/app-conversations/${conversation}/send-message`, {
        role: 'user',
        content: [{ type: 'text', text }],
        run: true,
      });
    await eventually('the first push', async () => (await pushes())[0]?.[1] === 'Accepted');
    expect(branches()).toContain('refs/heads/agent/first');

    await up.call('POST', `/api/v1/sandboxes/${task.sandbox_id ?? ''}/pause`);
    await up.reaches(conversation, { sandbox_status: 'PAUSED' });
    await say(commit('agent/first'));
    await eventually('the second push', async () => (await pushes())[1]?.[1] === 'Accepted');

    await say(commit('main'));
    await eventually('the refusal', async () => {
      const { body } = await up.call(
        'GET',
        `/api/v1/conversation/${conversation}/events/search?limit=100`,
      );
      return JSON.stringify(body).includes('the default branch may not be pushed');
    });
    expect(await pushes()).toEqual([
      ['refs/heads/agent/first', 'Accepted'],
      ['refs/heads/agent/first', 'Accepted'],
    ]);
    const { stdout: events } = await kubectl(up.kubeconfig, ['get', 'events', '-o', 'yaml']);
    expect(events).toContain('Pushed refs/heads/agent/first');
    expect(`${events}${up.output}${processes()}`).not.toMatch(new RegExp(`${password}|${encoded}`));
  });

  it('clones again when everything is killed in the middle of it', async () => {
    const before = new Set(up.agentProcesses());
    const { id, open } = await hold();
    // Some of them end with others: no signal reaches those.
    const started = up.agentProcesses().filter((pid) => !before.has(pid));
    spawnSync('kill', ['-9', ...started.map(String)]);
    open();
    host.gates.clear();
    const task = await up.over(id);
    expect(task).toMatchObject({ status: 'READY' });
    const project = await projectOf(task.sandbox_id);
    expect(execFileSync('git', ['-C', project, 'status', '--porcelain']).toString()).toBe('');
    expect(
      readdirSync(join(project, '..', '.agent')).filter((name) => name.startsWith('clone')),
    ).toEqual([]);
  });
});
