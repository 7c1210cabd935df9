import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  cloneScript,
  cloneUrlOf,
} from '../../../../../src/controllers/conversation/start/clone.ts';
import type { Repository } from '../../../../../src/controllers/conversation/git/git-access.ts';
import { PreparationExitCode } from '../../../../../src/controllers/conversation/start/preparation-failures.ts';
import {
  setupScriptFor,
  workspaceScript,
} from '../../../../../src/controllers/conversation/start/preparation.ts';
import { shellQuote } from '../../../../../src/agent/shell-quote.ts';

const setupScript = setupScriptFor();
let folder: string;
let hosts: Record<string, string>;

const git = (cwd: string, ...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], {
    cwd,
    stdio: 'pipe',
  }).toString();
const sh = (workspace: string, script: string) =>
  spawnSync('/bin/sh', ['-c', script], { cwd: workspace, encoding: 'utf8' });
const script = (repository: Repository, from: Record<string, string> = hosts) =>
  cloneScript({ repository, hosts: from, maxMebibytes: 100 });
const workspace = () => mkdtempSync(join(folder, 'workspace-'));

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'repository-'));
  const origin = join(folder, 'hosts', 'acme', 'app.git');
  mkdirSync(join(origin, '.openhands'), { recursive: true });
  git(origin, 'init', '-q', '-b', 'main');
  writeFileSync(join(origin, 'README.md'), 'hello\n');
  writeFileSync(join(origin, '.openhands', 'setup.sh'), 'echo set up >>../setup.log\n');
  git(origin, 'add', '.');
  git(origin, 'commit', '-q', '-m', 'first');
  git(origin, 'checkout', '-q', '-b', "feature/it's-$odd");
  writeFileSync(join(origin, 'FEATURE.md'), 'feature\n');
  git(origin, 'add', '.');
  git(origin, 'commit', '-q', '-m', 'feature');
  git(origin, 'checkout', '-q', 'main');
  hosts = { github: `file://${join(folder, 'hosts')}` };
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('preparing a repository', () => {
  it('clones it', () => {
    const cwd = workspace();
    expect(sh(cwd, script({ name: 'acme/app' })).status).toBe(0);
    expect(readFileSync(join(cwd, 'project', 'README.md'), 'utf8')).toBe('hello\n');
    expect(readdirSync(join(cwd, '.agent'))).toEqual([]);
  });

  it('finds its work done the second time, and touches nothing', () => {
    const cwd = workspace();
    sh(cwd, script({ name: 'acme/app' }));
    writeFileSync(join(cwd, 'project', 'README.md'), "the agent's\n");
    expect(sh(cwd, script({ name: 'acme/app' }, { github: 'file:///nowhere' })).status).toBe(0);
    expect(readFileSync(join(cwd, 'project', 'README.md'), 'utf8')).toBe("the agent's\n");
  });

  it('checks out the branch, whatever its name holds', () => {
    const cwd = workspace();
    expect(sh(cwd, script({ name: 'acme/app', branch: "feature/it's-$odd" })).status).toBe(0);
    expect(existsSync(join(cwd, 'project', 'FEATURE.md'))).toBe(true);
  });

  it('distinguishes a missing branch from a missing repository, and leaves no half clone', () => {
    const cwd = workspace();
    expect(sh(cwd, script({ name: 'acme/app', branch: 'nope' })).status).toBe(
      PreparationExitCode.branchNotFound,
    );
    expect(sh(cwd, script({ name: 'acme/nope' })).status).toBe(PreparationExitCode.cloneFailed);
    expect(existsSync(join(cwd, 'project'))).toBe(false);
    expect(readdirSync(join(cwd, '.agent'))).toEqual([]);
  });

  it('keeps what is in the folder already', () => {
    const cwd = workspace();
    mkdirSync(join(cwd, 'project'));
    writeFileSync(join(cwd, 'project', 'README.md'), 'mine\n');
    expect(sh(cwd, script({ name: 'acme/app' })).status).toBe(0);
    expect(readFileSync(join(cwd, 'project', 'README.md'), 'utf8')).toBe('mine\n');
    expect(existsSync(join(cwd, 'project', '.git'))).toBe(true);
  });

  it('makes an empty folder without a repository', () => {
    const cwd = workspace();
    expect(sh(cwd, workspaceScript).stdout.trim()).toBe(join(cwd, 'project'));
  });

  it('continues after a kill in the middle of the check-out with what was fetched', () => {
    const cwd = workspace();
    const half = join(cwd, '.agent', 'clone');
    mkdirSync(half, { recursive: true });
    git(cwd, 'clone', '-q', '--no-checkout', `${hosts['github']}/acme/app.git`, join(half, 'tree'));
    writeFileSync(join(half, 'fetched'), `${hosts['github']}/acme/app.git `);
    writeFileSync(join(half, 'tree', 'README.md'), 'hal');
    writeFileSync(join(half, 'tree', '.git', 'index.lock'), '');
    const { status, stderr } = sh(cwd, script({ name: 'acme/app' }));
    expect({ status, stderr }).toMatchObject({
      status: 0,
      stderr: expect.not.stringContaining('Receiving') as string,
    });
    expect(readFileSync(join(cwd, 'project', 'README.md'), 'utf8')).toBe('hello\n');
    expect(git(join(cwd, 'project'), 'status', '--porcelain')).toBe('');
  });

  it.each([
    ['with nothing that says it is whole', undefined],
    ['of another branch', 'main'],
  ])('begins anew where a clone was left %s', (_sentence, branch) => {
    const cwd = workspace();
    const half = join(cwd, '.agent', 'clone');
    mkdirSync(join(half, 'tree', '.git'), { recursive: true });
    writeFileSync(join(half, 'tree', 'README.md'), 'hal');
    if (branch !== undefined)
      writeFileSync(join(half, 'fetched'), `${hosts['github']}/acme/app.git ${branch}`);
    expect(sh(cwd, script({ name: 'acme/app' })).status).toBe(0);
    expect(git(join(cwd, 'project'), 'status', '--porcelain')).toBe('');
    expect(readdirSync(join(cwd, '.agent'))).toEqual([]);
  });

  it('does not take the end of a name for the name of a branch', () => {
    expect(sh(workspace(), script({ name: 'acme/app', branch: "it's-$odd" })).status).toBe(
      PreparationExitCode.branchNotFound,
    );
  });
});

