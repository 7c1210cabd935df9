import { lackIn, mayIn } from '../../../src/web/rights.ts';
import { anAccount } from '../../support/page-records.ts';
import type { AccountRecord } from '../../../src/web/wire.ts';

type Row = readonly [
  string,
  AccountRecord | undefined,
  'start' | 'manage' | 'secrets',
  boolean,
  string | undefined,
];

it.each<Row>([
  ['nothing, and says nothing, until it is known', undefined, 'manage', false, undefined],
  ['what a scope opens', anAccount({ scopes: ['read', 'start'] }), 'start', true, undefined],
  [
    'nothing with the scope read alone',
    anAccount({ scopes: ['read'] }),
    'start',
    false,
    'You may read only.',
  ],
  [
    'nothing with the scope admin, which opens no conversation',
    anAccount({ scopes: ['read', 'admin'], role: 'admin' }),
    'manage',
    false,
    'You may read only.',
  ],
  [
    'no change without the scope of changes',
    anAccount({ scopes: ['read', 'start'] }),
    'manage',
    false,
    'You may not change conversations, settings or keys.',
  ],
  [
    'no start without the scope of starts',
    anAccount({ scopes: ['read', 'manage'] }),
    'start',
    false,
    'You may not start conversations or write to agents.',
  ],
  [
    'no secret without the scope of secrets',
    anAccount({ scopes: ['read', 'manage'] }),
    'secrets',
    false,
    'You may not change secrets.',
  ],
])('an account may do %s', (_what, account, scope, may, lack) => {
  expect(mayIn(account, scope)).toBe(may);
  expect(lackIn(account, scope)).toBe(lack);
});
