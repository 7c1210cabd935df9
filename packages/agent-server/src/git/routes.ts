import * as z from 'zod/mini';
import { parse } from '../bodies.ts';
import { HttpError, type Call, type Router } from '../router.ts';
import { changesBelow, changesOf, commitDiff, fileDiff } from './changes.ts';
import { type Git, repositoryAt } from './git.ts';

interface GitCommit {
  readonly sha: string;
  readonly short_sha: string;
  readonly subject: string;
  readonly author: string;
  /** Author time in ISO 8601 with an offset. */
  readonly timestamp: string;
}

interface GitCommitsPage {
  readonly commits: readonly GitCommit[];
  readonly has_more: boolean;
}

/** Format of a commit. The separator 0x1f occurs in no author and subject. */
const format = '%H%x1f%h%x1f%an%x1f%aI%x1f%s';

/** Returns the latest commits of HEAD, newest first; none without a repository or commit. */
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

/** Names of files and refs contain no NUL. */
const name = z.string().check(z.minLength(1), z.maxLength(4096), z.regex(/^[^\0]*$/));
/** Hexadecimal digits cannot form an option of git. */
const sha = z.string().check(z.regex(/^[0-9a-fA-F]{4,64}$/));

const folder = z.object({ path: name });
const changesQuery = z.object({ path: name, ref: z.optional(name) });
const diffQuery = z.extend(changesQuery, { commit: z.optional(sha) });
const commitsQuery = z.object({
  path: name,
  limit: z._default(z.coerce.number().check(z.int(), z.minimum(1), z.maximum(200)), 50),
});

/** Adds the read-only git routes of the sandbox. `newGit` returns a Git for one request. */
export function gitRoutes(router: Router, newGit: () => Git): void {
  const on = router.on.bind(router);
  on('GET /api/git/changes', async (call) => {
    const { path, ref } = queryOf(changesQuery, call);
    return { body: await changesBelow(newGit(), path, ref) };
  });
  on('GET /api/git/diff', async (call) => {
    const { path, ref, commit } = queryOf(diffQuery, call);
    if (ref !== undefined && commit !== undefined)
      throw new HttpError(400, "'ref' and 'commit' are mutually exclusive");
    return {
      body: await (commit === undefined
        ? fileDiff(newGit(), path, ref)
        : commitDiff(newGit(), path, commit)),
    };
  });
  on('GET /api/git/commits', async (call) => {
    const { path, limit } = queryOf(commitsQuery, call);
    return { body: await commitsOf(newGit(), path, limit) };
  });
  on('GET /api/git/commits/:sha/changes', async (call) => {
    const { path } = queryOf(folder, call);
    const commit = parse(z.object({ sha }), call.params, 'query');
    return { body: await changesOf(newGit(), path, commit.sha) };
  });
}

const queryOf = <T>(schema: z.ZodMiniType<T>, { url }: Call): T =>
  parse(schema, Object.fromEntries(url.searchParams), 'query');
