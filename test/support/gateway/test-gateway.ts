import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http';
import type { z } from 'zod';
import { SandboxKeys } from '../../../src/agent/keys.ts';
import { issueKey } from '../../../src/gateway/auth/key.ts';
import { problemSchema } from '../../../src/gateway/errors/problem-response.ts';
import { createGateway, type Gateway, type GatewayOptions } from '../../../src/gateway/gateway.ts';
import { gatewayIndexers, serviceCaches } from '../../../src/gateway/lookup/cache.ts';
import { systemClock, type Clock } from '@conversation-operator/base/clock';
import { Reflector } from '@conversation-operator/kube/reflector';
import type { Indexers } from '@conversation-operator/kube/store';
import { silentLogger, type LogFields, type Logger } from '@conversation-operator/base/logger';
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
import { conversationQuotas } from '../../../src/resources/conversation-quota.ts';
import { apiVersion } from '../../../src/resources/group.ts';
import {
  ownerReferenceTo,
  type KubeObject,
  type ResourceDefinition,
} from '@conversation-operator/kube/object';
import { sandboxTemplates } from '../../../src/resources/sandbox-template.ts';
import { sandboxes, type Sandbox, type SandboxState } from '../../../src/resources/sandbox.ts';
import { checkedAudit } from '../checked-audit.ts';
import { FakeKubeClient } from '../fake-kube-client.ts';
import { sessionKeyFor } from '../session-key.ts';

export const namespace = 'agents';

export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
  /** Parsed, and checked against what the endpoint's schema says for this status. */
  readonly json: unknown;
}

export interface RequestOptions {
  /** Default: the key of alice. Null: no key. */
  readonly key?: string | null;
  readonly body?: unknown;
  readonly rawBody?: string | Buffer;
  readonly headers?: OutgoingHttpHeaders;
}

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: LogFields;
}

function recordingLogger(lines: LogLine[], bound: LogFields = {}): Logger {
  const at =
    (level: string) =>
    (message: string, fields: LogFields = {}) => {
      lines.push({ level, message, fields: { ...bound, ...fields } });
    };
  return {
    error: at('error'),
    warn: at('warn'),
    info: at('info'),
    debug: at('debug'),
    enabled: () => true,
    child: (fields) => recordingLogger(lines, { ...bound, ...fields }),
  };
}

/** A gateway on a fake API server, with a template `default` and keys of alice and of bob. */
export class TestGateway {
  readonly client: FakeKubeClient;
  readonly log: LogLine[] = [];
  readonly metrics = createMetrics();
  readonly keys = new SandboxKeys([Buffer.alloc(32, 7)]);
  readonly caches: ReturnType<typeof makeCaches>;
  readonly serviceCaches: ReturnType<typeof serviceCaches>;
  readonly gateway: Gateway;
  readonly #issued: ApiKey[] = [];
  alice = '';
  bob = '';
  port = 0;

  private constructor(overrides: Partial<GatewayOptions>, client = new FakeKubeClient()) {
    this.client = client;
    this.caches = makeCaches(this.client);
    this.serviceCaches = serviceCaches({
      client: this.client,
      namespace,
      clock: systemClock,
      random: Math.random,
      logger: silentLogger,
    });
    this.gateway = createGateway({
      client: this.client,
      namespace,
      caches: this.caches,
      serviceCaches: this.serviceCaches,
      keys: this.keys,
      host: '127.0.0.1',
      port: 0,
      legacyApi: true,
      clock: systemClock,
      logger: recordingLogger(this.log),
      audit: checkedAudit(recordingLogger(this.log, { component: 'audit' })),
      metrics: this.metrics,
      version: '0.0.0-test',
      graceMs: 500,
      ...overrides,
    });
  }

