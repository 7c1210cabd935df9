import type { AccountRecord } from './wire.ts';

export type Scope = AccountRecord['scopes'][number];
type ActionScope = 'start' | 'manage' | 'secrets';

const lacks: Readonly<Record<ActionScope, string>> = {
  start: 'You may not start conversations or write to agents.',
  manage: 'You may not change conversations, settings or keys.',
  secrets: 'You may not change secrets.',
};
const isAction = (scope: Scope): boolean => scope in lacks;

export const mayIn = (account: AccountRecord | undefined, scope: Scope): boolean =>
  account?.scopes.includes(scope) ?? false;

/** A sentence for an account that lacks a scope; undefined if it has it, or is unknown. Pure. */
export function lackIn(account: AccountRecord | undefined, scope: ActionScope): string | undefined {
  if (account === undefined || account.scopes.includes(scope)) return undefined;
  return account.scopes.some(isAction) ? lacks[scope] : 'You may read only.';
}
