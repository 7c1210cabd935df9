import { z, type core } from 'zod';
import { signInSettings } from './sign-in.ts';
import { isAddressRange } from '@conversation-operator/http/limits/client-address';
import {
  cloneTimeout,
  count,
  countOrNoLimit,
  flag,
  httpUrl,
  jsonText,
  listOf,
  numberFrom,
  seconds,
  urlsByProvider,
} from './environment.ts';

const isOrigin = (text: string): boolean =>
  text === '*' || (/^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text);

/** Minimum reads per second: clients poll, and mistake a 429 for the end of what they follow. */
const minReads = 20;

const maxPatternLength = 255;
/** owner/name, in which `*` matches any characters. */
const repositoryPattern = z
  .string()
  .max(maxPatternLength)
  .regex(/^[\w.*-]+\/[\w.*-]+$/, 'must be a pattern like acme/*');

const ownersForm =
  'must be a JSON object of owners, or *, and lists of repositories, for example {"alice":["acme/*"]}';

const githubApp = {
  /** The App's id, or its client id. Needs GITHUB_APP_PRIVATE_KEY_FILE. Default: no App. */
  GITHUB_APP_ID: z
    .string()
    .regex(/^[A-Za-z0-9.]{1,64}$/, 'must be the id of a GitHub App, or its client id')
    .optional(),
  /** A file with the App's private key as PEM, which is read again for each new token. */
  GITHUB_APP_PRIVATE_KEY_FILE: z
    .string()
    .refine(
      (path) => !path.includes('-----') && !/[\r\n]/.test(path),
      'must be the path of a file, not the key itself',
    )
    .optional(),
  /** The provider of GIT_HOSTS where the App is installed. */
  GITHUB_APP_PROVIDER: z.string().default('github'),
  /**
   * The owners and repositories that the App serves: an App that is installed for an organization
   * opens nothing to an owner without a rule. Default: no owner.
   */
  GITHUB_APP_OWNERS: jsonText(ownersForm)
    .prefault('{}')
    .pipe(z.record(z.string(), z.array(repositoryPattern, ownersForm), ownersForm)),
};

type GithubAppSettings = Readonly<
  Pick<
    z.output<z.ZodObject<typeof githubApp>>,
    'GITHUB_APP_ID' | 'GITHUB_APP_PRIVATE_KEY_FILE' | 'GITHUB_APP_PROVIDER'
  > & { readonly GIT_HOSTS: Readonly<Record<string, string>> }
>;

/** Rejects an App without a key, a key without an App, and an App of an unknown provider. */
export function checkGithubApp(config: GithubAppSettings, context: core.$RefinementCtx): void {
  const {
    GITHUB_APP_ID: id,
    GITHUB_APP_PRIVATE_KEY_FILE: file,
    GITHUB_APP_PROVIDER: provider,
  } = config;
  const refuse = (name: keyof GithubAppSettings, message: string) =>
    context.addIssue({ code: 'custom', path: [name], message });
  if (id !== undefined && file === undefined)
    refuse('GITHUB_APP_PRIVATE_KEY_FILE', 'must be set where GITHUB_APP_ID is');
  if (id === undefined && file !== undefined)
    refuse('GITHUB_APP_ID', 'must be set where GITHUB_APP_PRIVATE_KEY_FILE is');
  if (id !== undefined && !Object.hasOwn(config.GIT_HOSTS, provider))
    refuse('GITHUB_APP_PROVIDER', 'must be a provider of GIT_HOSTS');
}

export const serving = {
  ...signInSettings,
  ...cloneTimeout,
  /** Whether git hosts are asked for repository and branch before a start, and for branch lists. */
  GIT_CHECK: flag(true),
  /** Maximum total time of these requests; after that the start is accepted without them. */
  GIT_CHECK_SECONDS: seconds(30).default(5),
  /**
   * A folder with a file for each credential: PROVIDER for all owners, PROVIDER.OWNER for one
   * owner. By default there are none.
   */
  GIT_CREDENTIALS_DIR: z.string().optional(),
  /**
   * Base URLs of the APIs of git hosts by provider, where they differ from the default of the kind
   * of host: https://api.github.com, or below the URL of GIT_HOSTS /api/v3 of GitHub Enterprise
   * Server, /api/v4 of GitLab, /api/v1 of Forgejo.
   */
  GIT_API_URLS: urlsByProvider('{}', httpUrl, '{"github":"https://github.example.com/api/v3"}'),
  ...githubApp,
  /** Whether the official web UI is served, if the build has it. */
  UI: flag(true),
  /** Origins whose pages may use the service from a browser; `*` allows all, none by default. */
  CORS_ORIGINS: listOf(
    isOrigin,
    'must be * or an origin like https://agents.example.com, without a path',
  ),
  /**
   * Proxies whose X-Forwarded-For is trusted: addresses, ranges like 10.0.0.0/8, loopback,
   * linklocal, uniquelocal. Default: none.
   */
  TRUSTED_PROXIES: listOf(isAddressRange, 'must be an address or a range like 10.0.0.0/8'),
  /** Maximum, and default, lifetime in days of an API key that is made over REST; 0: no limit. */
  API_KEY_MAX_LIFETIME_DAYS: numberFrom({
    from: 0,
    to: 36_500,
    unit: 'a number of days',
    fractions: true,
  }).default(0),
  /** URL of the metrics for people, a link on the page /operate. Default: none. */
  METRICS_URL: httpUrl.optional(),
  /** Maximum reads per second of one owner, on one replica; 0: no limit. */
  RATE_LIMIT_READS: countOrNoLimit(minReads).default(1000),
  /** Maximum writes per second of one owner, on one replica; 0: no limit. */
  RATE_LIMIT_WRITES: countOrNoLimit().default(100),
  /**
   * Maximum requests per minute without a valid key of a client address, per replica; 0: no limit.
   */
  RATE_LIMIT_FAILED_KEYS: countOrNoLimit().default(120),
  /** Maximum concurrent connections, including those to agents. */
  MAX_CONNECTIONS: count().default(5000),
  /**
   * Maximum concurrent connections of one client address (of IPv6 its /64); of a client behind a
   * trusted proxy its requests and WebSockets. 0: no limit.
   */
  MAX_CONNECTIONS_PER_ADDRESS: countOrNoLimit().default(1000),
  /** Maximum concurrent requests before more get 503; 0: no limit. */
  MAX_REQUESTS: countOrNoLimit().default(2000),
  /** Maximum event loop delay before writes get 503, and reads at four times that; 0: no limit. */
  OVERLOAD_DELAY_MS: countOrNoLimit().default(500),
};
