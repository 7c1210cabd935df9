import { found } from '@conversation-operator/kube/errors';
import type { PullRequests } from '../../../src/gateway/pull-requests/pull-requests.ts';
import { checkedAudit } from '../checked-audit.ts';
import { once } from 'node:events';
import {
  Agent,
  request as httpRequest,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from 'node:http';
import { SandboxKeys } from '../../../src/agent/keys.ts';
import { issueKey } from '../../../src/gateway/auth/key.ts';
import { createGateway, type Gateway, type GatewayOptions } from '../../../src/gateway/gateway.ts';
import { gatewayIndexers, serviceCaches } from '../../../src/gateway/lookup/cache.ts';
import { systemClock } from '@conversation-operator/base/clock';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { Reflector } from '@conversation-operator/kube/reflector';
import type { Indexers } from '@conversation-operator/kube/store';
import { Transport } from '@conversation-operator/kube/transport';
import type { Logger } from '@conversation-operator/base/logger';
import { createMetrics } from '../../../src/observability/metrics.ts';
import { apiKeys, type ApiKey } from '../../../src/resources/api-key.ts';
import { cachedConversation } from '../../../src/resources/cached-conversation.ts';
import {
  conversations,
  type Conversation,
  type ConversationSpec,
} from '../../../src/resources/conversation.ts';
import type { ConversationStatus } from '../../../src/resources/conversation-status.ts';
import { handovers } from '../../../src/resources/handover.ts';
import { usageRecords } from '../../../src/resources/usage-record.ts';
import { ownerSettings } from '../../../src/resources/owner-settings.ts';
import { shareNameOf, shares } from '../../../src/resources/share.ts';
import { conversationQuotas } from '../../../src/resources/conversation-quota.ts';
import { apiVersion } from '../../../src/resources/group.ts';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import { sandboxTemplates } from '../../../src/resources/sandbox-template.ts';
import {
  sandboxes,
  SandboxCondition,
  type Sandbox,
  type SandboxState,
} from '../../../src/resources/sandbox.ts';
import { runApiServer, type RunningApiServer } from '../api-server.ts';
import { eventually } from '../eventually.ts';
import type { Secrets } from '../leaks.ts';
import { recordingLogger } from '../recording-logger.ts';
import { openApproval } from './open-approval.ts';
import { StubAgent } from './stub-agent.ts';
import { sessionKeyFor } from '../session-key.ts';

export const owners = ['alice', 'bob'] as const;
export type Owner = (typeof owners)[number];

export interface Sent {
  readonly method: string;
  /** The request target, as it is. */
  readonly target: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: Buffer | undefined;
}
export interface Got {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export const namespace = 'default';
const time = '2026-01-01T00:00:00Z';
const is = (type: string) => ({
  type,
  status: 'True' as const,
  reason: type,
  message: '',
  lastTransitionTime: time,
});
const hello = {
  role: 'user' as const,
  content: [{ type: 'text' as const, text: 'Hello' }],
  run: true,
};

/** Texts that would be a leak in any answer or log. */
const canaries = {
  podIP: '127.0.0.3',
  masterKey: Buffer.from('a master key that no user may see'),
  secretValue: 'the value of a secret, which is unmistakable',
} as const;

/** A git host that accepts each pull request. */
const openPullRequest: PullRequests['open'] = ({ conversation }, { title, head = 'agent/fix' }) =>
  Promise.resolve({
    isNew: true,
    pullRequest: {
      number: 1,
      url: 'https://git.example/acme/shop/pull/1',
      provider: 'github',
      repository: 'acme/shop',
      title,
      head,
      base: 'main',
      draft: false,
      state: 'Open',
      stateTime: conversation.metadata.creationTimestamp,
    },
  });

/**
 * A gateway on a real API server in memory, with resources of two owners in it, and an agent that
 * some of their sandboxes lead to.
 */
export class TwoOwners {
  readonly server: RunningApiServer;
  readonly client: HttpKubeClient;
  readonly agent: StubAgent;
  readonly gateway: Gateway;
  readonly sandboxKeys = new SandboxKeys([canaries.masterKey]);
  readonly metrics = createMetrics();
  readonly log = recordingLogger();
  readonly keys: Record<Owner, string> = { alice: '', bob: '' };
  readonly caches: ReturnType<typeof cachesOf>;
  readonly #serviceCaches: ReturnType<typeof serviceCaches>;
  readonly #issued: ApiKey[] = [];
  readonly #transport: Transport;
  readonly #connections = new Agent({ keepAlive: true });
  port = 0;

  private constructor(
    server: RunningApiServer,
    agent: StubAgent,
    overrides: Partial<GatewayOptions>,
  ) {
    this.server = server;
    this.agent = agent;
    const { logger } = this.log;
    this.#transport = new Transport({
      connection: { server: server.server.url, token: server.token },
      clock: systemClock,
      random: Math.random,
      logger,
    });
    this.client = new HttpKubeClient({ transport: this.#transport });
    this.caches = cachesOf(this.client, logger);
    this.#serviceCaches = serviceCaches({
      client: this.client,
      namespace,
      clock: systemClock,
      random: Math.random,
      logger,
    });
    this.gateway = createGateway({
      client: this.client,
      namespace,
      caches: this.caches,
      serviceCaches: this.#serviceCaches,
      keys: this.sandboxKeys,
      host: '127.0.0.1',
      port: 0,
      publicUrl: 'https://agents.example',
      legacyApi: true,
      corsOrigins: ['https://ui.example'],
      // Never reached: only for their headers.
      rateLimits: { readsPerSecond: 1e6, writesPerSecond: 1e6 },
      gitHosts: { github: 'https://git.example' },
      pullRequests: { open: openPullRequest },
      clock: systemClock,
      logger,
      audit: checkedAudit(logger),
      metrics: this.metrics,
      version: '0.0.0-test',
      graceMs: 500,
      ...overrides,
    });
  }

  static async start(overrides: Partial<GatewayOptions> = {}): Promise<TwoOwners> {
    const agent = await StubAgent.start(canaries.podIP);
    const world = new TwoOwners(await runApiServer(), agent, overrides);
    await world.client.create(sandboxTemplates, {
      apiVersion,
      kind: 'SandboxTemplate',
      metadata: { namespace, name: 'default' },
      spec: {
        podTemplate: { spec: { containers: [{ name: 'agent', image: 'agent:1' }] } },
        agent: { port: 8000, workingDir: '/workspace' },
        storage: { size: '1Gi', retain: false },
        startDeadline: '5m',
      },
    });
    for (const owner of owners) {
      const { key, resource } = await issueKey({
        client: world.client,
        namespace,
        owner,
        description: `${owner}'s key`,
      });
      world.keys[owner] = key;
      world.#issued.push(resource);
    }
    for (const cache of world.#reflectors) cache.start();
    await Promise.all(world.#reflectors.map((cache) => cache.synced()));
    ({ port: world.port } = await world.gateway.listen());
    return world;
  }

  async stop(): Promise<void> {
    this.#connections.destroy();
    await this.gateway.close();
    await Promise.all(this.#reflectors.map((cache) => cache.stop()));
    await this.#transport.close();
    await this.agent.stop();
    await this.server.close();
  }

  get #reflectors() {
    return [...Object.values(this.caches), ...Object.values(this.#serviceCaches)];
  }

  /** The answer; undefined when nothing came back within `timeoutMs`. */
  async send(
    { method, target, headers, body }: Sent,
    timeoutMs = 60_000,
  ): Promise<Got | undefined> {
    const signal = AbortSignal.timeout(timeoutMs);
    try {
      const request = httpRequest({
        host: '127.0.0.1',
        port: this.port,
        method,
        path: target,
        agent: this.#connections,
        headers,
        signal,
      });
      // A server may answer and close before it has read everything.
      request.on('error', () => undefined);
      request.end(body);
      const [response] = (await once(request, 'response', { signal })) as [
        AsyncIterable<Buffer> & Got & { readonly statusCode: number },
      ];
      const chunks: Buffer[] = [];
      const isStream = response.headers['content-type']?.startsWith('text/event-stream') === true;
      for await (const chunk of response) {
        chunks.push(chunk);
        // A stream of events has no end.
        if (isStream && Buffer.concat(chunks).includes('"last":true}')) break;
      }
      return {
        status: response.statusCode,
        headers: response.headers,
        body: Buffer.concat(chunks),
      };
    } catch (error) {
      if (signal.aborted) return undefined;
      throw error;
    }
  }

  /** A sandbox's state as the operator would store it. */
  get running(): SandboxState {
    return {
      podName: 'pod',
      podUID: 'pod-1',
      podIP: canaries.podIP,
      agentPort: this.agent.port,
      conditions: [is(SandboxCondition.admitted), is(SandboxCondition.ready)],
    };
  }

  async addSandbox(
    owner: Owner,
    name: string,
    status: SandboxState = this.running,
    replicas: 0 | 1 = 1,
  ): Promise<string> {
    const { metadata } = await this.client.create(sandboxes, {
      apiVersion,
      kind: 'Sandbox',
      metadata: { namespace, name },
      spec: { owner, templateName: 'default', replicas },
    });
    await this.seen(
      this.caches.sandboxes,
      await this.client.mergePatch(
        sandboxes,
        namespace,
        name,
        { status },
        { subresource: 'status' },
      ),
    );
    return metadata.uid;
  }

  async addConversation(
    owner: Owner,
    name: string,
    status: ConversationStatus,
    spec: Partial<ConversationSpec> = {},
  ): Promise<void> {
    await this.client.create(conversations, {
      apiVersion,
      kind: 'Conversation',
      metadata: { namespace, name },
      spec: {
        owner,
        templateName: 'default',
        initialMessage: hello,
        title: `${owner}'s work`,
        ...spec,
      },
    });
    const stored = await this.client.mergePatch(
      conversations,
      namespace,
      name,
      { status },
      { subresource: 'status' },
    );
    await this.seen(this.caches.conversations, stored);
  }

  /** A conversation whose start is over, with the sandbox that it is in. */
  async addPair(owner: Owner, id: string, status?: SandboxState, replicas?: 0 | 1): Promise<void> {
    const sandboxUID = await this.addSandbox(owner, `sbx-${id}`, status, replicas);
    await this.addConversation(owner, id, {
      ...ready,
      sandboxName: `sbx-${id}`,
      sandboxUID,
      workingDir: '/workspace/project',
      approval: openApproval,
    });
  }

  async addKey(
    owner: Owner,
    description: string,
  ): Promise<{ readonly name: string; readonly key: string }> {
    const { key, resource } = await issueKey({
      client: this.client,
      namespace,
      owner,
      description,
    });
    await this.seen(this.caches.apiKeys, resource);
    return { name: resource.metadata.name, key };
  }

  /** Secrets that no log and no answer may contain. */
  get secrets(): Secrets {
    return {
      "alice's key": this.keys.alice,
      "bob's key": this.keys.bob,
      'master key': canaries.masterKey,
    };
  }

  /** Values of owners' secrets, which only the answer to a read of one value may contain. */
  get secretValues(): Secrets {
    return { 'value of a secret': canaries.secretValue };
  }

  /** Stores a secret of an owner, unless there is one of this name. */
  async addSecret(owner: Owner, name: string): Promise<void> {
    const body = Buffer.from(JSON.stringify({ name, value: canaries.secretValue }));
    await this.send({
      method: 'POST',
      target: '/api/v1/secrets',
      body,
      headers: {
        authorization: `Bearer ${this.keys[owner]}`,
        'content-type': 'application/json',
        'content-length': String(body.length),
      },
    });
  }

  /** Further texts that no answer may contain: internal addresses and names. */
  get internals(): Secrets {
    return {
      'pod IP': canaries.podIP,
      'API server': this.server.server.url,
      'API token': this.server.token,
      folder: this.server.folder,
    };
  }

  /** The keys of a sandbox. An answer may contain only session keys, in their own field. */
  derivedKeys(sandbox: Sandbox): readonly string[] {
    const { sandboxKeys: keys } = this;
    const { uid } = sandbox.metadata;
    return [
      ...owners.map((owner) => this.sessionKeyOf(sandbox, owner)),
      keys.sessionKey(uid),
      keys.secretKey(uid),
      keys.bootstrapKey(uid),
    ];
  }

  /** The session key of a sandbox, never rotated, that an owner's key shows. */
  sessionKeyOf(sandbox: Pick<KubeObject, 'metadata'>, owner: Owner): string {
    return sessionKeyFor(sandbox, {
      apiKey: this.keys[owner],
      apiKeys: this.#issued,
      keys: this.sandboxKeys,
    });
  }

  /** Stores a share of a conversation, unless there is one with this digest. */
  async addShare(owner: Owner, name: string, sha256: string): Promise<void> {
    const known = await found(this.client.get(shares, namespace, shareNameOf(sha256)));
    if (known?.spec.conversation.name === name) return;
    if (known !== undefined) await this.client.delete(shares, namespace, known.metadata.name);
    const { uid } = (await this.client.get(conversations, namespace, name)).metadata;
    await this.client.create(shares, {
      apiVersion,
      kind: shares.kind,
      metadata: { namespace, name: shareNameOf(sha256) },
      spec: {
        owner,
        conversation: { name, uid },
        subject: { kind: 'Link' },
        sha256,
        createdBy: 'a-key',
      },
    });
  }

  /** All stored objects, of every kind. */
  async cluster(): Promise<readonly KubeObject[]> {
    const kinds = [
      conversations,
      sandboxes,
      sandboxTemplates,
      conversationQuotas,
      apiKeys,
      ownerSettings,
      shares,
      handovers,
      usageRecords,
    ] as readonly ResourceDefinition<KubeObject>[];
    const lists = await Promise.all(kinds.map((kind) => this.client.list(kind)));
    // The gateway stores from time to time when a key was last used, and the callers compare what
    // requests change.
    return lists.flatMap(({ items }) =>
      items.map((object) => {
        if (object.kind !== apiKeys.kind) return object;
        const { status: _used, ...key } = object as ApiKey;
        return { ...key, metadata: { ...key.metadata, resourceVersion: '' } };
      }),
    );
  }

  /** Resolves once the gateway knows this version or a later one. */
  async seen<S extends KubeObject, T extends KubeObject>(
    cache: Reflector<S, T>,
    { metadata }: KubeObject,
  ): Promise<void> {
    const isThere = () =>
      Number(cache.store.get(namespace, metadata.name)?.metadata.resourceVersion ?? 0) >=
      Number(metadata.resourceVersion);
    if (!isThere()) await eventually(`${metadata.name} in the cache`, isThere);
  }
}

export const ready: ConversationStatus = {
  start: { status: 'READY', transitions: [{ status: 'READY', time }] },
};
export const failed: ConversationStatus = {
  start: {
    status: 'ERROR',
    transitions: [{ status: 'ERROR', time }],
    errorCode: 'AgentRefused',
    error: 'The agent refused it.',
  },
};

function cachesOf(client: HttpKubeClient, logger: Logger) {
  const cache = <T extends KubeObject>(
    resource: ResourceDefinition<T>,
    indexers: Indexers<T> = {},
  ) =>
    new Reflector({
      client,
      resource,
      namespace,
      indexers,
      clock: systemClock,
      random: Math.random,
      logger,
    });
  return {
    conversations: new Reflector({
      client,
      namespace,
      clock: systemClock,
      random: Math.random,
      logger: logger,
      resource: conversations,
      indexers: gatewayIndexers.conversations,
      transform: (object: Conversation) => cachedConversation(object),
    }),
    sandboxes: cache(sandboxes, gatewayIndexers.sandboxes),
    templates: cache(sandboxTemplates),
    quotas: cache(conversationQuotas),
    apiKeys: cache(apiKeys, gatewayIndexers.apiKeys),
    ownerSettings: cache(ownerSettings),
    handovers: cache(handovers, gatewayIndexers.handovers),
    usageRecords: cache(usageRecords),
  };
}
