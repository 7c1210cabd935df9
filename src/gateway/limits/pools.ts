import type { Clock } from '@conversation-operator/base/clock';
import { Shares, type Bound } from '@conversation-operator/base/shares';
import { ProblemError } from '../errors/problem-error.ts';
import type { ProblemCode } from '../errors/catalogue.ts';

export interface PoolSize {
  /** Maximum units in use at once, for example requests or bytes. */
  readonly total: number;
  /** Maximum units of one owner; a value below 1 is a fraction of the total. */
  readonly perOwner: number;
  /** Maximum units of one sandbox, or of one API key; absent: no limit. */
  readonly perSandbox?: number;
  /** Maximum time and maximum number of requests in the queue. Absent: requests never wait. */
  readonly queue?: { readonly maxMs: number; readonly total: number; readonly perOwner: number };
}

interface Pool extends PoolSize {
  /** Name of the units in plural and lower case, for error messages. */
  readonly what: string;
  readonly codes?: Partial<Codes>;
  readonly retryAfterSeconds?: number;
  /** Whether a rejection closes the connection. */
  readonly endsConnection?: boolean;
}

type Code = Extract<
  ProblemCode,
  'share-exceeded' | 'agent-busy' | 'overloaded' | 'too-many-connections'
>;
type Codes = Readonly<Record<Bound, Code>>;

const quarter = 1 / 4;
const queue = (maxMs: number, total: number, perOwner: number): Required<PoolSize>['queue'] => ({
  maxMs,
  total,
  perOwner,
});
const mebibyte = 1_048_576;
const connections = { total: 'too-many-connections', sandbox: 'too-many-connections' } as const;

/**
 * Every semaphore of one gateway. An owner with slow requests only uses up its own `perOwner`. The
 * Helm values `gateway.limits` set the totals that are Infinity here.
 */
