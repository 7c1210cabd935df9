import { chainOf, maxChainLength, type Confirmed } from '../../../../src/gateway/auth/key-ring.ts';
import {
  apiKeyScopes,
  apiKeys,
  type ApiKey,
  type ApiKeySpec,
} from '../../../../src/resources/api-key.ts';
import { apiVersion } from '../../../../src/resources/group.ts';

const now = Date.parse('2026-03-01T12:00:00Z');

const aKey = (
  name: string,
  spec: Partial<ApiKeySpec> = {},
  metadata: Partial<ApiKey['metadata']> = {},
): ApiKey => ({
  apiVersion,
  kind: apiKeys.kind,
  metadata: {
    name,
    namespace: 'agents',
    uid: `uid-${name}`,
    generation: 1,
    resourceVersion: '1',
    creationTimestamp: '2026-01-01T00:00:00Z',
    ...metadata,
  },
  spec: { owner: 'alice', role: 'user', sha256: '0'.repeat(64), ...spec },
});
const by = (name: string): Pick<ApiKeySpec, 'issuedBy'> => ({
  issuedBy: { name, uid: `uid-${name}` },
});
const chain = (key: ApiKey, others: readonly ApiKey[] = [], confirmed?: Confirmed) =>
  chainOf(key, (name) => [key, ...others].find(({ metadata }) => metadata.name === name), {
    nowMs: now,
    ...(confirmed === undefined ? {} : { confirmed }),
  });

