import {
  identityOf,
  IdentityRefused,
  type Claims,
  type IssuerSettings,
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