const pools = {
  // Limits on clients
  connections: {
    what: 'connections',
    total: Infinity,
    perOwner: quarter,
    endsConnection: true,
    codes: { sandbox: 'too-many-connections' },
  },
  requests: { what: 'requests', total: Infinity, perOwner: quarter },
  /** `createLimits` sets the total to three quarters of the total of `requests`. */
  writes: { what: 'writes', total: Infinity, perOwner: quarter },
  /** Bytes of bodies. Until a body is stored, it takes about eight times its size in memory. */
  bodyBytes: {
    what: 'large requests',
    total: 32 * mebibyte,
    perOwner: quarter,
    queue: queue(10_000, 1024, 256),
  },
  startStreams: { what: 'streams', total: 2000, perOwner: 250 },
  /** In this pool, `perSandbox` is the maximum of one API key. */
  liveStreams: {
    what: 'live streams',
    total: 2000,
    perOwner: 250,
    perSandbox: 100,
    codes: { sandbox: 'share-exceeded' },
  },
  /** Each snapshot has a part in memory. A stream may wait for its snapshot without a timeout. */
  snapshots: { what: 'snapshots', total: 32, perOwner: 4, queue: queue(Infinity, 2000, 250) },
  /** Long lists that are sent task by task; each has a few tasks of up to 1.5 MiB in memory. */
  taskLists: {
    what: 'long lists of start tasks',
    total: 12,
    perOwner: 3,
    retryAfterSeconds: 2,
    queue: queue(20_000, 256, 32),
  },
  // The total is less than the number of connections, so some remain for the gateway's own calls.
  apiCalls: {
    what: 'calls to the API server',
    total: 12,
    perOwner: 6,
    queue: queue(10_000, 4096, 1024),
  },
  startTexts: { what: 'start requests', total: 8, perOwner: 4, queue: queue(10_000, 1024, 256) },
  // Limits on requests to agents
  agentRequests: {
    what: 'requests and WebSockets to agents',
    total: 10_000,
    perOwner: quarter,
    perSandbox: 256,
    codes: connections,
  },
  /** Requests without a key have no owner, so they have separate permits. */
  keylessAgentRequests: {
    what: 'requests and WebSockets to agents',
    total: 1250,
    perOwner: quarter,
    perSandbox: 64,
    codes: connections,
  },
  eventReads: {
    what: 'event reads',
    total: 64,
    perOwner: 16,
    perSandbox: 4,
    queue: queue(5_000, 512, 128),
  },
  /** Secrets that agents read at the callback server. */
  secretReads: {
    what: 'reads of secrets',
    total: 64,
    perOwner: 16,
    perSandbox: 4,
    queue: queue(5_000, 512, 128),
  },
  /**
   * Reads of shared conversations. They also take permits of the pools of events and archives, and
   * these limits leave the larger part of those to the owner. `perSandbox` limits a conversation.
   */
  sharedReads: {
    what: 'reads of shared conversations',
    total: 16,
    perOwner: 4,
    perSandbox: 2,
    codes: { owner: 'overloaded', sandbox: 'overloaded' },
    queue: queue(2_000, 256, 32),
  },
  // Limits on reads of archives
  historyReads: {
    what: 'reads of archived events',
    total: 64,
    perOwner: 16,
    queue: queue(5_000, 512, 128),
  },
  /** Searches use much CPU time. One per owner is enough, as clients request page after page. */
  textSearches: {
    what: 'searches',
    total: 2,
    perOwner: 1,
    retryAfterSeconds: 2,
    queue: queue(5_000, 256, 2),
  },
  /** Each download has a part of a history in memory, and a record of each of its events. */
  downloads: { what: 'downloads', total: 8, perOwner: 2, retryAfterSeconds: 10 },
  // Limits on calls of models
  /** Calls that agents make at the callback server. An answer takes from seconds to many minutes. */
  modelCalls: {
    what: 'calls of models',
    total: 2000,
    perOwner: quarter,
    perSandbox: 64,
    queue: queue(60_000, 2000, 500),
  },
  /**
   * Calls of models that begin in one turn of the event loop; a large one counts as several. The
   * work of the relay for all ready calls of one owner must not come before that of another one.
   */
  modelTurns: { what: 'calls of models', total: 32, perOwner: 4, queue: queue(60_000, 2000, 500) },
  /** Bytes of calls of models, each of which is in memory until the provider has answered. */
  modelBodies: {
    what: 'large calls of models',
    total: 128 * mebibyte,
    perOwner: quarter,
    queue: queue(60_000, 2000, 500),
  },
  /**
   * Bytes of those that wait for a rest or a limit of their key, a small call as many as half of
   * `modelCalls` allow. The other half is for calls that can be made.
   */
  modelWaits: { what: 'calls of models that wait', total: 64 * mebibyte, perOwner: 1 / 2 },
  // Limits on requests to git hosts
  clones: {
    what: 'clones',
    total: 128,
    perOwner: 32,
    perSandbox: 4,
    retryAfterSeconds: 10,
    codes: connections,
    queue: queue(600_000, 1000, 200),
  },
  /** Each push has the beginning of a pack in memory, up to 4 MiB. */
  pushes: {
    what: 'pushes',
    total: 16,
    perOwner: 8,
    perSandbox: 2,
    retryAfterSeconds: 10,
    codes: connections,
    queue: queue(600_000, 500, 100),
  },
  /** Each git host has a semaphore of this size. */
  hostReads: { what: 'reads of git hosts', total: 8, perOwner: 4, queue: queue(10_000, 512, 128) },
  /** Requests for pull requests; each makes a few calls to the API of a git host. */
  hostCalls: { what: 'calls to git hosts', total: 16, perOwner: 4, queue: queue(10_000, 512, 64) },
  /** Reads of the states of pull requests, which no client waits for. */
  hostStates: {
    what: 'reads of pull requests',
    total: 4,
    perOwner: 1,
    queue: queue(25_000, 1024, 128),
  },
} as const satisfies Readonly<Record<string, Pool>>;

export type PoolName = keyof typeof pools;
export type PoolSizes = Readonly<Partial<Record<PoolName, Partial<PoolSize>>>>;

const defaultCodes: Codes = { owner: 'share-exceeded', sandbox: 'agent-busy', total: 'overloaded' };
const texts: Readonly<Record<Code, (what: string) => string>> = {
  'share-exceeded': (what) =>
    `Too many ${what} of yours are under way. Try again when some of them are over.`,
  'agent-busy': (what) => `Too many ${what} wait for this agent. Try again.`,
  overloaded: (what) => `The service has too many ${what} under way at the moment. Try again.`,
  'too-many-connections': (what) => `Too many ${what} are under way. Close some, or try again.`,
};

export const sizeOf = <Name extends PoolName>(name: Name): (typeof pools)[Name] => pools[name];

/** @param changes Sizes that replace those in `pools`. */
export function newPool(name: PoolName, clock: Clock, changes: Partial<PoolSize> = {}): Shares {
  const pool: Pool = { ...pools[name], ...changes };
  const { what, codes, retryAfterSeconds = 1, endsConnection = false } = pool;
  const { total, perOwner, perSandbox = Infinity, queue: waiting } = pool;
  return new Shares({
    total,
    perSandbox,
    perOwner: perOwner < 1 ? Math.ceil(total * perOwner) : perOwner,
    ...(waiting === undefined ? {} : { waiting: { ...waiting, clock } }),
    refuse: (bound) => {
      const code = codes?.[bound] ?? defaultCodes[bound];
      const headers = endsConnection ? { connection: 'close' } : {};
      return new ProblemError(code, texts[code](what), { headers, retryAfterSeconds });
    },
  });
}
