import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { SandboxKeys } from '../../agent/keys.ts';
import type { Clock } from '@conversation-operator/kube/clock';
import type { Logger } from '@conversation-operator/kube/logger';
import type { Metrics } from '../../observability/metrics.ts';
import { viewOfSandbox, type Sandbox } from '../../resources/sandbox.ts';
import type { ClientAddress } from '../limits/client-address.ts';
import type { OwnerConnections } from '../limits/owner-connections.ts';
import type { FairScheduler } from '../limits/fair-scheduler.ts';
import type { SlowReaderGuard } from '../limits/slow-reader-guard.ts';
import type { Cache } from '../lookup/cache.ts';
import type { ObjectFeed } from '../lookup/object-feed.ts';
import type { KeyRing } from '../auth/key-ring.ts';
import { exposedBy, type Exposure } from '../presenters/exposure.ts';
import type { ProxyAddress } from './address.ts';
import { Addressing } from './addressing.ts';
import { HostTemplate } from './host-template.ts';
import { keysOfRequest } from './request-keys.ts';
import { defaultLimits, type ProxyLimits } from './limits.ts';
import { LoopbackOrigins, type Memory } from './loopback-origins.ts';
import { Proxy } from './proxy.ts';
import { SessionKeys } from './session-keys.ts';

export interface AgentAccessOptions {
  readonly sandboxes: Cache<Sandbox>;
  readonly feed: ObjectFeed<Sandbox>;
  readonly namespace: string;
  readonly keys: Pick<SandboxKeys, 'sessionKey' | 'clientKey' | 'knows'>;
  readonly ring: KeyRing;
  /** Without a slash at the end. */
  readonly publicUrl: () => string;
  /** The one that the service listens on. */
  readonly port: () => number;
  /** Gets the connections to sandboxes' own addresses. */
  readonly accept: (socket: Socket) => void;
  readonly urlTemplate?: string | undefined;
  readonly loopbackOrigins?: Memory | undefined;
  readonly limits?: Partial<ProxyLimits> | undefined;
  readonly connections: OwnerConnections;
  readonly waiting: SlowReaderGuard;
  readonly scheduler: FairScheduler;
  readonly clientAddress: ClientAddress;
  readonly failedKey: (address: string) => void;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** Everything about reaching agents through the gateway: their URLs, who may use them, and the proxy itself. */
export class AgentAccess {
  readonly exposure: Exposure;
  readonly #options: AgentAccessOptions;
  readonly #keys: SessionKeys;
  readonly #origins: LoopbackOrigins | undefined;
  readonly #addressing: Addressing;
  readonly #proxy: Proxy;

  /** Throws for a URL template of another form. */
  constructor(options: AgentAccessOptions) {
    const { sandboxes, namespace, publicUrl, port, accept, urlTemplate, loopbackOrigins, keys, ring, logger } = options;
    this.#options = options;
    this.#keys = new SessionKeys({ keys, ring, logger });
    this.#origins = loopbackOrigins && new LoopbackOrigins({ sandboxes, namespace, port, accept, memory: loopbackOrigins, logger });
    const template = urlTemplate === undefined ? undefined : new HostTemplate(urlTemplate);
    this.#addressing = new Addressing({ publicUrl, template, addresses: this.#origins });
    this.exposure = exposedBy({ agentUrlOf: (sandbox) => this.#addressing.urlOf(sandbox, 'AGENT_SERVER'), keys: this.#keys });
    const limits = { ...defaultLimits, ...options.limits };
    this.#proxy = new Proxy({ ...options, keys: this.#keys, addressing: this.#addressing, limits });
  }

  /** Which sandbox a request is for; undefined where it is for the service itself. */
  find = (request: IncomingMessage): ProxyAddress | undefined => this.#addressing.find(request);

  handle(request: IncomingMessage, response: ServerResponse, address: ProxyAddress): void {
    void this.#proxy.handle(request, response, address);
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const address = this.find(request);
    if (address === undefined) socket.destroy();
    else void this.#proxy.upgrade(request, socket, head, address);
  }

  /** Whose sandbox this is, where the headers show its session key and it is RUNNING. */
  opensSession = (name: string, headers: IncomingHttpHeaders): string | undefined => {
    const { sandboxes, namespace } = this.#options;
    const [key] = keysOfRequest({ headers });
    const sandbox = sandboxes.store.get(namespace, name);
    if (key === undefined || sandbox === undefined || viewOfSandbox(sandbox).phase !== 'RUNNING') return undefined;
    return this.#keys.opening(sandbox, key) === undefined ? undefined : sandbox.spec.owner;
  };

  /** Once the service listens. */
  async open(): Promise<void> {
    await this.#origins?.open();
  }

  /** Before the service stops listening: WebSockets are told. */
  drain(): void {
    this.#origins?.close();
    this.#proxy.drain();
  }

  /** Ends what is left. */
  close(): Promise<void> {
    return this.#proxy.close();
  }
}
