import type { Cap, CapField } from './quota-caps.ts';

/**
 * Codes of what a limit on stored objects refuses: of a start in ERROR, and of the condition Failed
 * of a Sandbox.
 */
export const CapExceeded = {
  maxConversations: 'ConversationLimitExceeded',
  maxStoredBytes: 'StoredBytesLimitExceeded',
  maxSandboxes: 'SandboxLimitExceeded',
} as const satisfies Readonly<Record<CapField, string>>;

const codes: ReadonlySet<string | undefined> = new Set(Object.values(CapExceeded));
export const isCapExceeded = (code: string | undefined): boolean => codes.has(code);

const nouns: Readonly<Record<CapField, string>> = {
  maxConversations: 'stored conversations',
  maxStoredBytes: 'bytes of stored conversations',
  maxSandboxes: 'stored sandboxes',
};

/** Message of the rejection, safe to show to the owner. `current` excludes the rejected object. */
export function capExceededMessage(
  field: CapField,
  { quotaName, scope, limit }: Cap,
  current: number,
): string {
  const whom = scope === 'Owner' ? 'per owner' : 'in this namespace';
  return `The quota ${quotaName} allows ${limit} ${nouns[field]} ${whom}, and ${current} are there. Delete some, then start again.`;
}
