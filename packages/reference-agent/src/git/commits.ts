import type { Git } from './git.ts';
import { repositoryAt } from './repository.ts';

export interface GitCommit {
  readonly sha: string;
  readonly short_sha: string;
  readonly subject: string;
  readonly author: string;
  /** Time of the author, ISO 8601 with an offset. */
  readonly timestamp: string;
}

export interface GitCommitsPage {
  readonly commits: readonly GitCommit[];
  readonly has_more: boolean;
}

/** Neither an author nor a subject contains a unit separator. */
const format = '%H%x1f%h%x1f%an%x1f%aI%x1f%s';

/** The latest commits of HEAD, newest first; none where there is no repository or no commit. */
export async function commitsOf(git: Git, folder: string, limit: number): Promise<GitCommitsPage> {
  const repository = await repositoryAt(git, folder);
  const head = repository === undefined ? undefined : await git.id(repository, 'HEAD');
  if (repository === undefined || head === undefined) return { commits: [], has_more: false };
  const args = ['--no-show-signature', '-z', `--format=${format}`, '-n', String(limit + 1)];
  const output = await git.output(repository, 'log', ...args, head, '--');
  const commits = output
    .toString('utf8')
    .split('\0')
    .flatMap((record) => commitIn(record));
  return { commits: commits.slice(0, limit), has_more: commits.length > limit };
}

function commitIn(record: string): readonly GitCommit[] {
  const [sha, short_sha, author, timestamp, subject, ...more] = record.split('\x1f');
  return sha === undefined ||
    short_sha === undefined ||
    author === undefined ||
    timestamp === undefined ||
    subject === undefined ||
    more.length > 0
    ? []
    : [{ sha, short_sha, subject, author, timestamp }];
}
