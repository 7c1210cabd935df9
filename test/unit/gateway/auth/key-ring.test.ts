import { sessionReferenceOf } from '../../../../src/agent/keys.ts';
import { KeyRing } from '../../../../src/gateway/auth/key-ring.ts';
import { generateKey, hashKey } from '../../../../src/gateway/auth/key.ts';
import { gatewayIndexers } from '../../../../src/gateway/lookup/cache.ts';
import { apiKeys, type ApiKey, type ApiKeySpec } from '../../../../src/resources/api-key.ts';
import { apiVersion } from '../../../../src/resources/group.ts';
import { noon, noonMs } from '../../../support/builders.ts';
import { TestCache } from '../../../support/test-cache.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const namespace = 'agents';
const text = generateKey();

const aKey = (
  name: string,
  spec: Partial<ApiKeySpec> = {},
  metadata: Partial<ApiKey['metadata']> = {},
): ApiKey => ({
  apiVersion,
  kind: apiKeys.kind,
  metadata: {
    name,
    namespace,
    uid: `uid-${name}`,
    generation: 1,
    resourceVersion: '1',
    creationTimestamp: noon,
    ...metadata,
  },
  spec: { owner: 'alice', role: 'user', sha256: hashKey(text), ...spec },
});
const by = (name: string): Pick<ApiKeySpec, 'issuedBy'> => ({
  issuedBy: { name, uid: `uid-${name}` },
});

function aRing(...keys: readonly ApiKey[]): KeyRing {
  const cache = new TestCache<ApiKey>(gatewayIndexers.apiKeys);
  for (const key of keys) cache.set(key);
  return new KeyRing({ cache, namespace, clock: new VirtualClock(noonMs) });
}

describe.each<[string, ApiKey | undefined, boolean]>([
  ['that is valid', aKey('k'), true],
  ['that is not stored', undefined, false],
  ['of another namespace', aKey('k', {}, { namespace: 'others' }), false],
  ['that is being deleted', aKey('k', {}, { deletionTimestamp: noon }), false],
  ['that is disabled', aKey('k', { disabled: true }), false],
  ['that has expired', aKey('k', { expirationTime: noon }), false],
  ['whose maker is not stored', aKey('k', by('root')), false],
])('a key %s', (_sentence, key, opens) => {
  const ring = aRing(...(key === undefined ? [] : [key]));

  it('is found the same by its text, its name and its session keys', () => {
    expect([
      ring.byText(text, undefined)?.key.metadata.name,
      ring.byName('k', 'uid-k')?.key.metadata.name,
      ring.byReference(sessionReferenceOf('uid-k'))?.key.metadata.name,
    ]).toEqual(opens ? ['k', 'k', 'k'] : [undefined, undefined, undefined]);
  });
});

it.each<[string, string, ApiKeySpec['signIn']]>([
  ['another text', generateKey(), undefined],
  ['an empty text', '', undefined],
  ['a mistyped text', `${text.slice(0, -1)}${text.endsWith('0') ? '1' : '0'}`, undefined],
  ['the text for a link', text, 'Link'],
  ['the text for a session', text, 'Session'],
])('a key for requests is not found by %s', (_sentence, given, signIn) => {
  expect(aRing(aKey('k')).byText(given, signIn)).toBe(undefined);
});

it.each(['Link', 'Session'] as const)('the key of a %s opens no request', (signIn) => {
  const ring = aRing(aKey('k', { signIn }));
  expect(ring.byText(text, undefined)).toBe(undefined);
  expect(ring.byText(text, signIn)?.key.spec.signIn).toBe(signIn);
});

it('a key is not found by its name once another key has the name', () => {
  expect(aRing(aKey('k', {}, { uid: 'another' })).byName('k', 'uid-k')).toBe(undefined);
});

const root = by('root');
it.each<[string, Partial<ApiKeySpec>, readonly ApiKey[], boolean]>([
  ['no maker', {}, [], false],
  ['a maker', root, [aKey('root')], false],
  ['a maker that is disabled', root, [aKey('root', { disabled: true })], false],
  ['a maker that is gone', root, [], true],
  ['a maker that was made again', root, [aKey('root', {}, { uid: 'another' })], true],
  ['a maker that is being deleted', root, [aKey('root', {}, { deletionTimestamp: noon })], true],
  ['a maker in another namespace', root, [aKey('root', {}, { namespace: 'others' })], true],
  ['a maker whose maker is gone', root, [aKey('root', by('first'))], true],
])(
  'a key with %s is an orphan only where a key that it depends on is gone',
  (_sentence, spec, referenced, isOrphan) => {
    const key = aKey('k', spec);
    expect(aRing(key, ...referenced).isOrphan(key)).toBe(isOrphan);
  },
);
