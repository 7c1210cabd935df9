import { z } from 'zod';
import { isAddressRange } from '@conversation-operator/http/limits/client-address';
import {
  count,
  countOrNoLimit,
  flag,
  httpUrl,
  listOf,
  numberFrom,
  seconds,
  urlsByProvider,
} from './environment.ts';

const isOrigin = (text: string): boolean =>
  text === '*' || (/^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text);

/**
 * Minimum of reads a second: clients poll, and take a 429 on a read for the end of what they
 * follow.
 */
const minReads = 20;

/** Settings of every process that serves REST. */
export const serving = {
  /**
   * Whether git hosts are asked for a repository and its branch before a start is accepted, and for
   * lists of branches.
   */
  GIT_CHECK: flag(true),
  /** How long they may take, in all; then the start is accepted without them. */
  GIT_CHECK_SECONDS: seconds(30).default(5),
  /**
   * A folder with a file for each credential: PROVIDER is everybody's, PROVIDER.OWNER that of one
   * owner. By default there are none.
   */
  GIT_CREDENTIALS_DIR: z.string().optional(),
  /**
   * Base URLs of the APIs of git hosts by provider, where they are not those that the kind of host
   * has: https://api.github.com, or below the URL of GIT_HOSTS /api/v3 of GitHub Enterprise Server,
   * /api/v4 of GitLab, /api/v1 of Forgejo.
   */
  GIT_API_URLS: urlsByProvider('{}', httpUrl, '{"github":"https://github.example.com/api/v3"}'),
  /** Whether the official web UI is served, where the build has it. */
  UI: flag(true),
  /** Pages of which origins may use the service from a browser; `*` allows all, none by default. */
  CORS_ORIGINS: listOf(
    isOrigin,
    'must be * or an origin like https://agents.example.com, without a path',
  ),
  /**
   * Whose X-Forwarded-For is believed: addresses, ranges like 10.0.0.0/8, loopback, linklocal,
   * uniquelocal. Default: none.
   */
  TRUSTED_PROXIES: listOf(isAddressRange, 'must be an address or a range like 10.0.0.0/8'),
  /**
   * Maximum lifetime in days of an API key that is made over REST, and the lifetime of one that
   * names no end; 0: no limit.
   */
  API_KEY_MAX_LIFETIME_DAYS: numberFrom({
    from: 0,
    to: 36_500,
    unit: 'a number of days',
    fractions: true,
  }).default(0),
  /** Where people find the metrics, for a link on the page /operate. Default: none. */
  METRICS_URL: httpUrl.optional(),
  /** Reads a second of one API key, on one replica; 0: no limit. */
  RATE_LIMIT_READS: countOrNoLimit(minReads).default(1000),
  /** Writes a second of one API key, on one replica; 0: no limit. */
  RATE_LIMIT_WRITES: countOrNoLimit().default(100),
  /** Requests a minute without a valid key of one client address, on one replica; 0: no limit. */
  RATE_LIMIT_FAILED_KEYS: countOrNoLimit().default(120),
  /** Connections at once, those to agents included. */
  MAX_CONNECTIONS: count().default(5000),
  /**
   * Connections of one client address (of IPv6 its /64) at once; of a client behind a trusted proxy
   * its requests and WebSockets. 0: no limit.
   */
  MAX_CONNECTIONS_PER_ADDRESS: countOrNoLimit().default(1000),
  /** Requests that are worked on at once before more are refused with 503; 0: no limit. */
  MAX_REQUESTS: countOrNoLimit().default(2000),
  /**
   * How late the event loop may be before writes are refused with 503, and reads at four times
   * that; 0: no limit.
   */
  OVERLOAD_DELAY_MS: countOrNoLimit().default(500),
};