describe('setting up', () => {
  it("runs the repository's script once", () => {
    const cwd = workspace();
    sh(cwd, script({ name: 'acme/app' }));
    expect(sh(cwd, setupScript).status).toBe(0);
    expect(sh(cwd, setupScript).status).toBe(0);
    expect(readFileSync(join(cwd, 'setup.log'), 'utf8')).toBe('set up\n');
  });

  it("installs the repository's git hook, and keeps the one that is there", () => {
    const cwd = workspace();
    sh(cwd, script({ name: 'acme/app' }));
    const project = join(cwd, 'project');
    writeFileSync(
      join(project, '.openhands', 'pre-commit.sh'),
      'echo ours >>../hooks.log; read -r answer; [ ! -e refuse ]\n',
    );
    mkdirSync(join(project, '.git', 'hooks'), { recursive: true });
    writeFileSync(
      join(project, '.git', 'hooks', 'pre-commit'),
      '#!/bin/sh\necho theirs >>../hooks.log\n',
      { mode: 0o755 },
    );
    for (let each = 0; each < 2; each += 1) expect(sh(cwd, setupScript).status).toBe(0);
    git(project, 'commit', '-q', '--allow-empty', '-m', 'one');
    expect(readFileSync(join(cwd, 'hooks.log'), 'utf8')).toBe('theirs\nours\n');
    writeFileSync(join(project, 'refuse'), '');
    expect(() => git(project, 'commit', '-q', '--allow-empty', '-m', 'two')).toThrow(
      'Command failed',
    );
  });

  describe('the author of commits', () => {
    const alice = { name: "Alice O'Hara", email: 'alice@example.com' };
    const agent = 'openhands <openhands@all-hands.dev>';
    /** A clone whose image has an author of its own, and git in it. */
    const cloneFor = (identity: Parameters<typeof setupScriptFor>[0]) => {
      const cwd = workspace();
      sh(cwd, script({ name: 'acme/app' }));
      const project = join(cwd, 'project');
      writeFileSync(join(cwd, 'gitconfig'), '[user]\n\tname = image\n\temail = image@localhost\n');
      const env = {
        PATH: process.env['PATH'],
        GIT_CONFIG_NOSYSTEM: '1',
        GIT_CONFIG_GLOBAL: join(cwd, 'gitconfig'),
      };
      const own = (...args: string[]) =>
        execFileSync('git', args, { cwd: project, env, encoding: 'utf8' });
      const last = () => own('log', '-1', '--format=%an <%ae>%n%cn%n%(trailers:unfold)').trim();
      const setUp = (changed: Parameters<typeof setupScriptFor>[0]) =>
        expect(sh(cwd, setupScriptFor(changed)).status).toBe(0);
      setUp(identity);
      return { cwd, project, own, last, setUp };
    };
    const author = "Alice O'Hara <alice@example.com>\nAlice O'Hara";

    it('is the owner, and the agent is named once as co-author', () => {
      const { own, last, setUp } = cloneFor({ ...alice, coAuthor: agent });
      own('commit', '-q', '--allow-empty', '-m', 'Work');
      expect(last()).toBe(`${author}\nCo-authored-by: ${agent}`);
      own('commit', '-q', '--amend', '--allow-empty', '--no-edit');
      setUp({ ...alice, coAuthor: agent });
      own('commit', '-q', '--allow-empty', '-m', `More\n\nCo-authored-by: ${agent}`);
      expect(last()).toBe(`${author}\nCo-authored-by: ${agent}`);
      expect(own('log', '-2', '--format=%(trailers)').match(/Co-authored-by/g)).toHaveLength(2);
    });

    it('is the owner alone where no co-author is wanted, also later', () => {
      const { own, last, setUp } = cloneFor({ ...alice, coAuthor: agent });
      setUp(alice);
      own('commit', '-q', '--allow-empty', '-m', 'Work');
      expect(last()).toBe(author);
    });

    it('is the choice of the image without an owner', () => {
      const { own, last, project } = cloneFor(undefined);
      own('commit', '-q', '--allow-empty', '-m', 'Work');
      expect(last()).toBe('image <image@localhost>\nimage');
      expect(existsSync(join(project, '.git/hooks/prepare-commit-msg'))).toBe(false);
    });

    it('keeps the hook of the image, which may refuse a commit', () => {
      const { own, last, project, setUp } = cloneFor(undefined);
      const hook = join(project, '.git/hooks/prepare-commit-msg');
      mkdirSync(join(project, '.git/hooks'), { recursive: true });
      writeFileSync(hook, '#!/bin/sh\necho theirs >>"$1"; [ ! -e refuse ]\n', { mode: 0o755 });
      setUp({ ...alice, coAuthor: agent });
      own('commit', '-q', '--allow-empty', '-m', 'Work');
      expect(own('log', '-1', '--format=%B')).toContain('theirs');
      expect(last()).toContain(`Co-authored-by: ${agent}`);
      writeFileSync(join(project, 'refuse'), '');
      expect(() => own('commit', '-q', '--allow-empty', '-m', 'No')).toThrow('Command failed');
    });

    it('is data and no setting of git or of the shell', () => {
      const name = `$(touch pwned) "x" \\ 'y'; touch pwned`;
      const { own, cwd, project, last } = cloneFor({ name, email: 'a b@x', coAuthor: 'x <y@z>' });
      own('commit', '-q', '--allow-empty', '-m', 'Work');
      expect(last()).toContain(`${name} <a b@x>`);
      for (const place of [cwd, project]) expect(existsSync(join(place, 'pwned'))).toBe(false);
    });
  });

  it('ends with the exit code of a script that fails, and tries it again the next time', () => {
    const cwd = workspace();
    mkdirSync(join(cwd, 'project', '.openhands'), { recursive: true });
    writeFileSync(join(cwd, 'project', '.openhands', 'setup.sh'), 'exit 7\n');
    expect(sh(cwd, setupScript).status).toBe(7);
    expect(sh(cwd, setupScript).status).toBe(7);
  });
});