  static async start(
    overrides: Partial<GatewayOptions> = {},
    options: { readonly synced?: boolean } = {},
  ): Promise<TestGateway> {
    const test = new TestGateway(overrides);
    test.alice = await test.issueKey('alice');
    test.bob = await test.issueKey('bob');
    await test.client.create(sandboxTemplates, {
      apiVersion,
      kind: 'SandboxTemplate',
      metadata: { namespace, name: 'default' },
      spec: {
        displayName: 'Default',
        podTemplate: {
          spec: {
            containers: [
              {
                name: 'agent',
                image: 'agent:1',
                env: [
                  { name: 'LEVEL', value: 'info' },
                  { name: 'TOKEN', valueFrom: { secretKeyRef: { name: 's', key: 'k' } } },
                ],
              },
            ],
          },
        },
        agent: { port: 8000, workingDir: '/workspace' },
        storage: { size: '1Gi', retain: false },
        startDeadline: '5m',
      },
    });
    if (options.synced !== false) await test.sync();
    try {
      ({ port: test.port } = await test.gateway.listen());
    } catch (error) {
      await test.stop();
      throw error;
    }
    return test;
  }

  /** Another gateway on the same API server, with the same keys. */
  async replica(overrides: Partial<GatewayOptions> = {}): Promise<TestGateway> {
    const other = new TestGateway(overrides, this.client);
    [other.alice, other.bob] = [this.alice, this.bob];
    other.#issued.push(...this.#issued);
    await other.sync();
    ({ port: other.port } = await other.gateway.listen());
    return other;
  }

