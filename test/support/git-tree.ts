import { execFileSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';

/**
 * A text is a file; `{ link }` a symbolic link, `{ module }` a submodule at that commit, `{ run }`
 * a file that may be executed.
 */
export type TreeEntry =
  | string
  | Buffer
  | { readonly link: string }
  | { readonly module: string }
  | { readonly run: string };

/** Names with slashes make folders. Bytes of names are given in latin1. */
export type Tree = Readonly<Record<string, TreeEntry>>;

const identity = Object.fromEntries(
  ['AUTHOR', 'COMMITTER'].flatMap((who) => [
    [`GIT_${who}_NAME`, 'test'],
    [`GIT_${who}_EMAIL`, 'test@localhost'],
  ]),
);

/** A new repository of one commit, even with entries that git refuses; returns its folder. */
export function repositoryOf(below: string, tree: Tree, branch = 'main'): string {
  const folder = mkdtempSync(join(below, 'repository-'));
  const git = (args: readonly string[], input: string | Buffer = '') =>
    execFileSync('git', ['-C', folder, ...args], {
      input,
      env: { PATH: process.env['PATH'], HOME: '/nonexistent', ...identity },
      stdio: ['pipe', 'pipe', 'ignore'],
      maxBuffer: 64 * 1024 * 1024,
    })
      .toString()
      .trim();
  git(['init', '--quiet', '--bare', '--initial-branch', branch, folder]);
  const blob = (content: string | Buffer) => git(['hash-object', '-w', '--stdin'], content);
  const line = (entry: TreeEntry): string => {
    if (typeof entry === 'string' || Buffer.isBuffer(entry)) return `100644 blob ${blob(entry)}`;
    if ('link' in entry) return `120000 blob ${blob(entry.link)}`;
    return 'run' in entry ? `100755 blob ${blob(entry.run)}` : `160000 commit ${entry.module}`;
  };
  const write = (entries: readonly (readonly [string, TreeEntry])[]): string => {
    const folders = new Map<string, (readonly [string, TreeEntry])[]>();
    const lines: string[] = [];
    for (const [path, entry] of entries) {
      const slash = path.indexOf('/');
      if (slash < 0) lines.push(`${line(entry)}\t${path}\0`);
      else
        folders.set(path.slice(0, slash), [
          ...(folders.get(path.slice(0, slash)) ?? []),
          [path.slice(slash + 1), entry],
        ]);
    }
    for (const [name, below] of folders) lines.push(`040000 tree ${write(below)}\t${name}\0`);
    return git(['mktree', '-z', '--missing'], Buffer.from(lines.join(''), 'latin1'));
  };
  const commit = git(['commit-tree', '-m', 'All of it.', write(Object.entries(tree))]);
  git(['update-ref', `refs/heads/${branch}`, commit]);
  return folder;
}
