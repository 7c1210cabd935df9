import { VirtualClock } from '../../../support/virtual-clock.ts';
import { recordingLogger } from '../../../support/recording-logger.ts';
import {
  GithubApp,
  isServed,
  type GithubAppOwners,
} from '../../../../src/gateway/git/github-app.ts';
import { HostApiError } from '../../../../src/gateway/git/host-api/host-api.ts';
import { basicAuthorization } from '../../../../src/gateway/git/hosts.ts';

const minute = 60_000;
const hour = 60 * minute;

describe('the rules of a GitHub App', () => {
  it.each<[string, GithubAppOwners, string, boolean]>([
    ['no rule', {}, 'acme/shop', false],
    ['a rule without patterns', { alice: [] }, 'acme/shop', false],
    ['a rule of the owner', { alice: ['acme/*'] }, 'acme/shop', true],
    ['a rule of the owner for one repository', { alice: ['acme/shop'] }, 'acme/shop', true],
    ['a rule of the owner for another repository', { alice: ['acme/lib'] }, 'acme/shop', false],
    ['a rule of another owner', { bob: ['acme/*'] }, 'acme/shop', false],
    ['a rule for every owner', { '*': ['acme/*'] }, 'acme/shop', true],
    ['a rule of the owner beside one for all', { '*': ['x/y'], alice: ['a/*'] }, 'x/y', true],
    ['an organization that begins alike', { alice: ['acme/*'] }, 'acme-evil/shop', false],
    ['an organization that ends alike', { alice: ['acme/*'] }, 'x/acme/shop', false],
    ['another case, as GitHub takes names', { alice: ['Acme/*'] }, 'aCME/Shop', true],
    ['the ending of git, as GitHub takes names', { alice: ['acme/shop'] }, 'acme/Shop.git', true],
    ['everything', { alice: ['*/*'] }, 'any/thing', true],
  ])('%s', (_sentence, owners, repository, expected) => {
    expect(isServed(owners, 'alice', repository)).toBe(expected);
  });

  it.each(['constructor', '__proto__', 'toString'])('know no owner %s', (owner) => {
    expect(isServed({ alice: ['acme/*'] }, owner, 'acme/shop')).toBe(false);
  });
});

/** An App whose GitHub is a table. */
function anApp({ owners = { '*': ['acme/*'] } }: { readonly owners?: GithubAppOwners } = {}) {
  const clock = new VirtualClock();
  const { logger, lines } = recordingLogger();
  const asked: string[] = [];
  const github = {
    installation: 7 as number | undefined | Error,
    lifetimeMs: hour,
    mintError: undefined as Error | undefined,
    /** Delay of every answer. */
    delayMs: 0,
  };
  let count = 0;
  const answered = async () => {
    if (github.delayMs === 0) return;
    await new Promise<void>((resolve) => {
      clock.after(github.delayMs, resolve);
    });
  };
  const client = {
    installationOf: async (repository: string) => {
      asked.push(`installation of ${repository}`);
      await answered();
      if (github.installation instanceof Error) throw github.installation;
      return github.installation;
    },
    mint: async (installation: number, repository: string) => {
      asked.push(`token of ${installation} for ${repository}`);
      const expiresAt = clock.now() + github.lifetimeMs;
      await answered();
      if (github.mintError !== undefined) throw github.mintError;
      return { token: `s3cret-${++count}`, expiresAt };
    },
  };
  const app = new GithubApp({ appId: '12', provider: 'github', owners, client, clock, logger });
  const of = (owner: string, repository: string | undefined, provider = 'github') =>
    app.source(owner, provider, repository);
  return { clock, lines, asked, github, of };
}

const failure = (code: HostApiError['code']) => new HostApiError(code, 'worded');
const logged = (lines: readonly { level: string; message: string }[]) =>
  lines.map(({ level, message }) => `${level}: ${message}`);

