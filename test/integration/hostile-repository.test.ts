import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { StartTask } from '../../src/gateway/presenters/start-task.ts';
import { eventually } from '../support/eventually.ts';
import { GitServer } from '../support/git-server.ts';
import { repositoryOf, type Tree } from '../support/git-tree.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';

const folder = mkdtempSync(join(tmpdir(), 'hostile-repository-'));
/** Files that no repository may read or write. */
const stolen = join(folder, 'stolen');
const steal = `touch '${stolen}'`;

const setup = (script: string): Tree => ({ '.openhands/setup.sh': script });
const invalidPath = {
  error: expect.stringMatching(/could not be cloned: [^]*invalid path/) as string,
};
const setupFailed = (text: string) => ({
  status: 'ERROR',
  error: expect.stringContaining(text) as string,
});
const ready = { status: 'READY', error: null };

interface Case {
  readonly tree: Tree;
  readonly expected: Partial<Record<keyof StartTask, unknown>>;
  readonly branch?: string;
}

/** The cases by their names, all of them at the same time in one installation. */
const cases: Readonly<Record<string, Case>> = {
  'settings of git in the tree': {
    tree: {
      '.git/config': `[core]\n\tfsmonitor = ${steal}\n\tsshCommand = ${steal}\n[url "ext::${steal}"]\n\tinsteadOf = http`,
    },
    expected: invalidPath,
  },
  'a hook of git in the tree': {
    tree: { '.git/hooks/post-checkout': { run: `#!/bin/sh\n${steal}\n` } },
    expected: invalidPath,
  },
  'a file .git in the tree': { tree: { '.git': 'gitdir: ../../..\n' }, expected: invalidPath },
  'a link .git in the tree': { tree: { '.git': { link: '../../..' } }, expected: invalidPath },
  'a folder .GIT below the tree': {
    tree: { 'sub/.GIT/config': '[core]\n' },
    expected: invalidPath,
  },
  'a filter that would be run': {
    tree: {
      '.gitattributes': '* filter=steal diff=steal merge=steal\n',
      '.gitconfig': `[filter "steal"]\n\tsmudge = ${steal}\n`,
      a: 'a\n',
    },
    expected: ready,
  },
  'submodules whose URLs are options and commands': {
    tree: {
      '.gitmodules': `[submodule "a"]\n\tpath = a\n\turl = -u./payload\n[submodule "b"]\n\tpath = b\n\turl = ext::sh -c '${steal}'\n\tupdate = !${steal}\n`,
      a: { module: '0123456789012345678901234567890123456789' },
      b: { module: '0123456789012345678901234567890123456789' },
    },
    expected: ready,
  },
  'odd names': {
    tree: {
      'a\nb': '1',
      '\xff\xfe': '2',
      '--help': '3',
      '-rf': '4',
      ['n'.repeat(255)]: '5',
      Case: '6',
      case: '7',
      "'$(x)`": '8',
      ' ': '9',
    },
    expected: ready,
  },
  'links out of the tree': {
    tree: { etc: { link: '/etc' }, up: { link: '../../../..' } },
    expected: ready,
  },
  'a set-up script that is a link out of the tree': {
    tree: { '.openhands/setup.sh': { link: '/etc/hostname' } },
    expected: setupFailed('.openhands/setup.sh leads out of the repository'),
  },
  'a set-up folder that is a link out of the tree': {
    tree: { '.openhands': { link: '/etc' } },
    expected: ready,
  },
  'a git hook that is a link out of the tree': {
    tree: { '.openhands/pre-commit.sh': { link: '/etc/hostname' } },
    expected: setupFailed('.openhands/pre-commit.sh leads out of the repository'),
  },
  'a set-up script that never ends': {
    tree: setup("trap '' TERM\nsleep 600\nsleep 600"),
    expected: setupFailed('did not end within 4 s'),
  },
  'a set-up script that forks away': {
    tree: setup('setsid sleep 600 & sleep 600'),
    expected: setupFailed('did not end within 4 s'),
  },
  'a set-up script that leaves something behind': {
    tree: setup('sleep 600 &\necho done'),
    expected: ready,
  },
  'a set-up script that waits for a terminal': {
    tree: setup('read -r a </dev/tty; read -r b'),
    expected: setupFailed('exit code 1'),
  },
  'a set-up script that kills what watches it': {
    tree: setup('kill -9 $PPID; sleep 600'),
    expected: setupFailed('exit code 137'),
  },
  'a set-up script that prints without end': {
    tree: setup('yes 0123456789'),
    expected: setupFailed('did not end within 4 s'),
  },
  'a set-up script that prints what terminals obey': {
    tree: setup(
      `printf '\\033]0;title\\007\\033[31mred\\033[0m [bold]x[/bold] \\342\\200\\256 token ghp_0123456789abcdef'; exit 3`,
    ),
    expected: setupFailed('ended with exit code 3: red (bold)x(/bold)  token ghp_***'),
  },
  'an empty one': {
    tree: {},
    expected: { status: 'ERROR', error: expect.stringContaining('has no branch') as string },
    branch: 'nope',
  },
  'one that is too large': {
    tree: { large: Buffer.alloc(30 * 1024 * 1024, 'abc') },
    expected: {
      status: 'ERROR',
      error: expect.stringContaining('takes more than 20 MiB') as string,
    },
  },
};
const nameOf = (number: number): string => `hostile/case-${number}`;

