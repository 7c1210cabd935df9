import { z, type core } from 'zod';
import { modelSettings } from './models.ts';
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

/** Minimum of RATE_LIMIT_READS, because clients poll, and some stop polling after a 429. */
const minReads = 20;

const maxPatternLength = 255;
/** A pattern for owner/name, in which `*` matches any characters. */
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
   * Repositories that each owner may use through the App. An owner without an entry has no access,
   * even to repositories where the App is installed. Default: no owner.
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
  /**
   * File to which the gateway appends its audit log, and which may be renamed at any time. Absent:
   * the audit log is in the log.
   */
  AUDIT_FILE: z.string().min(1).optional(),
  ...cloneTimeout,
  /**
   * Whether the gateway asks git hosts about a repository and branch, and for lists of branches.
   */
  GIT_CHECK: flag(true),
  /** Maximum total time of GIT_CHECK for a start, which is accepted unchecked after this time. */
  GIT_CHECK_SECONDS: seconds(30).default(5),
  /** Folder of git credentials in files PROVIDER (all owners) or PROVIDER.OWNER. Default: none. */
  GIT_CREDENTIALS_DIR: z.string().optional(),
  /**
   * Base URLs of the APIs of git hosts by provider. Default: https://api.github.com for GitHub, and
   * the URL in GIT_HOSTS with /api/v3 for GitHub Enterprise Server, /api/v4 for GitLab, and /api/v1
   * for Forgejo.
   */
  GIT_API_URLS: urlsByProvider('{}', httpUrl, '{"github":"https://github.example.com/api/v3"}'),
  ...githubApp,
  ...modelSettings,
  /** Whether the official web UI is served, if the build has it. */
  UI: flag(true),
  /** Origins whose pages may use the service from a browser. `*` allows all. Default: none. */
  CORS_ORIGINS: listOf(
    isOrigin,
    'must be * or an origin like https://agents.example.com, without a path',
  ),
  /**
   * Proxies whose X-Forwarded-For is trusted: addresses, ranges like 10.0.0.0/8, or the names
   * loopback, linklocal and uniquelocal. Default: none.
   */
  TRUSTED_PROXIES: listOf(isAddressRange, 'must be an address or a range like 10.0.0.0/8'),
  /** Maximum and default lifetime in days of an API key that is created over REST; 0: no limit. */
  API_KEY_MAX_LIFETIME_DAYS: numberFrom({
    from: 0,
    to: 36_500,
    unit: 'a number of days',
    fractions: true,
  }).default(0),
  /** URL of a metrics dashboard, to which the page /operate links. Default: none. */
  METRICS_URL: httpUrl.optional(),
  /** Maximum reads per second of one owner, on one replica; 0: no limit. */
  RATE_LIMIT_READS: countOrNoLimit(minReads).default(1000),
  /** Maximum writes per second of one owner, on one replica; 0: no limit. */
  RATE_LIMIT_WRITES: countOrNoLimit().default(100),
  /** Maximum requests without a valid key per minute, client address and replica; 0: no limit. */
  RATE_LIMIT_FAILED_KEYS: countOrNoLimit().default(120),
  /** Maximum concurrent connections of clients, including those that are forwarded to agents. */
  MAX_CONNECTIONS: count().default(5000),
  /**
   * Maximum concurrent connections of one client address, or IPv6 /64. For a client behind a
   * trusted proxy, the limit counts its requests and WebSockets. 0: no limit.
   */
  MAX_CONNECTIONS_PER_ADDRESS: countOrNoLimit().default(1000),
  /** Maximum concurrent requests; further ones get 503. 0: no limit. */
  MAX_REQUESTS: countOrNoLimit().default(2000),
  /** Event loop delay above which writes get 503; for reads, four times this. 0: no limit. */
  OVERLOAD_DELAY_MS: countOrNoLimit().default(500),
};
