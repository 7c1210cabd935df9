import { randomUUID } from 'node:crypto';
import { systemClock, type Clock } from '@conversation-operator/base/clock';
import { silentLogger } from '@conversation-operator/base/logger';
import type { EventDetails } from '@conversation-operator/kube/events';
import { IndexedStore } from '@conversation-operator/kube/store';
import { directly, type Outward } from '@conversation-operator/outward/outward';
import { SandboxKeys } from '../../../src/agent/keys.ts';
import { modelRelayAccessOf } from '../../../src/agent/model-relay.ts';
import {
  BudgetLedger,
  type Budget,
  type Exhausted,
  type Reservation,
} from '../../../src/budget/ledger.ts';
import { parseAmount } from '../../../src/budget/money.ts';
import { Periods } from '../../../src/budget/period.ts';
import {
  createCallbackServer,
  type CallbackServer,
} from '../../../src/gateway/callback-server/callback-server.ts';
import { gatewayIndexers } from '../../../src/gateway/lookup/cache.ts';
import { BudgetExhaustions } from '../../../src/gateway/models/budget-exhaustions.ts';
import { BudgetWarnings } from '../../../src/gateway/models/budget-warnings.ts';
import { budgetsInForce } from '../../../src/gateway/models/budgets-in-force.ts';
import { BudgetedAccounts } from '../../../src/gateway/models/call-accounts.ts';
import { ModelsHandler } from '../../../src/gateway/models/models-handler.ts';
import { ModelWaits } from '../../../src/gateway/models/model-waits.ts';
import { ProviderFailureCounts } from '../../../src/gateway/models/provider-failures.ts';
import { Providers } from '../../../src/gateway/models/providers.ts';
import { UpstreamKeys } from '../../../src/gateway/models/upstream-keys.ts';
import { UsageStore } from '../../../src/gateway/models/usage-store.ts';
import type { TransferLimits } from '../../../src/gateway/callback-server/transfer.ts';
import type { KeyLimits } from '../../../src/models/key-limits.ts';
import { PriceBook } from '../../../src/models/prices.ts';
import { createMetrics } from '../../../src/observability/metrics.ts';
import { quotaBudgets } from '../../../src/quota/budgets.ts';
import {
  cachedConversation,
  type CachedConversation,
} from '../../../src/resources/cached-conversation.ts';
import type { ConversationQuota } from '../../../src/resources/conversation-quota.ts';
import type { ConversationSpec } from '../../../src/resources/conversation.ts';
import type { Sandbox } from '../../../src/resources/sandbox.ts';
import type {
  SandboxTemplate,
  SandboxTemplateSpec,
} from '../../../src/resources/sandbox-template.ts';
import { usageRecords } from '../../../src/resources/usage-record.ts';
import { SecretReader } from '../../../src/gateway/lookup/secret-reader.ts';
import { sealingUnder } from '../../../src/agent/sealing.ts';
import { aQuota, aSandbox, aStoredConversation, aTemplate } from '../builders.ts';
import { FakeKubeClient } from '../fake-kube-client.ts';
import { quietCache } from '../gateway/quiet-cache.ts';
import { ChargingProvider, type Prices } from './charging-provider.ts';

/** The key of the model, which no sandbox may see. */
export const modelKey = 'sk-of-the-platform-4f1d8a';

export interface RelaySceneOptions {
  readonly prices?: Prices;
  readonly clock?: Clock;
  readonly limits?: Partial<TransferLimits>;
  readonly outward?: Outward;
  readonly keys?: SandboxKeys;
  readonly keyLimits?: readonly KeyLimits[];
  /** Maximum wait of a call for its key. */
  readonly maxWaitMs?: number;
  /** Shared by the replicas of one scene. */
  readonly client?: FakeKubeClient;
  readonly provider?: ChargingProvider;
}

