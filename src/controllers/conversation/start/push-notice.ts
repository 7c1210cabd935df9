import type { PushPolicy } from '../../../resources/git-settings.ts';

/** States what an agent may push, so that the agent does not try in vain. Pure. */
export function pushNotice(
  repository: string,
  { enabled, branches }: PushPolicy,
  { opensPullRequests }: { readonly opensPullRequests: boolean },
): string {
  if (!enabled || branches.length === 0)
    return `Do not push to ${repository}: the git host is closed to pushes from here.`;
  const names = branches.map((pattern) => `\`${pattern}\``).join(' or ');
  return `You may push to ${repository} with git, to branches whose names match ${names}: the credential is in place. The default branch, tags, deletions and forced pushes are refused.${opensPullRequests ? ' Your tool create_pull_request, whose name may have a prefix, opens a pull request from a branch that you have pushed.' : ''}`;
}