it('the programs exit with the codes that the operator knows', () => {
  const inPrograms = [
    ...`${script({ name: 'acme/app' })}${setupScript}`.matchAll(/\b([a-z_]+)=(24\d)\b/g),
  ].map(
    ([, name = '', code]) =>
      [
        name.replace(/_(.)/g, (_match, letter: string) => letter.toUpperCase()),
        Number(code),
      ] as const,
  );
  expect(Object.fromEntries(inPrograms)).toEqual({ ...PreparationExitCode, firstOwnCode: 240 });
});

describe('clone URLs', () => {
  it.each([
    ['the first host without a provider', { name: 'a/b' }, 'https://github.example/a/b.git'],
    [
      'the host of the provider',
      { name: 'a/b', provider: 'gitlab' as const },
      'https://gitlab.example/git/a/b.git',
    ],
  ])('take %s', (_sentence, repository, url) => {
    expect(
      cloneUrlOf(repository, {
        github: 'https://github.example',
        gitlab: 'https://gitlab.example/git/',
      }),
    ).toBe(url);
  });

  it('keep the user of a base URL to the gateway', () => {
    expect(cloneUrlOf({ name: 'a/b' }, { github: 'https://bot:s3cret@github.example/' })).toBe(
      'https://github.example/a/b.git',
    );
  });

  it('refuse a provider that is not configured', () => {
    expect(() =>
      cloneUrlOf({ name: 'a/b', provider: 'forgejo' }, { github: 'https://github.example' }),
    ).toThrow('forgejo is not configured');
  });

  it('quote for the shell', () => {
    expect(
      execFileSync('/bin/sh', ['-c', `printf %s ${shellQuote("a'b $(c) `d`")}`]).toString(),
    ).toBe("a'b $(c) `d`");
  });
});
