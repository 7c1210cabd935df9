import { readFileSync } from 'node:fs';
import type { AgentKind } from '../../../resources/agent-settings.ts';
import type { GitSettings } from '../../../resources/git-settings.ts';
import type { OwnerSettingsSpec } from '../../../resources/owner-settings.ts';

/** Author of the commits in a working tree. */
export interface CommitIdentity {
  readonly name: string;
  readonly email: string;
  /** `NAME <EMAIL>` of the agent. Absent: commits name no co-author. */
  readonly coAuthor?: string;
}

/** Name under which the OpenHands agent has signed its commits so far. */
const openHands = 'openhands <openhands@all-hands.dev>';

/** The identity that an owner has chosen; undefined leaves the choice to the agent. Pure. */
export function commitIdentityOf(
  { git: chosen }: Pick<OwnerSettingsSpec, 'git'>,
  { git, kind }: { readonly git: Partial<GitSettings> | undefined; readonly kind: AgentKind },
): CommitIdentity | undefined {
  if (chosen === undefined) return undefined;
  const { name, email } = chosen;
  const coAuthor = git?.coAuthor ?? (kind === 'openhands' ? openHands : undefined);
  return chosen.coAuthor === false || coAuthor === undefined
    ? { name, email }
    : { name, email, coAuthor };
}

const preCommitHook = readFileSync(new URL('./pre-commit.sh', import.meta.url), 'utf8');
const coAuthorHook = readFileSync(new URL('./prepare-commit-msg.sh', import.meta.url), 'utf8');

/** The git hooks: one runs `.openhands/pre-commit.sh` of the repository, one names the co-author. */
export const commitHooks = [preCommitHook, coAuthorHook] as const;