describe('a GitHub App', () => {
  it('gives a token for one repository, to every owner whom it serves', async () => {
    const { asked, of } = anApp({ owners: { alice: ['acme/*'], bob: ['acme/shop'] } });
    const credential = {
      authorization: basicAuthorization('x-access-token', 's3cret-1'),
      token: 's3cret-1',
      name: 'GitHub App 12',
      identity: '["github","12",7,"acme/shop"]',
    };
    expect(await of('alice', 'acme/shop')).toMatchObject(credential);
    expect(await of('bob', 'Acme/Shop')).toMatchObject(credential);
    expect(await of('bob', 'acme/shop.git')).toMatchObject(credential);
    expect(await of('alice', 'acme/lib')).toMatchObject({
      token: 's3cret-2',
      identity: '["github","12",7,"acme/lib"]',
    });
    expect(asked).toEqual([
      'installation of acme/shop',
      'token of 7 for acme/shop',
      'installation of acme/lib',
      'token of 7 for acme/lib',
    ]);
  });

  it.each<[string, string, string | undefined, string]>([
    ['an owner without a rule', 'mallory', 'acme/shop', 'github'],
    ['a repository without a rule', 'alice', 'other/shop', 'github'],
    ['another provider', 'alice', 'acme/shop', 'gitlab'],
    ['no repository', 'alice', undefined, 'github'],
    ['a path that is none of GitHub', 'alice', 'acme/group/shop', 'github'],
  ])(
    'leaves %s to other credentials, and asks nothing',
    async (_s, owner, repository, provider) => {
      const { asked, of } = anApp({ owners: { alice: ['acme/*'] } });
      expect(await of(owner, repository, provider)).toBe('absent');
      expect(asked).toEqual([]);
    },
  );

  it('asks once for concurrent requests', async () => {
    const { clock, asked, github, of } = anApp();
    github.delayMs = 500;
    const all = ['alice', 'bob', 'carol'].map((owner) => of(owner, 'acme/shop'));
    const found = await clock.run(Promise.all(all));
    expect(found.map((each) => (typeof each === 'string' ? each : each.token))).toEqual([
      's3cret-1',
      's3cret-1',
      's3cret-1',
    ]);
    expect(asked).toHaveLength(2);
  });

  it('renews a token five minutes before its end, and asks nothing before', async () => {
    const { clock, asked, of } = anApp();
    expect(await of('alice', 'acme/shop')).toMatchObject({ token: 's3cret-1' });
    await clock.advance(55 * minute - 1);
    expect(await of('alice', 'acme/shop')).toMatchObject({ token: 's3cret-1' });
    expect(asked).toHaveLength(2);
    await clock.advance(1);
    const renewed = await of('alice', 'acme/shop');
    expect(renewed).toMatchObject({ token: 's3cret-2', identity: '["github","12",7,"acme/shop"]' });
    expect(asked).toHaveLength(4);
  });

  it.each([
    ['the wall clock jumps', (clock: VirtualClock) => clock.jumpWallClock(-24 * hour)],
    ['nothing happens', () => undefined],
  ])('keeps no token beyond an hour while %s', async (_sentence, disturb) => {
    const { clock, github, of } = anApp();
    github.lifetimeMs = 1000 * hour;
    await of('alice', 'acme/shop');
    disturb(clock);
    await clock.advance(55 * minute);
    expect(await of('alice', 'acme/shop')).toMatchObject({ token: 's3cret-2' });
  });

  it('counts the lifetime from the request, not from a late answer', async () => {
    const { clock, github, of } = anApp();
    github.delayMs = minute;
    await clock.run(of('alice', 'acme/shop'));
    github.delayMs = 0;
    await clock.advance(54 * minute);
    expect(await of('alice', 'acme/shop')).toMatchObject({ token: 's3cret-2' });
  });

  it.each(['unavailable', 'busy'] as const)(
    'uses a token to its last minute while GitHub is %s',
    async (code) => {
      const { clock, lines, github, of } = anApp();
      await of('alice', 'acme/shop');
      github.mintError = failure(code);
      for (let minutes = 55; minutes < 59; minutes++) {
        await clock.advance((minutes === 55 ? 55 : 1) * minute);
        expect(await of('alice', 'acme/shop')).toMatchObject({ token: 's3cret-1' });
      }
      await clock.advance(minute);
      expect(await of('alice', 'acme/shop')).toBe('withheld');
      github.mintError = undefined;
      await clock.advance(code === 'busy' ? minute : 10_000);
      expect(await of('alice', 'acme/shop')).toMatchObject({ token: 's3cret-2' });
      expect(logged(lines)).toEqual([
        'error: the GitHub App gets no tokens',
        'info: the GitHub App gets tokens again',
      ]);
    },
  );

  it('withholds the credential where GitHub does not accept the App, and logs it once', async () => {
    const { clock, lines, asked, github, of } = anApp();
    await of('alice', 'acme/shop');
    github.installation = failure('denied');
    await clock.advance(56 * minute);
    for (let times = 0; times < 3; times++) {
      expect(await of('alice', 'acme/shop')).toBe('withheld');
      expect(await of('alice', 'acme/lib')).toBe('withheld');
    }
    expect(asked).toHaveLength(4);
    expect(logged(lines)).toEqual(['error: the GitHub App gets no tokens']);
    expect(JSON.stringify(lines)).not.toContain('s3cret');
    github.installation = 7;
    await clock.advance(10_000);
    expect(await of('alice', 'acme/shop')).toMatchObject({ token: 's3cret-2' });
    expect(logged(lines)).toContain('info: the GitHub App gets tokens again');
  });

  it('withholds the credential for a minute where the App is not installed', async () => {
    const { clock, lines, asked, github, of } = anApp();
    github.installation = undefined;
    expect(await of('alice', 'acme/shop')).toBe('withheld');
    await clock.advance(minute - 1);
    expect(await of('alice', 'acme/shop')).toBe('withheld');
    expect(asked).toEqual(['installation of acme/shop']);
    github.installation = 9;
    await clock.advance(1);
    expect(await of('alice', 'acme/shop')).toMatchObject({ token: 's3cret-1' });
    expect(lines).toEqual([]);
  });

  it.each(['invalid', 'not-found'] as const)(
    'withholds the credential of one repository that is refused as %s',
    async (code) => {
      const { clock, lines, asked, github, of } = anApp();
      github.mintError = failure(code);
      expect(await of('alice', 'acme/shop')).toBe('withheld');
      await clock.advance(minute);
      expect(await of('alice', 'acme/shop')).toBe('withheld');
      // The installation may be another one by then.
      expect(asked.filter((each) => each.startsWith('installation'))).toHaveLength(2);
      github.mintError = undefined;
      await clock.advance(minute);
      expect(await of('alice', 'acme/shop')).toMatchObject({ token: 's3cret-1' });
      expect(logged(lines)).toEqual([
        'warn: the GitHub App gets no token for a repository',
        'info: the GitHub App gets tokens for a repository again',
      ]);
    },
  );

  it('replaces a token that a host refuses, at most once a minute', async () => {
    const { clock, asked, github, of } = anApp();
    const refuse = async () => {
      const found = await of('alice', 'acme/shop');
      if (typeof found === 'string') throw new Error(found);
      found.refused?.();
      return found.token;
    };
    const stale = await of('alice', 'acme/shop');
    await clock.advance(minute - 1);
    expect([await refuse(), await refuse()]).toEqual(['s3cret-1', 's3cret-1']);
    await clock.advance(1);
    // The App was installed again.
    github.installation = 8;
    expect([await refuse(), await refuse()]).toEqual(['s3cret-1', 's3cret-2']);
    await clock.advance(minute);
    if (typeof stale !== 'string') stale.refused?.();
    expect(await of('alice', 'acme/shop')).toMatchObject({ token: 's3cret-2' });
    expect(asked).toEqual([
      'installation of acme/shop',
      'token of 7 for acme/shop',
      'installation of acme/shop',
      'token of 8 for acme/shop',
    ]);
  });

  it('never rejects', async () => {
    const { github, of } = anApp();
    github.installation = new TypeError('s3cret of the key');
    expect(await of('alice', 'acme/shop')).toBe('withheld');
  });

  it('lets one owner ask for a bounded number of repositories, and serves others', async () => {
    const { clock, lines, asked, github, of } = anApp();
    github.installation = undefined;
    for (let each = 0; each < 1_000; each++) await of('mallory', `acme/${each}`);
    expect(asked).toHaveLength(300);
    await clock.advance(5_000);
    for (let each = 0; each < 10; each++) await of('mallory', `acme/later-${each}`);
    expect(asked).toHaveLength(301);
    expect(await of('mallory', 'acme/more')).toBe('withheld');
    github.installation = 7;
    expect(await of('alice', 'acme/more')).toMatchObject({ token: 's3cret-1' });
    expect(logged(lines)).toEqual(['warn: an owner asks for tokens of the GitHub App too often']);
    // Mallory shares what was found for others.
    expect(await of('mallory', 'acme/more')).toMatchObject({ token: 's3cret-1' });
  });
});
