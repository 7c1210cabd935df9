import type { SandboxKeys } from '../agent/keys.ts';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Clock } from '@conversation-operator/kube/clock';
import type { Logger } from '@conversation-operator/kube/logger';
import type { Metrics } from '../observability/metrics.ts';
import type { ClientTimeouts } from './http/client-timeouts.ts';
import type { CorsOrigins } from './http/cors.ts';
import type { StreamLimits } from './http/open-streams.ts';
import type { RandomBytes } from './auth/key.ts';
import type { Caches } from './lookup/cache.ts';
import type { GitDirectory } from './git/directory.ts';
import type { GitHosts } from './git/static-directory.ts';
import type { AgentReadLimits } from './limits/agent-reads.ts';
import type { LoadOptions } from './limits/load-shedder.ts';
import type { RateLimitOptions } from './limits/rate-limits.ts';
import type { ProxyLimits } from './proxy/limits.ts';
import type { Memory } from './proxy/loopback-origins.ts';

export interface GatewayOptions {
  readonly client: KubeClient;
  /** Where its conversations, sandboxes, templates and keys are. */
  readonly namespace: string;
  /** With the indexers of `gatewayIndexers`. Started, stopped and owned by the caller. */
  readonly caches: Caches;
  readonly keys: Pick<SandboxKeys, 'sessionKey' | 'clientKey' | 'knows' | 'derivedIds'>;
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  /** How clients reach the gateway, for the URLs in answers; `http://<host>:<port>` by default. */
  readonly publicUrl?: string;
  /** An origin for each sandbox, `https://{sandbox}-{port}.agents.example.com`; by default agents are behind paths of `publicUrl`. */
  readonly sandboxUrlTemplate?: string;
  /** On one machine: a loopback address for each sandbox, remembered here. */
  readonly loopbackOrigins?: Memory;
  /** Values that differ from the defaults. */
  readonly proxyLimits?: Partial<ProxyLimits>;
  /** Reads of events from agents: what differs from the defaults. */
  readonly eventReads?: Partial<AgentReadLimits>;
  /** Streams that follow a start: what differs from the defaults. */
  readonly streams?: Partial<StreamLimits>;
  /** Whether the deprecated interface under /api answers; else it says 410. */
  readonly legacyApi: boolean;
  /** Pages of which origins may use the service; by default none. */
  readonly corsOrigins?: CorsOrigins;
  /** How often each owner may ask, and each address try keys; by default without limit. */
  readonly rateLimits?: RateLimitOptions;
  /** Maximum lifetime of a key that is made over REST; by default without limit. */
  readonly maxKeyLifetimeMs?: number;
  /** From where on requests are refused with 503; by default nowhere. */
  readonly load?: LoadOptions;
  /** Connections at once, of all kinds; by default without limit. One owner may have a quarter of them. */
  readonly maxConnections?: number;
  /** The same of each client address (of IPv6 its /64); by default without limit. */
  readonly maxConnectionsPerAddress?: number;
  /** How long clients are waited for: what differs from the defaults. */
  readonly timeouts?: Partial<ClientTimeouts>;
  /** Addresses and ranges of the proxies whose X-Forwarded-For is believed; by default none. */
  readonly trustedProxies?: readonly string[];
  /** Provider → base URL, the default one first; by default none. */
  readonly gitHosts?: GitHosts;
  /** Template of sandboxes where a request names none; `default` by default. */
  readonly defaultTemplateName?: string;
  /** Knows repositories and branches; by default whatever is typed is taken to exist. Closed by the caller. */
  readonly gitDirectory?: GitDirectory;
  /** Between /ready saying no and the end of listening, so that a load balancer notices; 0 by default. */
  readonly drainMs?: number;
  /** How long requests under way may take once it closes; 5 s by default. */
  readonly graceMs?: number;
  readonly clock: Clock;
  readonly random?: RandomBytes;
  readonly logger: Logger;
  /** Where writes are recorded; the logger by default. */
  readonly audit?: Logger;
  readonly metrics: Metrics;
  readonly version: string;
}
