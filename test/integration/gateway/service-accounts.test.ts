import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT, type JWK } from 'jose';
import { systemClock } from '@conversation-operator/base/clock';
import { directly } from '@conversation-operator/outward/outward';
import type { GatewayOptions } from '../../../src/gateway/gateway-options.ts';
import { apiKeys } from '../../../src/resources/api-key.ts';
import { eventually } from '../../support/eventually.ts';
import { namespace, TestGateway } from '../../support/gateway/test-gateway.ts';

type PrivateKey = Awaited<ReturnType<typeof generateKeyPair>>['privateKey'];

const issuer = 'https://kubernetes.default.svc.cluster.local';
const audience = 'conversation-operator';
let now = 0;
const clock = {
  ...systemClock,
  now: () => Date.now() + now,
  monotonic: () => systemClock.monotonic() + now,
};
let gateway: TestGateway;
let replica: TestGateway;
let signer: PrivateKey;
let signerId = 'one';
let keys: JWK[] = [];
let reads = 0;
/** The answer of the API server about a token. */
let review: (token: string, audience: string) => Promise<string | undefined> = () =>
  Promise.reject(new Error('no test has asked for a review'));
let signIn: Required<
  Pick<NonNullable<GatewayOptions['signIn']>, 'issuers' | 'requireActivePerson'>
> & {
  readonly outward: typeof directly;
  readonly serviceAccounts: NonNullable<NonNullable<GatewayOptions['signIn']>['serviceAccounts']>;
};

async function newKey(kid: string): Promise<PrivateKey> {
  const { privateKey, publicKey } = await generateKeyPair('ES256');
  keys = [...keys, { ...(await exportJWK(publicKey)), kid, alg: 'ES256', use: 'sig' }];
  return privateKey;
}

beforeAll(async () => {
  signer = await newKey('one');
  const readKeys = () => {
    reads += 1;
    return Promise.resolve({ issuer, keys: { keys } });
  };
  const rule = (name: string, more: object) => ({
    namespace: 'ci',
    name,
    owner: 'ci-bot',
    role: 'user' as const,
    ...more,
  });
  signIn = {
    issuers: [],
    outward: directly,
    requireActivePerson: false,
    serviceAccounts: {
      settings: {
        audience,
        tokenReview: false,
        rules: [
          rule('runner', {}),
          rule('reader', { scopes: ['read'] }),
          rule('boss', { owner: 'boss', role: 'admin' }),
        ],
      },
      readKeys,
      review: (token, forAudience) => review(token, forAudience),
    },
  };
  gateway = await TestGateway.start({ clock, signIn });
  replica = await gateway.replica({ clock, signIn });
});
afterAll(async () => {
  await replica.stop();
  await gateway.stop();
});
/** Time only goes on, as on a cluster. */
const advance = (ms: number) => {
  now += ms;
};

interface Wish {
  readonly name?: string;
  readonly namespace?: string;
  readonly claims?: Readonly<Record<string, unknown>>;
  readonly key?: PrivateKey;
  readonly kid?: string;
}
const claimsOf = ({ name = 'runner', namespace = 'ci', claims = {} }: Wish) => {
  const seconds = Math.floor(clock.now() / 1000);
  return {
    iss: issuer,
    aud: [audience],
    sub: `system:serviceaccount:${namespace}:${name}`,
    iat: seconds,
    nbf: seconds,
    exp: seconds + 600,
    jti: String(Math.random()),
    'kubernetes.io': { namespace, serviceaccount: { name, uid: 'u' } },
    ...claims,
  };
};
const token = (wish: Wish = {}) =>
  new SignJWT(claimsOf(wish))
    .setProtectedHeader({ alg: 'ES256', kid: wish.kid ?? signerId })
    .sign(wish.key ?? signer);
const me = (key: string, on = gateway) => on.get('/api/v1/users/me', { key });