  /** Stops the updates of its caches from now on, as where a watch has fallen silent. */
  async fallBehind(): Promise<void> {
    await Promise.all(this.#reflectors.map((cache) => cache.stop()));
  }

  async sync(): Promise<void> {
    for (const cache of this.#reflectors) cache.start();
    await Promise.all(this.#reflectors.map((cache) => cache.synced()));
  }

  async stop(): Promise<void> {
    await this.gateway.close();
    await Promise.all(this.#reflectors.map((cache) => cache.stop()));
  }

  get #reflectors() {
    return [...Object.values(this.caches), ...Object.values(this.serviceCaches)];
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async issueKey(owner: string, role: 'user' | 'admin' = 'user'): Promise<string> {
    const { key, resource } = await issueKey({
      client: this.client,
      namespace,
      owner,
      role,
      description: `${owner}'s key`,
    });
    this.#issued.push(resource);
    return key;
  }

  /** The session key of a sandbox that its owner is shown, or the holder of another API key. */
  sessionKeyOf(
    sandbox: Sandbox,
    {
      apiKey = sandbox.spec.owner === 'bob' ? this.bob : this.alice,
      keys = this.keys,
    }: { readonly apiKey?: string; readonly keys?: SandboxKeys } = {},
  ): string {
    return sessionKeyFor(sandbox, { apiKey, keys, apiKeys: this.#issued });
  }

  async send(method: string, path: string, options: RequestOptions = {}): Promise<Answer> {
    const response = await this.open(method, path, options);
    const chunks: Buffer[] = [];
    for await (const chunk of response) chunks.push(chunk as Buffer);
    // The gateway itself refuses a request for an object that can not exist, and names the field.
    expect(this.client.refusals.splice(0)).toEqual([]);
    const text = Buffer.concat(chunks).toString();
    const isPage = response.headers['content-type']?.startsWith('text/html') === true;
    const json: unknown = text === '' || isPage ? undefined : JSON.parse(text);
    if (json !== undefined) this.#check(method, path, response.statusCode ?? 0, json);
    return { status: response.statusCode ?? 0, headers: response.headers, text, json };
  }

  get = (path: string, options?: RequestOptions) => this.send('GET', path, options);
  post = (path: string, body?: unknown, options?: RequestOptions) =>
    this.send('POST', path, { body, ...options });

  /** The response as soon as its headers are there. */
  async open(method: string, path: string, options: RequestOptions = {}): Promise<IncomingMessage> {
    const { key = this.alice, body, rawBody, headers } = options;
    const payload = rawBody ?? (body === undefined ? undefined : JSON.stringify(body));
    const request = httpRequest({
      host: '127.0.0.1',
      port: this.port,
      method,
      path,
      agent: false,
      headers: {
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...(payload === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(payload) }),
        ...headers,
      },
    });
    // A server may answer and close before it has read everything.
    request.on('error', () => undefined);
    request.end(payload);
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    return response;
  }

  /** Merges into the status as a controller does, and waits until the cache has the change. */
  async setStatus(name: string, status: ConversationStatus): Promise<Conversation> {
    const updated = await this.client.mergePatch(
      conversations,
      namespace,
      name,
      { status },
      { subresource: 'status' },
    );
    await this.seen(this.caches.conversations, updated);
    return updated;
  }

  async addConversation(
    name: string,
    wish: { readonly spec?: Partial<ConversationSpec>; readonly status?: ConversationStatus } = {},
  ) {
    const created = await this.client.create(conversations, {
      apiVersion,
      kind: 'Conversation',
      metadata: { namespace, name },
      spec: {
        owner: 'alice',
        templateName: 'default',
        initialMessage: {
          role: 'user',
          content: [{ type: 'text', text: 'Say hello.' }],
          run: true,
        },
        ...wish.spec,
      },
    });
    await this.seen(this.caches.conversations, created);
    return wish.status === undefined ? created : this.setStatus(name, wish.status);
  }

  /** A key whose value is unknown. */
  async addKey(name: string, owner: string) {
    const sha256 = createHash('sha256').update(name).digest('hex');
    const spec = { owner, role: 'user', sha256 } as const;
    const created = await this.client.create(apiKeys, {
      apiVersion,
      kind: 'ApiKey',
      metadata: { namespace, name },
      spec,
    });
    await this.seen(this.caches.apiKeys, created);
  }

  async addSandbox(
    name: string,
    wish: {
      readonly owner?: string;
      /** The pool whose warm sandbox the sandbox is or was. */
      readonly poolName?: string;
      readonly replicas?: 0 | 1;
      readonly status?: SandboxState;
      /** The conversation that the sandbox is made for. */
      readonly madeFor?: Conversation;
    } = {},
  ) {
    const { madeFor, poolName } = wish;
    const ownerReferences =
      madeFor === undefined ? [] : [ownerReferenceTo(madeFor, { controller: true })];
    const created: Sandbox = await this.client.create(sandboxes, {
      apiVersion,
      kind: 'Sandbox',
      metadata: { namespace, name, ownerReferences },
      spec: {
        owner: wish.owner ?? 'alice',
        templateName: 'default',
        replicas: wish.replicas ?? 1,
        ...(poolName === undefined ? {} : { poolName }),
      },
    });
    const updated =
      wish.status === undefined
        ? created
        : await this.client.mergePatch(
            sandboxes,
            namespace,
            name,
            { status: wish.status },
            { subresource: 'status' },
          );
    await this.seen(this.caches.sandboxes, updated);
    return updated;
  }

  /** Resolves once the cache holds this version or a later one. */
  async seen<S extends KubeObject, T extends KubeObject>(
    cache: Reflector<S, T>,
    object: KubeObject,
  ): Promise<void> {
    const { name, resourceVersion } = object.metadata;
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const check = () => {
      const cached = cache.store.get(namespace, name);
      if (Number(cached?.metadata.resourceVersion ?? 0) >= Number(resourceVersion))
        resolve(undefined);
    };
    const remove = cache.addHandler({ added: check, updated: check });
    await promise;
    remove();
  }

  #check(method: string, path: string, status: number, json: unknown): void {
    const { pathname } = new URL(path, this.url);
    const route = this.gateway.routes
      .toSorted((left, right) => Number(left.path.includes('{')) - Number(right.path.includes('{')))
      .find(
        (candidate) =>
          candidate.method === method.toLowerCase() && matches(candidate.path, pathname),
      );
    const schema: z.ZodType = route?.responses[status] ?? problemSchema;
    // Parsing drops what the schema does not know, so equality says that nothing undocumented was
    // sent.
    expect(schema.parse(json)).toEqual(json);
  }
}

const matches = (pattern: string, pathname: string): boolean =>
  new RegExp(`^${pattern.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(pathname);

function makeCaches(client: FakeKubeClient) {
  const cache = <T extends KubeObject>(
    resource: ResourceDefinition<T>,
    indexers: Indexers<T> = {},
    clock: Clock = systemClock,
  ) =>
    new Reflector({
      client,
      resource,
      namespace,
      indexers,
      clock,
      random: Math.random,
      logger: silentLogger,
    });
  return {
    conversations: new Reflector({
      client,
      namespace,
      clock: systemClock,
      random: Math.random,
      logger: silentLogger,
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
