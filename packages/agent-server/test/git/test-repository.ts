import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Git, type GitOptions } from '../../src/git/git.ts';

const env = {
  PATH: process.env['PATH'] ?? '',
  HOME: '/dev/null',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_SYSTEM: '/dev/null',
  GIT_AUTHOR_NAME: 'Ada',
  GIT_AUTHOR_EMAIL: 'ada@example.com',
  GIT_AUTHOR_DATE: '2026-01-02T03:04:05+01:00',
  GIT_COMMITTER_NAME: 'Ada',
  GIT_COMMITTER_EMAIL: 'ada@example.com',
};

/** A folder with repositories that the real git makes. */
export class TestRepository implements AsyncDisposable {
  readonly folder: string;
  readonly root: string;

  private constructor(root: string, folder: string) {
    this.root = root;
    this.folder = folder;
  }

  /** An empty folder `project` below a folder of its own. */
  static async create(): Promise<TestRepository> {
    const root = await mkdtemp(join(tmpdir(), 'git-routes-'));
    const folder = join(root, 'project');
    mkdirSync(folder);
    return new TestRepository(root, folder);
  }

  /** A clone of a repository with the files in one commit, on the branch `work`. */
  static async cloned(files: Readonly<Record<string, string>>): Promise<TestRepository> {
    const made = await TestRepository.create();
    const origin = join(made.root, 'origin');
    mkdirSync(origin);
    made.git(origin, 'init', '-q', '-b', 'main');
    for (const [name, text] of Object.entries(files)) made.write(name, text, origin);
    made.commit('First', origin);
    rmSync(made.folder, { recursive: true });
    made.git(made.root, 'clone', '-q', origin, made.folder);
    made.git(made.folder, 'checkout', '-q', '-b', 'work');
    return made;
  }

  git(folder: string, ...args: readonly string[]): string {
    return execFileSync('git', args, { cwd: folder, env, encoding: 'utf8', stdio: 'pipe' });
  }

  write(name: string, text: string | Buffer, folder = this.folder): string {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    return path;
  }

  /** Commits everything; returns the id of the commit. */
  commit(subject: string, folder = this.folder): string {
    this.git(folder, 'add', '-A');
    this.git(folder, 'commit', '-q', '-m', subject);
    return this.git(folder, 'rev-parse', 'HEAD').trim();
  }

  newGit(options: Partial<GitOptions> = {}): Git {
    return new Git({ guard: { add: () => undefined, remove: () => undefined }, env, ...options });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.root, { recursive: true, force: true, maxRetries: 5 });
  }
}