describe('a service account of the cluster', () => {
  it('is the owner that its rule names, on every replica', async () => {
    const key = await token();
    expect(await me(key)).toMatchObject({ status: 200, json: { id: 'ci-bot', role: 'user' } });
    expect(await me(key, replica)).toMatchObject({ status: 200, json: { id: 'ci-bot' } });
    const [account, ...others] = gateway.caches.apiKeys.store
      .list()
      .filter(({ spec }) => spec.signIn === 'ServiceAccount');
    expect([account?.spec.description, others]).toEqual(['Service account ci/runner', []]);
    expect(
      [...gateway.log, ...replica.log].filter(({ message }) => message === 'KeyCreated'),
    ).toEqual([
      expect.objectContaining({
        fields: expect.objectContaining({
          owner: 'ci-bot',
          client: '127.0.0.1',
          serviceAccount: 'ci/runner',
          made: account?.metadata.name,
        }) as object,
      }),
    ]);
    await gateway.post('/api/v1/sandboxes', {}, { key });
    expect(gateway.log.findLast(({ message }) => message === 'Write')?.fields).toMatchObject({
      owner: 'ci-bot',
      serviceAccount: 'ci/runner',
      action: 'startSandbox',
    });
  });

  it('has the role and the scopes of its rule', async () => {
    expect(await me(await token({ name: 'boss' }))).toMatchObject({
      json: { id: 'boss', role: 'admin' },
    });
    const key = await token({ name: 'reader' });
    expect(await gateway.get('/api/v1/app-conversations/search', { key })).toMatchObject({
      status: 200,
    });
    expect(await gateway.post('/api/v1/sandboxes', {}, { key })).toMatchObject({
      status: 403,
      json: { code: 'insufficient-scope' },
    });
  });

  it('makes keys that end with its own', async () => {
    const key = await token();
    const made = await gateway.post('/api/keys', { name: 'made' }, { key });
    expect(made).toMatchObject({ status: 201, json: { user_id: 'ci-bot' } });
    const { expires_at: end } = made.json as { readonly expires_at: string };
    expect(Date.parse(end)).toBeLessThanOrEqual(clock.now() + 600_000);
  });

  it('uses one key for many requests at once', async () => {
    const tokens = await Promise.all(Array.from({ length: 20 }, () => token({ name: 'boss' })));
    const answers = await Promise.all(tokens.map((key) => me(key)));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
  });

  it.each<[string, () => Promise<string> | string]>([
    ['another audience', () => token({ claims: { aud: ['https://kubernetes.default.svc'] } })],
    ['no audience', () => token({ claims: { aud: undefined } })],
    ['another issuer', () => token({ claims: { iss: 'https://elsewhere.example' } })],
    ['an expiry 61 s ago', () => token({ claims: { exp: Math.floor(clock.now() / 1000) - 61 } })],
    ['no expiry', () => token({ claims: { exp: undefined } })],
    ['a start in 65 s', () => token({ claims: { nbf: Math.floor(clock.now() / 1000) + 65 } })],
    ['no rule for its name', () => token({ name: 'runner2' })],
    ['a name in other letters', () => token({ name: 'Runner' })],
    ['no rule for its namespace', () => token({ namespace: 'ci-2' })],
    [
      'the subject of a rule, and other claims of Kubernetes',
      () => token({ name: 'other', claims: { sub: 'system:serviceaccount:ci:runner' } }),
    ],
    ['no claims of Kubernetes', () => token({ claims: { 'kubernetes.io': undefined } })],
    ['no signature', () => new UnsecuredJWT(claimsOf({})).encode()],
    [
      'the signature of another key',
      async () => {
        const { privateKey } = await generateKeyPair('ES256');
        return token({ key: privateKey });
      },
    ],
    [
      'changed claims',
      async () => {
        const [head, , signature] = (await token()).split('.');
        const claims = Buffer.from(JSON.stringify(claimsOf({ name: 'boss' }))).toString(
          'base64url',
        );
        return `${head ?? ''}.${claims}.${signature ?? ''}`;
      },
    ],
    ['9 KiB', () => token({ claims: { more: 'x'.repeat(9_000) } })],
    ['no form of a token', () => 'a.b.c'],
  ])('opens nothing with a token with %s', async (_case, tokenOf) => {
    expect(await me(await tokenOf())).toMatchObject({ status: 401 });
  });

  it('opens nothing any more once its token has expired', async () => {
    const key = await token();
    expect(await me(key)).toMatchObject({ status: 200 });
    advance(601_000);
    expect(await me(key)).toMatchObject({ status: 401 });
  });

  it('opens what its rule says after the deletion of its Pod, and until its token expires', async () => {
    // No request says that the Pod is gone: the token is verified without the API server.
    const pod = { name: 'job-1', uid: 'p' };
    const claims = { namespace: 'ci', serviceaccount: { name: 'runner', uid: 'u' }, pod };
    const key = await token({ claims: { 'kubernetes.io': claims } });
    advance(599_000);
    expect(await me(key)).toMatchObject({ status: 200 });
    advance(2_000);
    expect(await me(key)).toMatchObject({ status: 401 });
  });

  it('opens nothing while its key of the hour is disabled, on every replica', async () => {
    expect(await me(await token())).toMatchObject({ status: 200 });
    const ofRunner = () =>
      gateway.caches.apiKeys.store
        .list()
        .filter(({ spec }) => spec.serviceAccount === 'ci/runner')
        .toSorted((one, other) =>
          String(one.spec.expirationTime).localeCompare(String(other.spec.expirationTime)),
        );
    const name = ofRunner().at(-1)?.metadata.name ?? '';
    await gateway.client.mergePatch(apiKeys, namespace, name, { spec: { disabled: true } });
    for (const on of [gateway, replica])
      await eventually(
        'the key is disabled',
        async () => (await me(await token(), on)).status === 401,
      );
    // A refused request costs the API server nothing.
    gateway.client.fault = () => new Error('the API server is called');
    expect(await me(await token())).toMatchObject({ status: 401 });
    gateway.client.fault = () => undefined;
    advance(60 * 60 * 1000);
    expect(await me(await token())).toMatchObject({ status: 200 });
    expect(ofRunner().at(-1)?.metadata.name).not.toBe(name);
  });

  it('is known by a new key of the cluster within seconds, and no more by a withdrawn one', async () => {
    const old = await token();
    expect(await me(old)).toMatchObject({ status: 200 });
    const second = await newKey('two');
    advance(6_000);
    expect(await me(await token({ key: second, kid: 'two' }))).toMatchObject({ status: 200 });
    const before = reads;
    for (let index = 0; index < 10; index++)
      await me(await token({ key: second, kid: `unknown-${index}` }));
    expect(reads - before).toBeLessThanOrEqual(1);
    keys = keys.filter(({ kid }) => kid !== 'one');
    advance(130_000);
    expect(await me(old)).toMatchObject({ status: 401 });
    [signer, signerId] = [second, 'two'];
  });

  it('has another key in another hour, and leaves no expired ones', async () => {
    await me(await token());
    advance(3 * 60 * 60 * 1000);
    expect(await me(await token())).toMatchObject({ status: 200, json: { id: 'ci-bot' } });
    const names = gateway.caches.apiKeys.store
      .list()
      .filter(({ spec }) => spec.description === 'Service account ci/runner');
    expect(names).toHaveLength(1);
  });

  describe('with TokenReview', () => {
    let reviewed: TestGateway;
    let asked: string[] = [];
    beforeAll(async () => {
      const { serviceAccounts } = signIn;
      const settings = { ...serviceAccounts.settings, tokenReview: true };
      reviewed = await gateway.replica({
        clock,
        signIn: { ...signIn, serviceAccounts: { ...serviceAccounts, settings } },
      });
    });
    afterAll(() => reviewed.stop());
    const answer = (user: string | undefined) => {
      asked = [];
      review = (_token, forAudience) => {
        asked.push(forAudience);
        return Promise.resolve(user);
      };
    };
    const runner = 'system:serviceaccount:ci:runner';

    it('asks the API server once in a minute', async () => {
      answer(runner);
      const key = await token();
      for (let index = 0; index < 3; index++)
        expect(await me(key, reviewed)).toMatchObject({ status: 200, json: { id: 'ci-bot' } });
      expect(asked).toEqual([audience]);
      answer(undefined);
      advance(61_000);
      expect(await me(key, reviewed)).toMatchObject({ status: 401 });
    });

    it('opens nothing with the token of a deleted Pod, which the API server sees once', async () => {
      answer(undefined);
      const key = await token();
      for (let index = 0; index < 3; index++)
        expect(await me(key, reviewed)).toMatchObject({ status: 401 });
      expect(asked).toHaveLength(1);
      expect(await me(key)).toMatchObject({ status: 200 });
    });

    it('opens nothing with the name of another user', async () => {
      answer('system:serviceaccount:ci:boss');
      expect(await me(await token(), reviewed)).toMatchObject({ status: 401 });
    });

    it('shows the API server no token whose signature does not hold, or without a rule', async () => {
      answer(runner);
      const { privateKey } = await generateKeyPair('ES256');
      expect(await me(await token({ key: privateKey }), reviewed)).toMatchObject({ status: 401 });
      expect(await me(await token({ name: 'other' }), reviewed)).toMatchObject({ status: 401 });
      expect(asked).toEqual([]);
    });

    it('is asked to come again while the API server does not answer', async () => {
      review = () => Promise.reject(new Error('the API server is away'));
      const key = await token();
      expect(await me(key, reviewed)).toMatchObject({ status: 503 });
      answer(runner);
      expect(await me(key, reviewed)).toMatchObject({ status: 200 });
    });
  });

  it('is asked to come again while the keys of the cluster were never read', async () => {
    const away = await gateway.replica({
      clock,
      signIn: {
        ...signIn,
        serviceAccounts: {
          ...signIn.serviceAccounts,
          readKeys: () => Promise.reject(new Error('the API server is away')),
        },
      },
    });
    expect(await me(await token(), away)).toMatchObject({ status: 503 });
    expect(away.log.map(({ message }) => message)).toContain(
      'The keys of the cluster can not be read',
    );
    await away.stop();
  });
});
