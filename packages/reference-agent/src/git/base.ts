import { GitFailure, type Git } from './git.ts';

/** The tree without files, in the object format of the repository. */
export const emptyTree = async (git: Git, repository: string): Promise<string> =>
  (await git.output(repository, 'hash-object', '-t', 'tree', '/dev/null')).toString().trim();

/**
 * Commit that changes are shown against: the one that `ref` names, or without `ref` the one that
 * shows best what has been done here, as the server of the protocol chooses it. Throws 400 for a
 * name that does not exist; HEAD without a commit is the empty tree.
 */
export async function baseOf(git: Git, repository: string, ref?: string): Promise<string> {
  if (ref === undefined)
    return (await git.line(repository, 'rev-list', '--all', '--max-count=1')) === undefined
      ? emptyTree(git, repository)
      : displayBase(git, repository);
  // A name that begins with a dash would be an option.
  const named = ref.startsWith('-') ? undefined : await git.id(repository, `${ref}^{commit}`);
  if (named !== undefined) return named;
  if (ref === 'HEAD') return emptyTree(git, repository);
  throw new GitFailure(['rev-parse', '--verify', `${ref}^{commit}`]);
}

/**
 * In this order:
 * - the upstream of the current branch, unless all of the branch is pushed and no tracked file
 *   differs: the comparison would be empty, and would hide the work on the branch;
 * - the commit where HEAD left the default branch of the remote, else the default branch;
 * - without a remote, the local main or master where HEAD left it;
 * - HEAD.
 */
async function displayBase(git: Git, repository: string): Promise<string> {
  const head = await git.id(repository, 'HEAD');
  const named = await git.line(repository, 'rev-parse', '--abbrev-ref', 'HEAD');
  const branch = named === 'HEAD' ? undefined : named;
  const upstream = branch && (await git.id(repository, `refs/remotes/origin/${branch}`));
  if (upstream !== undefined && upstream !== '')
    if (upstream !== head || (await hasTrackedChanges(git, repository))) return upstream;
  const remote = await remoteDefault(git, repository);
  const base =
    remote === undefined
      ? await localFork(git, repository, branch)
      : ((await git.line(repository, 'merge-base', 'HEAD', remote)) ??
        (await git.id(repository, remote)));
  return base ?? head ?? emptyTree(git, repository);
}

/**
 * Full name of the default branch of the remote. A remote that does not name it is not asked,
 * unlike at the server of the protocol, because a read must not wait for a host: then a branch
 * main or master counts.
 */
async function remoteDefault(git: Git, repository: string): Promise<string | undefined> {
  const known = await git.line(repository, 'symbolic-ref', '--quiet', 'refs/remotes/origin/HEAD');
  for (const name of [known, 'refs/remotes/origin/main', 'refs/remotes/origin/master'])
    if (name !== undefined && (await git.id(repository, name)) !== undefined) return name;
  return undefined;
}

/** Tip of the local default branch, where HEAD is another branch that contains the tip. */
async function localFork(
  git: Git,
  repository: string,
  branch: string | undefined,
): Promise<string | undefined> {
  for (const name of ['main', 'master']) {
    const tip = await git.id(repository, `refs/heads/${name}`);
    if (tip === undefined) continue;
    if (name === branch) return undefined;
    const fork = await git.line(repository, 'merge-base', 'HEAD', tip);
    return fork === tip ? tip : undefined;
  }
  return undefined;
}

/** True also when git can not say. */
async function hasTrackedChanges(git: Git, repository: string): Promise<boolean> {
  const args = ['--porcelain', '--untracked-files=no', '--ignore-submodules=dirty'];
  const changed = await git.output(repository, 'status', ...args).catch(() => undefined);
  return changed?.length !== 0;
}