/** One replica of a gateway with the relay for models alone, a provider behind it, and its store. */
export class RelayScene implements AsyncDisposable {
  readonly client: FakeKubeClient;
  readonly provider: ChargingProvider;
  readonly keys: SandboxKeys;
  readonly sandboxes = new IndexedStore<Sandbox>(gatewayIndexers.sandboxes);
  readonly conversations = new IndexedStore<CachedConversation>(gatewayIndexers.conversations);
  readonly templates = new IndexedStore<SandboxTemplate>({});
  readonly quotas = new IndexedStore<ConversationQuota>({});
  /** Keys of models by the name of the credential. */
  readonly credentials = new Map([['platform', modelKey]]);
  readonly metrics = createMetrics();
  readonly excesses: number[] = [];
  /** Number of settlements of each reservation. */
  readonly reservations: { settled: number }[] = [];
  readonly ledger: BudgetLedger;
  readonly upstreams: UpstreamKeys;
  /** Whether the caches have been filled. */
  isSynced = true;
  url = '';
  readonly #side: CallbackServer;
  readonly #providers: Providers;
  readonly events: EventDetails[] = [];
  readonly #exhaustions: BudgetExhaustions;
  readonly #ownsProvider: boolean;
  #closed: Promise<void> | undefined;

  private constructor(options: RelaySceneOptions, provider: ChargingProvider) {
    const { clock = systemClock, outward = directly } = options;
    this.#providers = new Providers(outward);
    this.keys = options.keys ?? new SandboxKeys([Buffer.alloc(32, 7)]);
    const { metrics, keys } = this;
    this.provider = provider;
    this.#ownsProvider = options.provider === undefined;
    this.client = options.client ?? new FakeKubeClient();
    const logger = silentLogger;
    const replica = randomUUID();
    const events = { record: (_object: unknown, event: EventDetails) => this.events.push(event) };
    const warnings = new BudgetWarnings({ events, metrics });
    const store = new UsageStore({ client: this.client, logger, replica, warnings });
    this.#exhaustions = new BudgetExhaustions({ client: this.client, events, clock, logger });
    const runtime = { clock, random: Math.random, logger, metrics };
    this.ledger = new BudgetLedger({
      ...runtime,
      store,
      replica,
      onExcess: (_budget, excess) => this.excesses.push(excess),
    });
    this.upstreams = new UpstreamKeys({
      ...runtime,
      limits: options.keyLimits ?? [],
      waits: new ModelWaits({ client: this.client, clock, logger }),
      ...(options.maxWaitMs === undefined ? {} : { maxWaitMs: options.maxWaitMs }),
    });
    const namespace = 'default';
    const periods = new Periods();
    const { inputPerMillion, outputPerMillion, cachedInputPerMillion } = options.prices ?? {
      inputPerMillion: 1,
      outputPerMillion: 10,
    };
    const handler = new ModelsHandler({
      keys,
      conversations: new SecretReader({
        client: this.client,
        sealing: sealingUnder(keys),
        conversations: quietCache(this.conversations),
        ownerSettings: quietCache(new IndexedStore({})),
      }),
      templates: quietCache(this.templates),
      isSynced: () => this.isSynced,
      credentials: { of: (_owner, name) => Promise.resolve(this.credentials.get(name)) },
      providers: this.#providers,
      failures: new ProviderFailureCounts({
        ...runtime,
        ledger: this.ledger,
        usage: store,
        namespace,
      }),
      accounts: new BudgetedAccounts({
        ledger: {
          requestWrite: (record) => this.ledger.requestWrite(record),
          reserve: async (request) => this.#counted(await this.ledger.reserve(request)),
        },
        usage: store,
        prices: new PriceBook([
          { model: 'm', inputPerMillion, outputPerMillion, cachedInputPerMillion },
        ]),
        budgetsOf: (conversation) =>
          budgetsInForce(conversation, {
            budgets: quotaBudgets(this.quotas.list()),
            namespace,
            periods,
            nowMs: clock.now(),
          }),
        exhaustions: this.#exhaustions,
        warnings,
        namespace,
        clock,
        metrics,
      }),
      upstreams: this.upstreams,
      clock,
      logger,
      metrics,
      lagMs: 200,
      ...(options.limits === undefined ? {} : { limits: options.limits }),
    });
    this.#side = createCallbackServer({
      handlers: [handler],
      sandboxes: quietCache(this.sandboxes),
      namespace,
      host: '127.0.0.1',
      port: 0,
      graceMs: 1_000,
      clock,
      logger,
      metrics,
    });
  }

  static async start(options: RelaySceneOptions = {}): Promise<RelayScene> {
    const provider = options.provider ?? (await ChargingProvider.start(options.prices));
    const scene = new RelayScene(options, provider);
    scene.template();
    const { port } = await scene.#side.listen();
    scene.url = `http://127.0.0.1:${port}`;
    return scene;
  }

  #counted<B extends Budget>(reserved: Reservation | Exhausted<B>): Reservation | Exhausted<B> {
    if ('reason' in reserved) return reserved;
    const count = { settled: 0 };
    this.reservations.push(count);
    return {
      granted: reserved.granted,
      settle: (spent) => {
        count.settled += 1;
        reserved.settle(spent);
      },
      release: () => {
        count.settled += 1;
        reserved.release();
      },
    };
  }

  /** Closes as a gateway does: the calls first, then the ledger. */
  close(): Promise<void> {
    this.#closed ??= (async () => {
      await this.#side.close();
      await this.#providers.close();
      await this.ledger.close();
    })();
    return this.#closed;
  }

  /**
   * Closes, and returns the nanos that all accounts have spent. Rejects if a call was not settled
   * exactly once, or if an account still holds something for a call.
   */
  async spentInAll(): Promise<number> {
    await this.close();
    expect(this.reservations.filter(({ settled }) => settled !== 1)).toEqual([]);
    const accounts = (await this.records()).flatMap(({ status }) => status?.accounts ?? []);
    expect(accounts.flatMap(({ holders = [] }) => holders)).toEqual([]);
    return accounts.reduce((sum, { spent, unit }) => sum + parseAmount(spent, unit), 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
    if (this.#ownsProvider) await this.provider[Symbol.asyncDispose]();
  }

  /** Replaces the template. */
  template(spec: Partial<SandboxTemplateSpec> = {}): void {
    this.templates.set(
      aTemplate({
        agent: {
          port: 8000,
          workingDir: '/workspace',
          model: 'openai/m',
          baseUrl: `${this.provider.url}/v1`,
          credential: 'platform',
        },
        ...spec,
      }),
    );
  }

  /** Sets the budget of each owner. */
  budget(amount: number, more: object = {}): void {
    this.quotas.set(
      aQuota('default', {
        budget: {
          amount,
          currency: 'USD',
          period: 'Month',
          timeZone: 'UTC',
          onExceeded: 'Reject',
          maxRaise: 0,
          ...more,
        },
      }),
    );
  }

  /** A conversation in a sandbox of its own, and where its agent reaches the model. */
  conversation(index = 1, spec: Partial<ConversationSpec> = {}) {
    const name = index.toString(16).padStart(32, '0');
    const { owner = 'alice' } = spec;
    const sandbox = aSandbox({ name: `sbx-${name}`, owner });
    const conversation = cachedConversation(
      aStoredConversation({
        name,
        spec,
        status: {
          start: { status: 'READY' },
          sandboxName: sandbox.metadata.name,
          sandboxUID: sandbox.metadata.uid,
        } as never,
      }),
    );
    this.sandboxes.set(sandbox);
    this.conversations.set(conversation);
    const access = modelRelayAccessOf(
      { conversation, sandbox },
      { url: this.url, keys: this.keys },
    );
    return { sandbox, conversation, ...access };
  }

  /** The record of an owner in the month of the calls. */
  async records() {
    return (await this.client.list(usageRecords)).items;
  }
}

/** A chat completion as an agent sends it. */
export const chat = (
  { baseUrl, token }: { readonly baseUrl: string; readonly token: string },
  body: object = {},
  init: RequestInit = {},
): Promise<Response> =>
  fetch(`${baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }], ...body }),
    ...init,
  });
