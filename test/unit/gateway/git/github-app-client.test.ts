import { generateKeyPairSync } from 'node:crypto';
import { directly } from '@conversation-operator/outward/outward';
import {
  newGithubAppClient,
  type GithubAppClient,
} from '../../../../src/gateway/git/github-app-client.ts';
import { HostApiError } from '../../../../src/gateway/git/host-api/host-api.ts';
import { startJsonHost, type JsonAnswer, type JsonHost } from '../../../support/json-host.ts';

const { privateKey } = generateKeyPairSync('rsa', {
  modulusLength: 2048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});

/** GitHub's answer to a request for a token. */
const minted = (fields: object = {}): JsonAnswer => ({
  status: 201,
  headers: { 'content-type': 'application/json' },
  body: {
    token: 'ghs_s3cret',
    expires_at: '2026-03-01T13:00:00Z',
    permissions: { contents: 'write', pull_requests: 'write' },
    repository_selection: 'selected',
    repositories: [{ name: 'shop', full_name: 'acme/shop', id: 1 }],
    ...fields,
  },
});

let host: JsonHost;
let answer: JsonAnswer | undefined;
let client: GithubAppClient;
beforeEach(async () => {
  host = await startJsonHost((_call, { request }) => {
    if (answer === undefined) request.socket.destroy();
    return answer;
  });
  client = newGithubAppClient({
    outward: directly,
    appId: '12',
    apiUrl: new URL(`${host.url}/api/v3/`),
    timeoutMs: 5_000,
    privateKey: () => Promise.resolve(privateKey),
  });
});
afterEach(async () => {
  await client.close();
  await host.close();
});

const codeOf = (request: Promise<unknown>) =>
  request.then(
    () => 'none',
    (error: unknown) => (error instanceof HostApiError ? error.code : String(error)),
  );

describe('a token of a GitHub App', () => {
  it('is for one repository, with the time of its end', async () => {
    answer = minted();
    expect(await client.mint(7, 'acme/shop')).toEqual({
      token: 'ghs_s3cret',
      expiresAt: Date.UTC(2026, 2, 1, 13),
    });
    expect(host.calls).toMatchObject([
      {
        method: 'POST',
        target: '/api/v3/app/installations/7/access_tokens',
        body: {
          repositories: ['shop'],
          permissions: { contents: 'write', pull_requests: 'write' },
        },
      },
    ]);
  });

  it.each<[string, object, string]>([
    ['in another case', { repositories: [{ name: 'Shop' }] }, 'none'],
    ['that is not listed', { repositories: undefined }, 'none'],
    ['and another one', { repositories: [{ name: 'shop' }, { name: 'lib' }] }, 'unavailable'],
    ['of another name', { repositories: [{ name: 'lib' }] }, 'unavailable'],
    ['in an empty list', { repositories: [] }, 'unavailable'],
    ['among all of the installation', { repository_selection: 'all' }, 'unavailable'],
    ['in a selection that is not stated', { repository_selection: undefined }, 'unavailable'],
    ['without an end', { expires_at: undefined }, 'unavailable'],
    ['that ends at no time', { expires_at: 'soon' }, 'unavailable'],
    ['without a token', { token: '' }, 'unavailable'],
    ['with a token that no header takes', { token: 'a b' }, 'unavailable'],
  ])('for a repository %s is taken: %s, %s', async (_sentence, fields, expected) => {
    answer = minted(fields);
    expect(await codeOf(client.mint(7, 'acme/shop'))).toBe(expected);
  });
});

describe.each<[string, JsonAnswer | undefined, string, string | number]>([
  ['the installation', { body: { id: 7 } }, 'unavailable', 7],
  ['401', { status: 401 }, 'denied', 'denied'],
  ['403', { status: 403 }, 'invalid', 'denied'],
  ['403 with an exhausted limit', limited(403, 'x-ratelimit-remaining', '0'), 'busy', 'busy'],
  ['403 with some of a limit', limited(403, 'x-ratelimit-remaining', '1'), 'invalid', 'denied'],
  ['403 and when to try again', limited(403, 'retry-after', '60'), 'busy', 'busy'],
  ['404', { status: 404 }, 'not-found', 'undefined'],
  ['422', { status: 422 }, 'invalid', 'invalid'],
  ['429', { status: 429 }, 'busy', 'busy'],
  ['500', { status: 500 }, 'unavailable', 'unavailable'],
  ['503', { status: 503 }, 'unavailable', 'unavailable'],
  ['a redirect', limited(302, 'location', 'https://example.com/'), 'unavailable', 'unavailable'],
  ['nothing', undefined, 'unavailable', 'unavailable'],
])('GitHub answers %s', (_sentence, given, mint, installation) => {
  it('which is an error of the token, and says whether the App is installed', async () => {
    answer = given;
    expect(await codeOf(client.mint(7, 'acme/shop'))).toBe(mint);
    expect(
      await client
        .installationOf('acme/shop')
        .then((id) => id ?? 'undefined')
        .catch((error: unknown) => (error as HostApiError).code),
    ).toBe(installation);
  });
});

function limited(status: number, name: string, value: string): JsonAnswer {
  return { status, headers: { [name]: value } };
}

it('a key that can not sign is denied, without its text', async () => {
  const other = newGithubAppClient({
    outward: directly,
    appId: '12',
    apiUrl: new URL(host.url),
    privateKey: () => Promise.resolve('s3cret that is no key'),
  });
  for (const request of [other.mint(7, 'acme/shop'), other.installationOf('acme/shop')]) {
    const error: unknown = await request.catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'denied' });
    expect(JSON.stringify([error, String(error)])).not.toContain('s3cret');
  }
  expect(host.calls).toEqual([]);
  await other.close();
});
