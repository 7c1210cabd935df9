import { parseClaimExpression } from '../../../../src/config/claim-expression.ts';
import {
  identityOf,
  IdentityRefused,
  type Claims,
  type IssuerSettings,
  type RuleFailure,
} from '../../../../src/gateway/sign-in/identity.ts';

const settings: IssuerSettings = {
  name: 'company',
  issuer: 'https://login.example.com',
  clientId: 'gateway',
  scopes: ['openid'],
  nameClaim: ['name'],
  rules: [
    { claim: ['groups'], value: 'visitors', role: 'viewer' },
    { claim: ['groups'], value: 'developers', role: 'user', templates: ['b', 'a'] },
    { claim: ['groups'], value: 'testers', role: 'user', templates: ['c', 'a'] },
    { claim: ['realm_access', 'roles'], value: 'admin', role: 'admin' },
    { claim: ['https://example.com/level'], value: '7', role: 'user' },
    { claim: ['email_verified'], value: 'true', role: 'viewer' },
  ],
  recheckSeconds: 900,
};
const identity = (claims: Partial<Claims>, more: Partial<IssuerSettings> = {}) =>
  identityOf({ sub: 'u1', ...claims }, { ...settings, ...more }, ['company', 'partner']);

const when = (text: string) => [{ when: parseClaimExpression(text), role: 'user' as const }];
/** Keycloak's claims. */
const nested = {
  realm_access: { roles: ['offline_access', 'developer'] },
  resource_access: { gateway: { roles: ['operator'] } },
};

describe('a rule with a condition in CEL', () => {
  it.each<[string, string, Partial<Claims>, boolean]>([
    ['of a nested role', "'developer' in claims.realm_access.roles", nested, true],
    [
      'of a role of a client',
      "claims.resource_access['gateway'].roles.exists(r, r == 'operator')",
      nested,
      true,
    ],
    [
      'of two claims at once',
      "'developer' in claims.realm_access.roles && claims.email.endsWith('@example.com')",
      { ...nested, email: 'ann@example.com', email_verified: true },
      true,
    ],
    ['that is not so', "'admin' in claims.realm_access.roles", nested, false],
    ['of an item, not of its beginning', "'dev' in claims.realm_access.roles", nested, false],
    ['of a missing claim', "'x' in claims.groups", nested, false],
    ['of a missing nested claim', "'x' in claims.groups.all", nested, false],
    ['of a claim that may be missing', "!has(claims.groups) || 'x' in claims.groups", {}, true],
    ['of an optional claim', "'x' in claims.?groups.orValue([])", { groups: ['x'] }, true],
    ['of a property that every object has', 'has(claims.constructor)', {}, false],
    ['of a number', 'claims.level >= 7', { level: 7 }, true],
    ['of a fraction', 'claims.level == 1.5', { level: 1.5 }, true],
    ['of null', 'claims.level == null', { level: null }, true],
    ['of the wrong type', "claims.groups.exists(g, g == 'x')", { groups: 'x' }, false],
    ['with a value that is no boolean', 'claims.level', { level: 'true' }, false],
    ['of an address that is not verified', 'has(claims.email)', { email: 'a@example.com' }, false],
  ])('%s', (_case, text, claims, isMatch) => {
    const found = () => identity(claims, { rules: when(text) });
    if (isMatch) expect(found()).toMatchObject({ role: 'user' });
    else expect(found).toThrow(IdentityRefused);
  });

  it('counts an address that the platform trusts', () => {
    const rules = when("claims.email == 'a@example.com'");
    const trusts = { rules, trustsEmail: true };
    expect(identity({ email: 'a@example.com' }, trusts)).toMatchObject({ role: 'user' });
  });

  const many = { groups: Array.from({ length: 40_000 }, (_, index) => `g${index}`) };
  it.each<[string, string, Partial<Claims>, string]>([
    ['throws', "'x' in claims.groups", {}, 'No such key: groups'],
    ['gives no boolean', 'claims.level', { level: 7 }, 'has given bigint, and no bool'],
    [
      'has a loop in a loop',
      "claims.groups.exists(a, claims.groups.exists(b, a + b == ''))",
      many,
      'timed out',
    ],
    ['makes lists', 'claims.groups.map(a, claims.groups + [a]).size() < 0', many, 'timed out'],
    [
      'has a regular expression without end',
      "claims.name.matches('^(a+)+$')",
      { name: `${'a'.repeat(200_000)}b` },
      'timed out',
    ],
    [
      'reads claims of 100,000 levels',
      'claims.deep == 1',
      { deep: JSON.parse('['.repeat(100_000) + ']'.repeat(100_000)) as unknown },
      'call stack',
    ],
  ])('counts as no match, and is reported, where it %s', (_case, text, claims, reason) => {
    const failures: RuleFailure[] = [];
    const rules = [...when(text), { claim: ['sub'], value: 'u1', role: 'viewer' as const }];
    const startMs = performance.now();
    const found = identityOf({ sub: 'u1', ...claims }, { ...settings, rules }, [], (failure) =>
      failures.push(failure),
    );
    expect(performance.now() - startMs).toBeLessThan(2_000);
    expect(found.scopes).toEqual(['read']);
    expect(failures).toEqual([{ rule: 0, reason: expect.stringContaining(reason) as string }]);
  });

  it('takes at most as long as one with 99 others', () => {
    const rule = when("claims.groups.exists(a, claims.groups.exists(b, a + b == ''))");
    const rules = Array.from({ length: 100 }, () => rule).flat();
    const startMs = performance.now();
    expect(() => identity(many, { rules })).toThrow(IdentityRefused);
    expect(performance.now() - startMs).toBeLessThan(2_000);
  });
});

