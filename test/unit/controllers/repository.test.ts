import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cloneUrlOf, preparation, prepareScript, setupScript, shellQuote } from '../../../src/controllers/conversation/repository.ts';

let folder: string;
let hosts: Record<string, string>;

const git = (cwd: string, ...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.com', ...args], { cwd, stdio: 'pipe' }).toString();
const sh = (workspace: string, script: string) => spawnSync('/bin/sh', ['-c', script], { cwd: workspace, encoding: 'utf8' });
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
  it('clones it and prints where', () => {
    const cwd = workspace();
    const { status, stdout } = sh(cwd, prepareScript({ name: 'acme/app' }, hosts));
    expect(status).toBe(0);
    expect(stdout.trim()).toBe(join(cwd, 'project'));
    expect(readFileSync(join(cwd, 'project', 'README.md'), 'utf8')).toBe('hello\n');
    expect(readdirSync(join(cwd, '.agent'))).toEqual([]);
  });

  it('finds its work done the second time, and touches nothing', () => {
    const cwd = workspace();
    sh(cwd, prepareScript({ name: 'acme/app' }, hosts));
    writeFileSync(join(cwd, 'project', 'README.md'), "the agent's\n");
    expect(sh(cwd, prepareScript({ name: 'acme/app' }, { github: 'file:///nowhere' })).status).toBe(0);
    expect(readFileSync(join(cwd, 'project', 'README.md'), 'utf8')).toBe("the agent's\n");
  });

  it('checks out the branch, whatever its name holds', () => {
    const cwd = workspace();
    expect(sh(cwd, prepareScript({ name: 'acme/app', branch: "feature/it's-$odd" }, hosts)).status).toBe(0);
    expect(existsSync(join(cwd, 'project', 'FEATURE.md'))).toBe(true);
  });

  it('tells a missing branch from a missing repository, and leaves no half clone', () => {
    const cwd = workspace();
    expect(sh(cwd, prepareScript({ name: 'acme/app', branch: 'nope' }, hosts)).status).toBe(preparation.branchNotFound);
    expect(sh(cwd, prepareScript({ name: 'acme/nope' }, hosts)).status).toBe(preparation.cloneFailed);
    expect(existsSync(join(cwd, 'project'))).toBe(false);
    expect(readdirSync(join(cwd, '.agent'))).toEqual([]);
  });

  it('keeps what is in the folder already', () => {
    const cwd = workspace();
    mkdirSync(join(cwd, 'project'));
    writeFileSync(join(cwd, 'project', 'README.md'), 'mine\n');
    expect(sh(cwd, prepareScript({ name: 'acme/app' }, hosts)).status).toBe(0);
    expect(readFileSync(join(cwd, 'project', 'README.md'), 'utf8')).toBe('mine\n');
    expect(existsSync(join(cwd, 'project', '.git'))).toBe(true);
  });

  it('makes an empty folder without a repository', () => {
    const cwd = workspace();
    expect(sh(cwd, prepareScript(undefined, hosts)).stdout.trim()).toBe(join(cwd, 'project'));
  });

  it('runs two at once to one whole clone', async () => {
    const cwd = workspace();
    const script = prepareScript({ name: 'acme/app' }, hosts);
    const { spawn } = await import('node:child_process');
    const codes = await Promise.all(
      [1, 2].map(() => new Promise((resolve) => spawn('/bin/sh', ['-c', script], { cwd, stdio: 'ignore' }).on('exit', resolve))),
    );
    expect(codes).toEqual([0, 0]);
    expect(git(join(cwd, 'project'), 'status', '--porcelain')).toBe('');
    expect(readdirSync(join(cwd, 'project')).sort()).toEqual(['.git', '.openhands', 'README.md']);
  });
});

describe('setting up', () => {
  it("runs the repository's script once", () => {
    const cwd = workspace();
    sh(cwd, prepareScript({ name: 'acme/app' }, hosts));
    expect(sh(cwd, setupScript).status).toBe(0);
    expect(sh(cwd, setupScript).status).toBe(0);
    expect(readFileSync(join(cwd, 'setup.log'), 'utf8')).toBe('set up\n');
  });

  it('ends with the exit code of a script that fails, and tries it again the next time', () => {
    const cwd = workspace();
    mkdirSync(join(cwd, 'project', '.openhands'), { recursive: true });
    writeFileSync(join(cwd, 'project', '.openhands', 'setup.sh'), 'exit 7\n');
    expect(sh(cwd, setupScript).status).toBe(7);
    expect(sh(cwd, setupScript).status).toBe(7);
  });
});

describe('clone URLs', () => {
  it.each([
    ['the first host without a provider', { name: 'a/b' }, 'https://github.example/a/b.git'],
    ['the host of the provider', { name: 'a/b', provider: 'gitlab' as const }, 'https://gitlab.example/git/a/b.git'],
  ])('take %s', (_sentence, repository, url) => {
    expect(cloneUrlOf(repository, { github: 'https://github.example', gitlab: 'https://gitlab.example/git/' })).toBe(url);
  });

  it('refuse a provider that is not configured', () => {
    expect(() => cloneUrlOf({ name: 'a/b', provider: 'forgejo' }, { github: 'https://github.example' })).toThrow(
      'forgejo is not configured',
    );
  });

  it('quote for the shell', () => {
    expect(execFileSync('/bin/sh', ['-c', `printf %s ${shellQuote("a'b $(c) `d`")}`]).toString()).toBe("a'b $(c) `d`");
  });
});
