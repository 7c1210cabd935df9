/** Converts a reason to the form in REST responses: WaitingForQuota becomes waiting-for-quota. */
export const kebabCase = (reason: string): string =>
  reason.replaceAll(/([a-z0-9])([A-Z])|([A-Z])(?=[A-Z][a-z])/g, '$1$3-$2').toLowerCase();

/**
 * Remedies for those error codes of a failed start that the conversation's owner can resolve. For
 * every other code an administrator has to act. docs/reasons.md has a table of these sentences.
 */
export const ownerRemedies: Readonly<Record<string, string>> = {
  SandboxNotFound: 'Start again without naming a sandbox.',
  SandboxNameTaken: 'Start again.',
  SandboxDeleted: 'Start again.',
  QuotaExceeded: 'Pause a conversation, then start again.',
  ConversationLimitExceeded: 'Delete conversations, then start again.',
  StoredBytesLimitExceeded: 'Delete conversations, then start again.',
  SandboxLimitExceeded: 'Delete conversations, also paused ones, then start again.',
  RepositoryUnavailable: 'Start again once the git host answers.',
  RepositoryAccessDenied: 'Check the name and your access, or choose another repository.',
  BranchNotFound: 'Choose another branch.',
  SetupFailed: 'Fix the set-up script of the repository, then start again.',
  ModelNotConfigured: 'Start again with a model.',
  ModelNotAllowed: 'Choose another model, or none.',
  AgentRefused: 'Start again with another message or model.',
};

const remediesByWireReason: ReadonlyMap<string, string> = new Map(
  Object.entries(ownerRemedies).map(([code, remedy]) => [kebabCase(code), remedy]),
);

/** The owner's remedy for a reason in kebab-case; undefined if there is none. */
export const ownerRemedyOf = (wireReason: string): string | undefined =>
  remediesByWireReason.get(wireReason);
