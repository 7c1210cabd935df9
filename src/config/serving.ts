import { z } from 'zod';
import { addressRanges } from './address-range.ts';
import { flag, listOf, seconds } from './environment.ts';

const isOrigin = (text: string): boolean => text === '*' || (/^https?:/.test(text) && URL.canParse(text) && new URL(text).origin === text);

const whole = (fallback: number) =>
  z.coerce.number('must be a number').int('must be a whole number').min(0, 'must be at least 0').default(fallback);

/** Clients poll, and take a 429 on a read for the end of what they follow. */
const leastReads = 20;

/** Of whoever serves REST. */
export const serving = {
  /** Whether git hosts are asked for a repository before a start is accepted, and for branches. */
  GIT_CHECK: flag(true),
  /** How long they may take, in all; then the start is accepted without them. */
  GIT_CHECK_SECONDS: seconds(5).refine((value) => value <= 30, 'must be at most 30'),
  /** A folder with a file for each credential: PROVIDER is everybody's, PROVIDER.OWNER that of one owner. By default there are none. */
  GIT_CREDENTIALS_DIR: z.string().optional(),
  /** Pages of which origins may use the service from a browser; `*` allows all, none by default. */
  CORS_ORIGINS: listOf(isOrigin, 'must be * or an origin like https://agents.example.com, without a path'),
  /** Whose X-Forwarded-For is believed: addresses, ranges like 10.0.0.0/8, loopback, linklocal, uniquelocal. By default nobody's. */
  TRUSTED_PROXIES: listOf((text) => addressRanges(text) !== undefined, 'must be an address or a range like 10.0.0.0/8'),
  /** Maximum lifetime in days of an API key that is made over REST, and the lifetime of one that names no end; 0: no limit. */
  API_KEY_MAX_LIFETIME_DAYS: z.coerce.number('must be a number of days').min(0, 'must be at least 0').max(36_500).default(0),
  /** Reads a second of one API key, on one replica; 0: no limit. */
  RATE_LIMIT_READS: whole(1000).refine((rate) => rate === 0 || rate >= leastReads, `must be at least ${leastReads}, or 0 for no limit`),
  /** Writes a second of one API key, on one replica; 0: no limit. */
  RATE_LIMIT_WRITES: whole(100),
  /** Requests a minute without a valid key of one client address, on one replica; 0: no limit. */
  RATE_LIMIT_FAILED_KEYS: whole(120),
  /** Connections at once, those to agents included. */
  MAX_CONNECTIONS: whole(5000).refine((count) => count > 0, 'must be more than 0'),
  /**
   * Connections of one client address (of IPv6 its /64) at once; of a client behind a trusted proxy its requests and WebSockets. 0: no
   * limit.
   */
  MAX_CONNECTIONS_PER_ADDRESS: whole(1000),
  /** Requests that are worked on at once before more are refused with 503; 0: no limit. */
  MAX_REQUESTS: whole(2000),
  /** How late the event loop may be before writes are refused with 503, and reads at four times that; 0: no limit. */
  OVERLOAD_DELAY_MS: whole(500),
};