describe('a chain of keys', () => {
  it('is valid as long as each of them is, and has the lowest role and the first expiry', () => {
    const root = aKey('root', { role: 'admin', expirationTime: '2026-05-01T00:00:00Z' });
    const middle = aKey('middle', {
      role: 'user',
      expirationTime: '2026-04-01T00:00:00Z',
      ...by('root'),
    });
    expect(chain(aKey('child', { role: 'admin', ...by('middle') }), [root, middle])).toEqual({
      role: 'user',
      scopes: new Set(apiKeyScopes),
      expiresAtMs: Date.parse('2026-04-01T00:00:00Z'),
      validUntilMs: Date.parse('2026-04-01T00:00:00Z'),
      uids: ['uid-child', 'uid-middle', 'uid-root'],
      hasSession: false,
      holder: { key: 'child' },
    });
    expect(chain(root)).toEqual({
      role: 'admin',
      scopes: new Set(apiKeyScopes),
      expiresAtMs: Date.parse('2026-05-01T00:00:00Z'),
      validUntilMs: Date.parse('2026-05-01T00:00:00Z'),
      uids: ['uid-root'],
      hasSession: false,
      holder: { key: 'root' },
    });
    expect(chain(aKey('plain'))).toEqual({
      role: 'user',
      scopes: new Set(apiKeyScopes),
      expiresAtMs: Infinity,
      validUntilMs: Infinity,
      uids: ['uid-plain'],
      hasSession: false,
      holder: { key: 'plain' },
    });
  });

  it('says wherever one of them is that of a session', () => {
    const [root, link] = [aKey('root'), aKey('link', { signIn: 'Link' })];
    const session = aKey('session', { signIn: 'Session', ...by('root') });
    const child = aKey('child', by('session'));
    const grandchild = aKey('grandchild', by('child'));
    for (const [key, expected] of [
      [root, false],
      [link, false],
      [session, true],
      [child, true],
      [grandchild, true],
    ] as const)
      expect(chain(key, [root, session, child])?.hasSession).toBe(expected);
  });

  it.each<[string, ApiKey | undefined]>([
    ['is not in the cache', undefined],
    ['was made again under the same name', aKey('root', {}, { uid: 'another' })],
    ['is disabled', aKey('root', { disabled: true })],
    ['is being deleted', aKey('root', {}, { deletionTimestamp: '2026-03-01T11:59:59Z' })],
    ['has expired', aKey('root', { expirationTime: '2026-03-01T12:00:00Z' })],
    ['expires at a time that cannot be read', aKey('root', { expirationTime: 'soon' })],
    ['is not valid yet', aKey('root', { notBefore: '2026-03-01T12:00:01Z' })],
    ['is valid from a time that cannot be read', aKey('root', { notBefore: 'soon' })],
  ])('ends where the key that made the others %s', (_case, root) => {
    const middle = aKey('middle', by('root'));
    expect(
      chain(aKey('child', by('middle')), [middle, ...(root === undefined ? [] : [root])]),
    ).toBeUndefined();
  });

  it.each<
    [string, ApiKeySpec['scopes'], ApiKeySpec['scopes'], readonly string[], 'user' | 'admin']
  >([
    ['all of both', undefined, undefined, apiKeyScopes, 'admin'],
    ['those of the issuer', ['read', 'admin'], undefined, ['read', 'admin'], 'admin'],
    ['its own', undefined, ['start', 'read'], ['start', 'read'], 'user'],
    ['those of both', ['read', 'start'], ['start', 'manage'], ['start'], 'user'],
    ['none, where the two have none in common', ['read'], ['admin'], [], 'user'],
  ])('has the scopes that each of them has: %s', (_case, ofIssuer, own, scopes, role) => {
    const issuer = aKey('issuer', { role: 'admin', ...(ofIssuer && { scopes: ofIssuer }) });
    const key = aKey('key', { role: 'admin', ...by('issuer'), ...(own && { scopes: own }) });
    expect(chain(key, [issuer])).toMatchObject({ scopes: new Set(scopes), role });
  });

  it.each<[string, string[] | undefined, string[] | undefined, string[] | undefined]>([
    ['all', undefined, undefined, undefined],
    ['those of the issuer', ['a', 'b'], undefined, ['a', 'b']],
    ['its own', undefined, ['a'], ['a']],
    ['those of both', ['a', 'b'], ['b', 'c'], ['b']],
    ['none, where the two have none in common', ['a'], ['b'], []],
  ])('has the templates that each of them has: %s', (_case, ofIssuer, own, templates) => {
    const issuer = aKey('issuer', ofIssuer && { templates: ofIssuer });
    const key = aKey('key', { ...by('issuer'), ...(own && { templates: own }) });
    expect(chain(key, [issuer])?.templates).toEqual(templates);
  });

  const person = { issuer: 'company', subject: 's', name: 'n', recheckSeconds: 60 };
  const session = (confirmedTime: string, more: Partial<ApiKeySpec> = {}): ApiKey => ({
    ...aKey('session', { signIn: 'Session', person, ...more }),
    status: { confirmedTime },
  });

  it.each<[string, Confirmed | undefined, boolean, boolean]>([
    ['its own confirmation by default', undefined, false, true],
    ['those of all keys', 'all', false, false],
    ['none', 'none', true, true],
  ])('needs %s', (_case, confirmed, ofSession, ofChild) => {
    const late = session('2026-03-01T11:59:00Z');
    const child = aKey('child', by('session'));
    expect(chain(late, [], confirmed) !== undefined).toBe(ofSession);
    expect(chain(child, [late], confirmed) !== undefined).toBe(ofChild);
    expect(chain(session('2026-03-01T11:59:01Z'), [], confirmed)?.validUntilMs).toBe(
      confirmed === 'none' ? Infinity : now + 1000,
    );
  });

  it('is confirmed by its creation at first, and never by a time that cannot be read', () => {
    const created = aKey('session', { person }, { creationTimestamp: '2026-03-01T11:59:30Z' });
    expect(chain(created)).toMatchObject({ expiresAtMs: Infinity, validUntilMs: now + 30_000 });
    expect(chain(session('2099-01-01T00:00:00Z'))).toBeUndefined();
    expect(chain(session('2026-03-01T12:01:00Z'))?.validUntilMs).toBe(now + 120_000);
    expect(chain(session('soon'))).toBeUndefined();
  });

  it('is valid from the latest of their times', () => {
    expect(chain(aKey('key', { notBefore: '2026-03-01T12:00:00Z' }))).toBeDefined();
  });

  it('is bounded, and a circle is none', () => {
    const keys = Array.from({ length: maxChainLength + 1 }, (_, index) =>
      aKey(`k${index}`, index === 0 ? {} : by(`k${index - 1}`)),
    );
    expect(chain(keys[maxChainLength - 1] ?? aKey('none'), keys)?.uids).toHaveLength(
      maxChainLength,
    );
    expect(chain(keys[maxChainLength] ?? aKey('none'), keys)).toBeUndefined();
    expect(chain(aKey('one', by('other')), [aKey('other', by('one'))])).toBeUndefined();
  });
});
