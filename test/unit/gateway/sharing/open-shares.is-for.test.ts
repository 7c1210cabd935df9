import type { KeyChain } from '../../../../src/gateway/auth/key-ring.ts';
import { isFor } from '../../../../src/gateway/sharing/open-shares.ts';
import type { ApiKeyScope } from '../../../../src/resources/api-key.ts';
import type { ShareSpec } from '../../../../src/resources/share.ts';

const chainWith = (...scopes: readonly ApiKeyScope[]): KeyChain => ({
  role: 'user',
  scopes: new Set(scopes),
  templates: undefined,
  expiresAtMs: Infinity,
  validUntilMs: Infinity,
  uids: ['1'],
  hasSession: false,
  holder: { key: 'key-1' },
});
const reader = (owner: string, groups: readonly string[] = [], chain = chainWith('read')) => ({
  owner,
  groups,
  chain,
});
const link = { kind: 'Link' } as const;
const bob = { kind: 'User', name: 'bob' } as const;
const developers = { kind: 'Group', name: 'company:developers' } as const;

it.each<[string, ShareSpec['subject'], Parameters<typeof isFor>[1], boolean]>([
  ['a link is for everybody', link, undefined, true],
  ['a link is for a person with other rights', link, reader('carol', [], chainWith()), true],
  ['a person who is not signed in', bob, undefined, false],
  ['the person', bob, reader('bob'), true],
  ['the person with a key that does not read', bob, reader('bob', [], chainWith('start')), false],
  ['a person whose name begins as that one', bob, reader('bobby'), false],
  ['a person in a group of the name of the person', bob, reader('carol', ['bob']), false],
  ['the owner', bob, reader('alice'), true],
  ['the owner with a key that does not read', bob, reader('alice', [], chainWith('start')), false],
  ['a person of the group', developers, reader('carol', ['company:developers']), true],
  ['a person of a longer group', developers, reader('carol', ['company:developers-x']), false],
  ['a person of a shorter group', developers, reader('carol', ['company:dev']), false],
  ['the same group of another issuer', developers, reader('carol', ['other:developers']), false],
  ['a person who is named as the group', developers, reader('company:developers'), false],
  ['a person without groups', developers, reader('carol'), false],
  ['a group without a name', { kind: 'Group' }, reader('carol', ['']), false],
])('%s', (_case, subject, principal, expected) => {
  expect(isFor({ owner: 'alice', subject }, principal)).toBe(expected);
});
