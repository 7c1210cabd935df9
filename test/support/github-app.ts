import { createVerify, type KeyObject } from 'node:crypto';
import { githubError, type GithubAnswer, type GithubOperation } from './github-api.ts';
import { githubExample } from './github-schema.ts';

/** A token that GitHub would give an installation. */
export interface TokenWish {
  /** Full names: owner/name. */
  readonly repositories: readonly string[];
  readonly permissions: Readonly<Record<string, string>>;
}

export interface GithubAppOptions {
  readonly appId: number;
  /** The key that the App has at present. */
  readonly publicKey: () => KeyObject;
  /** Full names of repositories by the id of their installation; read at each request. */
  readonly installations: Readonly<Record<number, readonly string[]>>;
  /** Rights that installations grant. Default: those that the gateway needs. */
  readonly granted?: Readonly<Record<string, string>>;
  /** Makes a token that opens the repositories, until `expiresAt`. */
  readonly mint: (wish: TokenWish) => Promise<{ readonly token: string; readonly expiresAt: Date }>;
}

const defaultGranted = { contents: 'write', pull_requests: 'write', metadata: 'read' };
const ranks: Readonly<Record<string, number>> = { read: 1, write: 2, admin: 3 };
const ranksOf = (level = '') => ranks[level] ?? 0;

interface Jwt {
  readonly header: Readonly<Record<string, unknown>>;
  readonly payload: Readonly<Record<string, unknown>>;
}

/** The parts of a JWT whose signature is of the key, RS256. */
function verified(token: string, publicKey: KeyObject): Jwt | undefined {
  const [header = '', payload = '', signature = ''] = token.split('.');
  const verify = createVerify('RSA-SHA256').update(`${header}.${payload}`);
  if (!verify.verify(publicKey, signature, 'base64url')) return undefined;
  const read = (part: string) =>
    JSON.parse(Buffer.from(part, 'base64url').toString()) as Record<string, unknown>;
  return { header: read(header), payload: read(payload) };
}

/**
 * GitHub's operations for an App: a JWT is checked as GitHub does, by the clock of the system, and
 * a token is only for repositories and rights of the installation.
 */
export function githubAppOperations({
  appId,
  publicKey,
  installations,
  granted = defaultGranted,
  mint,
}: GithubAppOptions): Readonly<Record<string, GithubOperation>> {
  const refusal = (token: string): GithubAnswer | undefined => {
    const jwt = verified(token, publicKey());
    const now = Date.now() / 1000;
    const { iss, iat, exp } = jwt?.payload ?? {};
    const isGood =
      jwt?.header['alg'] === 'RS256' &&
      String(iss) === String(appId) &&
      typeof iat === 'number' &&
      typeof exp === 'number' &&
      iat <= now &&
      exp > now &&
      exp <= now + 600;
    return isGood ? undefined : githubError(401, 'A JSON web token could not be decoded');
  };
  const isSame = (one: string, other: string) => one.toLowerCase() === other.toLowerCase();

  return {
    'GET /repos/{owner}/{repo}/installation': ({ token, params }) => {
      const refused = refusal(token);
      if (refused !== undefined) return refused;
      const wanted = `${params['owner'] ?? ''}/${params['repo'] ?? ''}`;
      const found = Object.entries(installations).find(([, names]) =>
        names.some((name) => isSame(name, wanted)),
      );
      return found === undefined
        ? githubError(404, 'Not Found')
        : {
            status: 200,
            body: { ...githubExample('installation'), id: Number(found[0]), app_id: appId },
          };
    },
    'POST /app/installations/{installation_id}/access_tokens': async ({ token, params, body }) => {
      const refused = refusal(token);
      if (refused !== undefined) return refused;
      const all = installations[Number(params['installation_id'])];
      if (all === undefined) return githubError(404, 'Not Found');
      const wanted = body['repositories'] as readonly string[] | undefined;
      const repositories = wanted?.map((name) =>
        all.find((full) => isSame(full.split('/')[1] ?? '', name)),
      );
      const permissions = (body['permissions'] ?? granted) as Readonly<Record<string, string>>;
      const isTooMuch = Object.entries(permissions).some(
        ([name, level]) => ranksOf(level) > ranksOf(granted[name]),
      );
      if (isTooMuch || repositories?.includes(undefined) === true)
        return githubError(
          422,
          'The permissions or repositories requested are not granted to this installation.',
        );
      const names = repositories?.filter((name) => name !== undefined) ?? all;
      const minted = await mint({ repositories: names, permissions });
      return {
        status: 201,
        body: {
          token: minted.token,
          expires_at: `${minted.expiresAt.toISOString().slice(0, 19)}Z`,
          permissions: { metadata: 'read', ...permissions },
          repository_selection: wanted === undefined ? 'all' : 'selected',
        },
      };
    },
  };
}