describe('the identity of a person', () => {
  it.each<[string, Partial<Claims>, object]>([
    ['a viewer reads only', { groups: ['visitors'] }, { role: 'user', scopes: ['read'] }],
    ['a user has the templates of a rule', { groups: ['developers'] }, { templates: ['a', 'b'] }],
    ['and of all rules', { groups: ['testers', 'developers'] }, { templates: ['a', 'b', 'c'] }],
    [
      'a claim of a nested object counts, and a rule without templates allows all',
      { groups: ['developers'], realm_access: { roles: ['admin'] } },
      { role: 'admin' },
    ],
    ['a claim may be a text', { groups: 'developers' }, { role: 'user' }],
    ['a number', { 'https://example.com/level': 7 }, { role: 'user' }],
    ['a boolean', { email_verified: true }, { scopes: ['read'] }],
  ])('%s', (_case, claims, expected) => {
    expect(identity(claims)).toMatchObject(expected);
  });

  it('has the groups of all rules that match, each once, by the name of its provider', () => {
    expect(identity({ groups: ['testers', 'x', 'testers', 'developers'] }).person.groups).toEqual([
      'company:developers',
      'company:testers',
    ]);
    expect(identity({ groups: 'developers' }, { name: 'partner' }).person.groups).toEqual([
      'partner:developers',
    ]);
  });

  it('has the templates of the rules that let it start', () => {
    expect(identity({ groups: ['developers', 'visitors'] })).toMatchObject({
      role: 'user',
      templates: ['a', 'b'],
    });
    expect(identity({ groups: ['visitors'] })).not.toHaveProperty('templates');
  });

  it.each<[string, Partial<Claims>, Partial<IssuerSettings>, boolean]>([
    ['verified', { email_verified: true }, {}, true],
    ['not verified', { email_verified: false }, {}, false],
    ['of which the provider says nothing', {}, {}, false],
    ['that the platform trusts', {}, { trustsEmail: true }, true],
  ])('counts an email address only if it is %s', (_case, claims, more, counts) => {
    const email = 'ann@example.com';
    const rules = [{ claim: ['email'], value: email, role: 'user' as const }];
    const found = () => identity({ email, ...claims }, { rules, ownerClaim: ['email'], ...more });
    if (counts) expect(found().owner).toBe(email);
    else expect(found).toThrow(IdentityRefused);
  });

  it('has no field without a value', () => {
    expect(identity({ realm_access: { roles: ['admin'] }, name: 'Ann' })).toEqual({
      owner: 'company:u1',
      role: 'admin',
      person: {
        issuer: 'company',
        subject: 'u1',
        name: 'Ann',
        groups: ['company:admin'],
        recheckSeconds: 900,
      },
    });
  });

  it.each<[string, Partial<Claims>]>([
    ['no claim', {}],
    ['a beginning of a value', { groups: ['developer', 'developersX', ' developers'] }],
    ['other letters', { groups: ['DEVELOPERS'] }],
    ['an object', { groups: { developers: true } }],
    ['a list in a list', { groups: [['developers']] }],
    ['a list on the way to a nested claim', { realm_access: [{ roles: ['admin'] }] }],
    ['a property that every object has', { groups: ['toString'], realm_access: 'roles' }],
    ['null', { groups: null }],
  ])('is refused where no rule matches: %s', (_case, claims) => {
    expect(() => identity(claims)).toThrow(IdentityRefused);
  });

  it('has an owner with a hash where the subject is no name', () => {
    const { owner } = identity({ sub: 'auth0|123', email_verified: true });
    expect(owner).toMatch(/^company:[0-9a-f]{40}$/);
    expect(identity({ sub: 'auth0|124', email_verified: true }).owner).not.toBe(owner);
  });

  it('has the owner of a claim, if that is a name and none of another provider', () => {
    const ownerClaim = ['account', 'login'];
    const by = (login: unknown) =>
      identity({ account: { login }, email_verified: true }, { ownerClaim });
    expect(by('ann@example.com').owner).toBe('ann@example.com');
    for (const login of [
      undefined,
      '',
      'a b',
      '-a',
      'x'.repeat(129),
      ['ann'],
      'partner:ann',
      'company:u2',
    ])
      expect(() => by(login)).toThrow(IdentityRefused);
  });

  it('has a name of at most 200 characters, and that of the subject without one', () => {
    expect(identity({ email_verified: true }).person.name).toBe('u1');
    expect(identity({ email_verified: true, name: 'x'.repeat(300) }).person.name).toHaveLength(200);
  });
});
