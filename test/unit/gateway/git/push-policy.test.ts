import fc from 'fast-check';
import { pushRefusals } from '../../../../src/gateway/git/push-policy.ts';
import { gitSettingsSchema, gitPolicyOf } from '../../../../src/resources/git-settings.ts';

const one = '1'.repeat(40);
const none = '0'.repeat(40);
const policyOf = (push: object = {}) =>
  gitPolicyOf(gitSettingsSchema.parse({ push }), { owner: 'alice', repository: 'acme/shop' }).push;
const refusal = (ref: string, { push = {}, defaultBranch = 'main', newId = one } = {}) =>
  pushRefusals([{ ref, oldId: none, newId }], { policy: policyOf(push), defaultBranch }).get(ref);

describe('pushRefusals', () => {
  it.each<[string, string, Parameters<typeof refusal>[1], string | undefined]>([
    ['a branch of a pattern', 'refs/heads/agent/fix', {}, undefined],
    ['a branch below it', 'refs/heads/openhands/a/b', {}, undefined],
    ['the pattern without a rest', 'refs/heads/agent/', {}, undefined],
    [
      'another branch',
      'refs/heads/fix',
      {},
      'only branches like openhands/* or agent/* may be pushed',
    ],
    [
      'a branch with a prefix',
      'refs/heads/x/agent/fix',
      {},
      'only branches like openhands/* or agent/* may be pushed',
    ],
    ['the default branch', 'refs/heads/main', {}, 'the default branch may not be pushed'],
    [
      'the default branch that a pattern matches',
      'refs/heads/agent/main',
      { defaultBranch: 'agent/main' },
      'the default branch may not be pushed',
    ],
    [
      'the default branch under *',
      'refs/heads/main',
      { push: { branches: ['*'] } },
      'the default branch may not be pushed',
    ],
    ['any branch under *', 'refs/heads/x', { push: { branches: ['*'] } }, undefined],
    [
      'a branch without a pattern',
      'refs/heads/x',
      { push: { branches: [] } },
      'no branch may be pushed',
    ],
    ['a tag', 'refs/tags/agent/v1', {}, 'only branches may be pushed'],
    ['a reference of a host', 'refs/pull/1/head', {}, 'only branches may be pushed'],
    ['a deletion', 'refs/heads/agent/fix', { newId: none }, 'branches may not be deleted'],
    [
      'a branch where nothing may be pushed',
      'refs/heads/agent/fix',
      { push: { enabled: false } },
      'pushes are not allowed here',
    ],
    ['a pattern in the middle', 'refs/heads/a-1-z', { push: { branches: ['a-*-z'] } }, undefined],
    [
      'a text that is too short for a pattern',
      'refs/heads/a-z',
      { push: { branches: ['a-*-z'] } },
      'only branches like a-*-z may be pushed',
    ],
    ['a long name', `refs/heads/agent/${'x'.repeat(249)}`, {}, undefined],
    ['a name that is too long', `refs/heads/agent/${'x'.repeat(250)}`, {}, 'the name is too long'],
    ['two stars', 'refs/heads/x/fix/9', { push: { branches: ['*/fix/*'] } }, undefined],
  ])('%s', (_sentence, ref, options, expected) => {
    expect(refusal(ref, options)).toBe(expected);
  });

  it('matches patterns as a regular expression does', () => {
    const text = fc.string({
      unit: fc.constantFrom('a', 'b', '/', '*'),
      minLength: 1,
      maxLength: 8,
    });
    const name = fc.string({ unit: fc.constantFrom('a', 'b', '/'), minLength: 1, maxLength: 10 });
    fc.assert(
      fc.property(text, name, (pattern, branch) => {
        const isAllowed =
          refusal(`refs/heads/${branch}`, { push: { branches: [pattern] } }) === undefined;
        expect(isAllowed).toBe(new RegExp(`^${pattern.replaceAll('*', '.*')}$`).test(branch));
      }),
      { numRuns: 2_000 },
    );
  });
});

describe('gitPolicyOf', () => {
  const settings = gitSettingsSchema.parse({
    push: { maxPerHour: 5 },
    overrides: [
      { owner: 'bob', repository: 'acme/shop', push: { enabled: false } },
      { owner: 'bob', push: { branches: ['bob/*'] } },
      { repository: 'acme/Shop', push: { maxMebibytes: 1 } },
      { owner: 'carol', pullRequests: { enabled: false } },
    ],
  });
  const defaults = {
    enabled: true,
    branches: ['openhands/*', 'agent/*'],
    maxMebibytes: 512,
    maxPerHour: 5,
  };
  it.each([
    ['bob', 'acme/shop', { enabled: false }],
    ['bob', 'acme/other', { branches: ['bob/*'] }],
    ['alice', 'acme/shop', { maxMebibytes: 1 }],
    ['alice', 'Acme/SHOP', { maxMebibytes: 1 }],
    ['alice', 'acme/shop.git', { maxMebibytes: 1 }],
    ['alice', 'acme/Shop.Git.git', { maxMebibytes: 1 }],
    ['alice', 'acme/shop-git', {}],
    ['Bob', 'acme/other', {}],
    ['alice', 'acme/other', {}],
  ])(
    'of %s for %s has the fields of the first exception that fits',
    (owner, repository, fields) => {
      expect(gitPolicyOf(settings, { owner, repository }).push).toEqual({ ...defaults, ...fields });
    },
  );

  it('of a template without the field has the defaults', () => {
    expect(gitPolicyOf(undefined, { owner: 'a', repository: 'b/c' })).toEqual({
      push: { ...defaults, maxPerHour: 60 },
      pullRequests: { enabled: true, maxPerHour: 30 },
    });
  });

  it('of an owner without pull requests leaves the pushes as they are', () => {
    expect(gitPolicyOf(settings, { owner: 'carol', repository: 'acme/other' })).toEqual({
      push: defaults,
      pullRequests: { enabled: false, maxPerHour: 30 },
    });
  });
});
