import type { Audit } from '../observability/audit.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { ClientTimeouts } from '@conversation-operator/http/server/http-server';
import type { CorsOrigins } from '@conversation-operator/http/server/cors';
import type { ForwardingLimits } from '@conversation-operator/http/proxy/tunnel';
import type { RateLimitOptions } from '@conversation-operator/http/limits/rate-limits';
import type { SandboxKeys } from '../agent/keys.ts';
import type { HistoryReader } from '../archive/history.ts';
import type { MeasuredRuntime } from '../observability/metrics.ts';
import type { RandomBytes } from './auth/key.ts';
import type { Caches, ServiceCaches } from './lookup/cache.ts';
import type { GitDirectory } from './git/directory.ts';
import type { GitHosts } from './git/hosts.ts';
import type { PoolSizes } from './limits/pools.ts';
import type { PullRequests } from './pull-requests/pull-requests.ts';
import type { Memory } from './proxy/loopback-origins.ts';
import type { IssuerSettings } from './sign-in/identity.ts';
import type { ServiceAccountsOptions } from './sign-in/service-accounts.ts';
import type { Outward } from '@conversation-operator/outward/outward';

export interface GatewayOptions extends Pick<MeasuredRuntime, 'clock' | 'logger' | 'metrics'> {
  readonly client: KubeClient;
  readonly namespace: string;
  /** Caches with the indexers of `gatewayIndexers`. The caller starts and stops them. */
  readonly caches: Caches;
  /** Further caches, which the caller also starts and stops. */
  readonly serviceCaches: ServiceCaches;
  readonly keys: Pick<
    SandboxKeys,
    | 'sessionKey'
    | 'clientKey'
    | 'knows'
    | 'derivedIds'
    | 'sessionSealKeys'
    | 'sealKeys'
    | 'currentKeyId'
    | 'onReplaced'
    | 'startSecretsMacs'
  >;
  readonly host: string;
  /** Port to listen on; 0 means any free port. */
  readonly port: number;
  /**
   * Base of the URLs in responses; `http://<host>:<port>` by default. If `host` means all
   * addresses, the default has 127.0.0.1 instead, the address of a forwarded port.
   */
  readonly publicUrl?: string;
  /**
   * Template of an origin for each sandbox, `https://{sandbox}-{port}.agents.example.com`; by
   * default agents have paths below `publicUrl`.
   */
  readonly sandboxUrlTemplate?: string;
  /** Storage for the loopback addresses of sandboxes; absent if they have no loopback addresses. */
  readonly loopbackOrigins?: Memory;
  /**
   * Limits of the proxy that replace the defaults. `perSandbox` and `total` are the maximum
   * concurrent requests and WebSockets to one sandbox, and to all sandboxes.
   */
  readonly proxyLimits?: Partial<ForwardingLimits & { perSandbox: number; total: number }>;
  /** Sizes of pools that replace those in `limits/pools.ts`, for tests. */
  readonly pools?: PoolSizes;
  /** Maximum milliseconds until the first byte of an agent's events; 10,000 by default. */
  readonly eventsFirstByteMs?: number;
  /** Reads archives. Without it, a conversation has events only while its sandbox runs. */
  readonly history?: HistoryReader;
  /** Whether the deprecated interface under /api responds; otherwise its status is 410. */
  readonly legacyApi: boolean;
  /** Origins whose pages may use the service; none by default. */
  readonly corsOrigins?: CorsOrigins;
  /** Rate limits for each owner, and for the invalid keys of each address. Default: no limit. */
  readonly rateLimits?: RateLimitOptions;
  /** Identity providers at which people sign in; by default none. */
  readonly signIn?: {
    readonly issuers: readonly IssuerSettings[];
    readonly outward: Outward;
    /** Whether the keys that a person has made need a confirmed session of that person. */
    readonly requireActivePerson: boolean;
    /** Service accounts of the cluster that use the service; absent: none. */
    readonly serviceAccounts?:
      Pick<ServiceAccountsOptions, 'settings' | 'readKeys' | 'review'> | undefined;
  };
  /** Maximum lifetime of a key that is created over REST; by default without limit. */
  readonly maxKeyLifetimeMs?: number;
  /**
   * Maximum concurrent requests, and maximum delay of the event loop, above which requests get 503.
   * A limit that is absent or 0 does not apply.
   */
  readonly load?: { readonly maxUnderWay?: number; readonly maxDelayMs?: number };
  /**
   * Maximum concurrent connections of all kinds; by default without limit. At the maximum, an idle
   * connection is closed for a new one. One owner may have a quarter of them.
   */
  readonly maxConnections?: number;
  /** Maximum concurrent connections of a client address (IPv6: its /64); default: no limit. */
  readonly maxConnectionsPerAddress?: number;
  /** Timeouts for clients that replace the defaults. */
  readonly timeouts?: Partial<ClientTimeouts>;
  /** Addresses and ranges of the proxies whose X-Forwarded-For is trusted; by default none. */
  readonly trustedProxies?: readonly string[];
  /** Base URLs by provider, the default provider first; none by default. */
  readonly gitHosts?: GitHosts;
  /** SandboxTemplate of a start whose request names none; `default` by default. */
  readonly defaultTemplateName?: string;
  /** Reads repositories; by default every valid name counts as existing. The caller closes it. */
  readonly gitDirectory?: GitDirectory;
  /** Opens pull requests; without it the gateway rejects them. */
  readonly pullRequests?: Pick<PullRequests, 'open'>;
  /** URL of the installation's metrics, to which the page /operate has a link. */
  readonly metricsUrl?: string;
  /** Folder of the built pages, `dist/web`; without it, their URLs report that they are missing. */
  readonly webDirectory?: string;
  /**
   * Folder of the official web UI, `dist/ui`; without it the chat of a conversation is the
   * project's own page. The web UI needs a public URL without a path.
   */
  readonly uiDirectory?: string;
  /** Delay between the failure of /ready and the end of listening; default 0. */
  readonly drainMs?: number;
  /** Maximum time for requests in progress after `close`; 5 s by default. */
  readonly graceMs?: number;
  /** Delay before secrets are encrypted under a new master key; 60 s by default. */
  readonly resealDelayMs?: number;
  readonly random?: RandomBytes;
  readonly audit: Audit;
  readonly version: string;
}
