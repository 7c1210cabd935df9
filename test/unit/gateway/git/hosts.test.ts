import {
  basicAuthorization,
  credentialsInUrls,
  credentialsOf,
  type CredentialFound,
  type CredentialSource,
} from '../../../../src/gateway/git/hosts.ts';

const credential = (name: string) => ({ authorization: `Basic ${name}`, token: name, name });
const source =
  (found: CredentialFound): CredentialSource =>
  () =>
    Promise.resolve(found);

it.each<[string, readonly CredentialFound[], string | undefined]>([
  ['no source', [], undefined],
  ['sources without one', ['absent', 'absent'], undefined],
  ['the first source', [credential('one'), credential('other')], 'one'],
  ['the next source', ['absent', credential('other')], 'other'],
  // The credential of the next source may open more.
  ['a source that withholds it', ['withheld', credential('other')], undefined],
  ['a later source that withholds it', ['absent', 'withheld', credential('other')], undefined],
  ['a source before one that withholds it', [credential('one'), 'withheld'], 'one'],
])('an owner has the credential of %s', async (_sentence, found, expected) => {
  const credentials = credentialsOf(found.map(source));
  expect((await credentials.of('alice', 'github', 'acme/shop'))?.name).toBe(expected);
});

it.each<[string, string, string | undefined, string | undefined]>([
  ['a URL without a user', 'https://git.example.com', undefined, undefined],
  ['a user with a password', 'https://bot:s3cret@git.example.com', 'bot:s3cret', 's3cret'],
  ['a user alone, who is the token', 'https://s3cret@git.example.com', 's3cret:', 's3cret'],
  ['a password alone', 'https://:s3cret@git.example.com', ':s3cret', 's3cret'],
  ['encoded characters', 'https://a%40b:s%3Acret@git.example.com', 'a@b:s:cret', 's:cret'],
  ['a token that no header takes', 'https://bot:s%20cret@git.example.com', 'bot:s cret', undefined],
])('%s', async (_sentence, url, user, token) => {
  const found = await credentialsInUrls({ forgejo: url })('alice', 'forgejo', 'acme/shop');
  if (typeof found === 'string') expect([found, user]).toEqual(['absent', undefined]);
  else {
    const [name = '', ...password] = (user ?? '').split(':');
    expect(found).toMatchObject({
      authorization: basicAuthorization(name, password.join(':')),
      token,
    });
  }
});

it.each(['github', 'constructor', '__proto__', ''])(
  'a URL has no credential for the provider %j',
  async (provider) => {
    const found = credentialsInUrls({ forgejo: 'https://bot:s3cret@git.example.com' });
    expect(await found('alice', provider, 'acme/shop')).toBe('absent');
  },
);
