import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readSignIn } from '../../../src/config/sign-in.ts';

const folder = mkdtempSync(join(tmpdir(), 'sign-in-'));
afterAll(() => rmSync(folder, { recursive: true }));

function read(text: string, secrets?: Readonly<Record<string, string>>) {
  const file = join(folder, 'sign-in.yaml');
  writeFileSync(file, text);
  for (const [name, secret] of Object.entries(secrets ?? {}))
    writeFileSync(join(folder, name), secret);
  return readSignIn({
    SIGN_IN_FILE: file,
    SIGN_IN_SECRETS_DIR: secrets === undefined ? undefined : folder,
    SIGN_IN_KEYS_REQUIRE_ACTIVE_PERSON: false,
  });
}
const issuer = (more = '', name = 'company') => `
  - name: ${name}
    issuer: https://login.example.com/realms/main
    clientId: gateway
    rules:
      - { claim: realm_access.roles, value: dev, role: user }
      - { claim: ['https://example.com/groups'], value: dev, role: viewer, templates: [a] }
${more}`;

describe('the file of the identity providers', () => {
  it('is read with its defaults', () => {
    expect(read(`issuers:${issuer()}`).issuers).toEqual([
      {
        name: 'company',
        issuer: 'https://login.example.com/realms/main',
        clientId: 'gateway',
        scopes: ['openid', 'profile', 'email'],
        nameClaim: ['name'],
        rules: [
          { claim: ['realm_access', 'roles'], value: 'dev', role: 'user' },
          { claim: ['https://example.com/groups'], value: 'dev', role: 'viewer', templates: ['a'] },
        ],
        trustsEmail: false,
        recheckSeconds: 900,
        recheck: 'prompt',
      },
    ]);
  });

  it('has client secrets beside it, without the end of their line', () => {
    expect(read(`issuers:${issuer()}`, { company: 'a-secret\n' }).issuers).toMatchObject([
      { clientSecret: 'a-secret' },
    ]);
  });

  it('has conditions in CEL in place of claims', () => {
    const text = issuer().replace('claim: realm_access.roles, value: dev', "when: 'claims.a == 1'");
    expect(read(`issuers:${text}`).issuers[0]?.rules[0]).toEqual({
      when: { text: 'claims.a == 1' },
      role: 'user',
    });
  });

  it('is none by default', () => {
    expect(
      readSignIn({
        SIGN_IN_FILE: undefined,
        SIGN_IN_SECRETS_DIR: undefined,
        SIGN_IN_KEYS_REQUIRE_ACTIVE_PERSON: false,
      }),
    ).toEqual({ issuers: [], serviceAccounts: undefined });
  });

  it.each([
    ['no YAML', ': [', /sign-in.yaml is not YAML/],
    ['an unknown field', `issuers:${issuer('    colour: red')}`, /issuers\.0: .*colour/],
    ['two of one name', `issuers:${issuer()}${issuer()}`, /issuers: must have different names/],
    [
      'a name that is no label',
      `issuers:${issuer('', 'A_B')}`,
      /issuers\.0\.name: must be a DNS label/,
    ],
    [
      'a plain address',
      `issuers:${issuer().replace('https:', 'http:')}`,
      /issuers\.0\.issuer: must be an https URL/,
    ],
    [
      'a recheck of a second',
      `issuers:${issuer('    recheckSeconds: 1')}`,
      /issuers\.0\.recheckSeconds/,
    ],
    [
      'an unknown role',
      `issuers:${issuer().replace('role: user', 'role: root')}`,
      /issuers\.0\.rules\.0\.role/,
    ],
    ...(
      [
        ['a condition that does not parse', 'when: claims.', 'when: is no condition in CEL: Exp'],
        ['a condition over another variable', 'when: user.a == 1', 'Unknown variable: user'],
        [
          'a condition that gives a number',
          'when: size(claims.a)',
          'gives int, and must give bool',
        ],
        ['a condition of 60 levels', `when: '${'('.repeat(60)}true${')'.repeat(60)}'`, 'maxDepth'],
        [
          'a condition beside a claim',
          "when: 'true', claim: a, value: b",
          'either claim and value',
        ],
        ['a claim without a value', 'claim: a', 'either claim and value, or when'],
        ['a rule without a test', 'templates: [a]', 'either claim and value, or when'],
      ] as const
    ).map(([name, fields, message]): [string, string, RegExp] => [
      name,
      `issuers:${issuer().replace('claim: realm_access.roles, value: dev', fields)}`,
      new RegExp(`issuers\\.0\\.rules\\.0.*${message}`),
    ]),
    [
      'introspection without a client secret',
      `issuers:${issuer('    recheck: introspection')}`,
      /issuers\.0\.recheck: introspection needs a client secret/,
    ],
  ])('is refused with the name of the field: %s', (_case, text, message) => {
    expect(() => read(text)).toThrow(message);
  });

  it('has rules for service accounts', () => {
    const text = `serviceAccounts:
  rules:
    - { namespace: ci, name: runner, owner: ci-bot, scopes: [read, start] }
`;
    expect(read(text)).toEqual({
      issuers: [],
      serviceAccounts: {
        audience: 'conversation-operator',
        tokenReview: false,
        rules: [
          {
            namespace: 'ci',
            name: 'runner',
            owner: 'ci-bot',
            role: 'user',
            scopes: ['read', 'start'],
          },
        ],
      },
    });
    expect(() => read(text.replace('ci-bot', '"-"'))).toThrow(/serviceAccounts\.rules\.0\.owner/);
    expect(() => read(text.replace('read,', 'write,'))).toThrow(/rules\.0\.scopes\.0/);
  });

  it('is refused where a secret is missing', () => {
    expect(() => read(`issuers:${issuer('', 'other')}`, {})).toThrow(
      /SIGN_IN_SECRETS_DIR: .*other can't be read/,
    );
  });
});