let host: GitServer;
let up: Installation;
const tasks = new Map<string, Promise<StartTask>>();
beforeAll(async () => {
  const entries = Object.values(cases);
  host = await GitServer.start({
    repositories: {
      'hostile/harmless': {},
      'hostile/unborn': { branches: [] },
      'hostile/hanging': {},
      ...Object.fromEntries(
        entries.map(({ tree }, number) => [nameOf(number), { from: repositoryOf(folder, tree) }]),
      ),
    },
    readers: { 'hostile/private': ['another:user'] },
  });
  host.faults.set('hostile/hanging', () => undefined);
  up = await Installation.start({
    env: {
      GIT_HOSTS: JSON.stringify({ forgejo: host.url }),
      GIT_CHECK: 'false',
      CLONE_TIMEOUT_SECONDS: '30',
      SETUP_TIMEOUT_SECONDS: '4',
      REPOSITORY_MAX_MIB: '20',
    },
  });
  await kubectl(up.kubeconfig, [
    'patch',
    'conversationquota',
    'default',
    '--type',
    'merge',
    '-p',
    '{"spec":{"limit":50}}',
  ]);
  for (const [number, sentence] of Object.keys(cases).entries()) {
    const { branch } = cases[sentence] ?? {};
    const request = {
      selected_repository: nameOf(number),
      ...(branch === undefined ? {} : { selected_branch: branch }),
    };
    tasks.set(
      sentence,
      up.start('Hello.', request).then(({ id }) => up.over(id, 120_000)),
    );
  }
});
afterAll(async () => {
  await Promise.allSettled(tasks.values());
  await up.stop();
  await host.stop();
  rmSync(folder, { recursive: true, force: true });
});

const begin = async (repository: string, more: object = {}) =>
  up.over((await up.start('Hello.', { selected_repository: repository, ...more })).id, 90_000);
const volumeOf = async (sandbox: string | null) =>
  join(
    up.dataDir,
    'node',
    'volumes',
    (await kubectl(up.kubeconfig, ['get', 'pvc', sandbox ?? '', '-o', 'jsonpath={.metadata.uid}']))
      .stdout,
  );

describe('beside hostile repositories', () => {
  it('a harmless one starts', async () => {
    expect(await begin('hostile/harmless')).toMatchObject(ready);
  });
});

describe('a repository with', () => {
  it.each(Object.entries(cases))(
    '%s comes to a reasoned end',
    async (sentence, { expected }) => {
      const task = await tasks.get(sentence);
      expect(task).toMatchObject(expected);
      expect(existsSync(stolen)).toBe(false);
      for (const { output } of task?.steps ?? []) {
        expect((output ?? '').length).toBeLessThanOrEqual(4096);
        // eslint-disable-next-line no-control-regex -- they are what is not to come
        expect(output ?? '').not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f]/);
      }
      if (task?.status !== 'ERROR') return;
      // A failed start gives its volume back, with whatever a clone has left.
      await eventually('the volume to go', async () => {
        const { stdout } = await kubectl(up.kubeconfig, [
          'get',
          'pvc',
          task.sandbox_id ?? '',
          '--ignore-not-found',
          '-o',
          'name',
        ]);
        return stdout === '';
      });
    },
    130_000,
  );

  it('odd names has all of them', async () => {
    const task = await tasks.get('odd names');
    expect(
      readdirSync(join(await volumeOf(task?.sandbox_id ?? null), 'project'), {
        encoding: 'buffer',
      }),
    ).toHaveLength(10);
  });
});

describe('a repository that', () => {
  it.each<[string, string, object, Partial<Record<keyof StartTask, unknown>>]>([
    [
      'has no commits is begun in',
      'hostile/unborn',
      {},
      {
        ...ready,
        steps: [
          {
            name: 'clone',
            output: expect.stringContaining('\nThe repository has no commits yet.') as string,
          },
          {},
        ],
      },
    ],
    [
      'is private is refused',
      'hostile/private',
      {},
      { status: 'ERROR', error: expect.stringContaining('does not exist, or') as string },
    ],
    [
      'is missing gets the same answer',
      'hostile/missing',
      {},
      { status: 'ERROR', error: expect.stringContaining('does not exist, or') as string },
    ],
    [
      'never answers is given up',
      'hostile/hanging',
      {},
      { status: 'ERROR', error: 'The repository could not be cloned within 30 s.' },
    ],
    [
      'lacks a branch says so',
      'hostile/harmless',
      { selected_branch: "it's-$(x)-ünï" },
      { status: 'ERROR', error: expect.stringContaining('has no branch') as string },
    ],
  ])(
    '%s',
    async (_sentence, repository, more, expected) => {
      expect(await begin(repository, more)).toMatchObject(expected);
    },
    120_000,
  );

  it.each(['--upload-pack=touch stolen', '-u', 'a b', 'a..b', 'a\nb', 'refs/heads/../../x y'])(
    'is asked for the branch %j is refused',
    async (branch) => {
      const { status } = await up.call('POST', '/api/v1/app-conversations', {
        initial_message: { content: [{ type: 'text', text: 'Hello.' }] },
        selected_repository: 'hostile/harmless',
        selected_branch: branch,
      });
      expect([200, 422]).toContain(status);
      expect(existsSync(stolen)).toBe(false);
    },
  );

  it('has been left leaves no process of its steps', async () => {
    await Promise.allSettled(tasks.values());
    const environments = up.agentProcesses().map((pid) => `/proc/${pid}/environ`);
    expect(spawnSync('grep', ['-lsa', 'CO_STEP=', ...environments]).stdout.toString()).toBe('');
  });
});
