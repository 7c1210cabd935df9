import type { Finding } from '@conversation-operator/git/ls-remote';
import { systemClock } from '@conversation-operator/base/clock';
import { FindingCache, type Inquiry } from '../../../../src/gateway/git/remote-reader.ts';

const inquiry: Inquiry = {
  owner: 'alice',
  host: { provider: 'github', url: new URL('https://github.com') },
  repository: 'acme/shop',
  credential: undefined,
  wantsRefs: false,
};
const refs = { branches: [], defaultBranch: 'main', isTruncated: false };

describe('a cache of findings', () => {
  let now = 1;
  const newCache = () => new FindingCache({ ...systemClock, monotonic: () => now });

  it.each<[string, Partial<Inquiry>, Finding, number]>([
    ['a repository', {}, { access: 'granted' }, 60_000],
    ['no repository', {}, { access: 'denied' }, 10_000],
    ['no answer', {}, { access: 'unknown' }, 5_000],
    ['references', { wantsRefs: true }, { access: 'granted', refs }, 60_000],
    [
      'a repository whose references could not be read',
      { wantsRefs: true },
      { access: 'granted' },
      5_000,
    ],
    ['a branch', { named: 'main' }, { access: 'granted', hasNamed: true }, 60_000],
    ['no branch', { named: 'none' }, { access: 'granted', hasNamed: false }, 10_000],
    ['a branch that could not be read', { named: 'main' }, { access: 'granted' }, 5_000],
  ])('keeps %s as long as it is good', (_what, wanted, finding, forMs) => {
    const cache = newCache();
    cache.set({ ...inquiry, ...wanted }, finding);
    now += forMs;
    expect(cache.get({ ...inquiry, ...wanted })).toEqual(finding);
    now += 1;
    expect(cache.get({ ...inquiry, ...wanted })).toBeUndefined();
  });

  it('knows the access from what was found about the references, and nothing more', () => {
    const cache = newCache();
    cache.set({ ...inquiry, named: 'none' }, { access: 'granted', hasNamed: false });
    now += 60_000;
    expect(cache.get({ ...inquiry, owner: 'bob' })).toEqual({ access: 'granted' });
    expect(cache.get({ ...inquiry, named: 'main' })).toBeUndefined();
    expect(cache.get({ ...inquiry, wantsRefs: true })).toBeUndefined();
  });

  it('distinguishes hosts', () => {
    const cache = newCache();
    cache.set({ ...inquiry, wantsRefs: true }, { access: 'granted', refs });
    const host = { provider: 'gitlab', url: new URL('https://gitlab.com') };
    for (const wantsRefs of [true, false])
      expect(cache.get({ ...inquiry, wantsRefs, host })).toBeUndefined();
  });

  it('distinguishes credentials, not owners', () => {
    const cache = newCache();
    const credential = { authorization: 'Basic YTpi', token: 'b', name: 'github' };
    cache.set({ ...inquiry, credential }, { access: 'denied' });
    expect(cache.get(inquiry)).toBeUndefined();
    expect(cache.get({ ...inquiry, owner: 'bob', credential })).toEqual({ access: 'denied' });
  });

  it('keeps what was found by a credential while its secret is renewed, for its repository', () => {
    const cache = newCache();
    const renewed = (secret: string) => ({
      authorization: secret,
      token: secret,
      name: 'an app',
      identity: 'app 1',
    });
    cache.set({ ...inquiry, credential: renewed('first') }, { access: 'granted' });
    expect(cache.get({ ...inquiry, credential: renewed('second') })).toEqual({ access: 'granted' });
    const others = [
      { repository: 'acme/other', credential: renewed('first') },
      { credential: { ...renewed('first'), identity: 'app 2' } },
      { credential: { authorization: 'first', token: 'first', name: 'an app' } },
      { credential: { authorization: 'app 1', token: 'app 1', name: 'an app' } },
    ];
    for (const other of others) expect(cache.get({ ...inquiry, ...other })).toBeUndefined();
  });
});
