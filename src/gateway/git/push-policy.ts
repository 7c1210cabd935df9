import { heads, maxBranchNameLength } from '@conversation-operator/git/ref-list';
import type { RefCommand } from '@conversation-operator/git/receive-pack';
import { markedBeginningOf } from '../../resources/plain-text.ts';
import type { PushPolicy } from '../../resources/git-settings.ts';

export interface PushedTo {
  readonly policy: PushPolicy;
  /** Undefined if the repository has no branches. */
  readonly defaultBranch: string | undefined;
}

/** Whether an id is all zeros: the old id of a new reference, or the new id of a deleted one. */
export const isNone = (id: string): boolean => /^0+$/.test(id);

/** Whether a pattern, in which `*` matches any characters, matches the whole text. */
function matches(pattern: string, name: string): boolean {
  const [first = '', ...others] = pattern.split('*');
  if (others.length === 0) return pattern === name;
  const last = others.pop() ?? '';
  if (!name.startsWith(first) || name.length < first.length + last.length) return false;
  const end = name.length - last.length;
  if (!name.endsWith(last)) return false;
  let at = first.length;
  for (const part of others) {
    const found = name.indexOf(part, at);
    if (found === -1 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}

/** Whether a pattern of the policy matches a branch, even if it is the default branch. */
export const isPushable = (branch: string, { branches }: Pick<PushPolicy, 'branches'>): boolean =>
  branches.some((pattern) => matches(pattern, branch));

/** The branches that may be pushed, as the subject of a sentence. */
export const pushableBranches = ({ branches }: Pick<PushPolicy, 'branches'>): string =>
  branches.length === 0 ? 'no branch' : `only branches like ${branches.join(' or ')}`;

/** The reasons why references may not be pushed, as git shows them. The keys are references. */
export function pushRefusals(
  commands: readonly RefCommand[],
  { policy, defaultBranch }: PushedTo,
): ReadonlyMap<string, string> {
  const reasonOf = ({ ref, newId }: RefCommand): string | undefined => {
    if (!policy.enabled) return 'pushes are not allowed here';
    if (!ref.startsWith(heads)) return 'only branches may be pushed';
    const branch = ref.slice(heads.length);
    if (branch === defaultBranch) return 'the default branch may not be pushed';
    if (isNone(newId)) return 'branches may not be deleted';
    if (branch.length > maxBranchNameLength) return 'the name is too long';
    return isPushable(branch, policy) ? undefined : `${pushableBranches(policy)} may be pushed`;
  };
  return new Map(
    commands.flatMap((command) => {
      const reason = reasonOf(command);
      return reason === undefined ? [] : [[command.ref, reason]];
    }),
  );
}

const maxShownOptions = 200;

/** Push options can publish a repository, or open and merge pull requests without any policy. */
export const optionsRefusal = (options: readonly string[]): string =>
  `push options are not allowed here: ${markedBeginningOf(options.join(', '), maxShownOptions)}`;

/** Reason for the rejection of an update that may remove commits at the host. */
export const notFastForward =
  'the gateway can not distinguish it from a forced push; push the commits to a new branch';
