import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { EventRecorder } from '@conversation-operator/kube/events';
import type { AgentCredentials } from '../agent/credentials.ts';
import type { SandboxKeys } from '../agent/keys.ts';
import { BudgetLedger } from '../budget/ledger.ts';
import { Periods } from '../budget/period.ts';
import type { RelayConfig } from '../config/cluster.ts';
import { Derived, type Caches } from '../gateway/lookup/cache.ts';
import { conversationsIn } from '../gateway/lookup/conversations-in.ts';
import { BudgetExhaustions } from '../gateway/models/budget-exhaustions.ts';
import { BudgetWarnings } from '../gateway/models/budget-warnings.ts';
import { budgetsInForce } from '../gateway/models/budgets-in-force.ts';
import { BudgetedAccounts } from '../gateway/models/call-accounts.ts';
import { ModelsHandler } from '../gateway/models/models-handler.ts';
import { ModelWaits } from '../gateway/models/model-waits.ts';
import { ProviderFailureCounts } from '../gateway/models/provider-failures.ts';
import { Providers } from '../gateway/models/providers.ts';
import { UpstreamKeys } from '../gateway/models/upstream-keys.ts';
import { UsageStore } from '../gateway/models/usage-store.ts';
import { PriceBook } from '../models/prices.ts';
import { quotaBudgets } from '../quota/budgets.ts';
import type { OutwardRuntime } from './outward.ts';

interface ModelsOptions {
  readonly config: Pick<RelayConfig, 'MODELS_PRICES' | 'MODELS_LIMITS'>;
  readonly client: KubeClient;
  readonly events: Pick<EventRecorder, 'record'>;
  readonly keys: SandboxKeys;
  readonly caches: Pick<Caches, 'conversations' | 'sandboxes' | 'templates' | 'quotas'>;
  readonly credentials: AgentCredentials;
  readonly namespace: string;
}

/** The relay for models. The stack gives back what the ledger holds, after all calls have ended. */
export function relayForModels(
  { config, client, events, keys, caches, credentials, namespace }: ModelsOptions,
  runtime: OutwardRuntime,
  stack: AsyncDisposableStack,
): ModelsHandler {
  const { clock, metrics, outward } = runtime;
  const logger = runtime.logger.child({ component: 'models' });
  const replica = `${hostname()}-${randomUUID()}`;
  const warnings = new BudgetWarnings({ events, metrics });
  const store = new UsageStore({ client, logger, replica, warnings });
  const ledger = new BudgetLedger({
    ...runtime,
    store,
    replica,
    onExcess: (budget, excess) =>
      logger.error('A call of a model has cost more than its worst case', {
        budget: budget.account,
        unit: budget.unit,
        excess,
      }),
  });
  stack.defer(() => ledger.close());
  const exhaustions = new BudgetExhaustions({ client, events, clock, logger });
  stack.defer(() => exhaustions.close());
  const providers = new Providers(outward);
  stack.defer(() => providers.close());
  const periods = new Periods();
  const budgets = new Derived(quotaBudgets);
  const accounts = new BudgetedAccounts({
    ledger,
    usage: store,
    prices: new PriceBook(config.MODELS_PRICES),
    budgetsOf: (conversation) =>
      budgetsInForce(conversation, {
        budgets: budgets.of(caches.quotas.store.list()),
        namespace,
        periods,
        nowMs: clock.now(),
      }),
    exhaustions,
    warnings,
    namespace,
    clock,
    metrics,
  });
  return new ModelsHandler({
    keys,
    conversations: { conversationsIn: (sandbox) => conversationsIn(sandbox, caches.conversations) },
    templates: caches.templates,
    isSynced: () => {
      const { conversations, sandboxes, templates, quotas } = caches;
      return [conversations, sandboxes, templates, quotas].every(({ hasSynced }) => hasSynced);
    },
    credentials,
    providers,
    accounts,
    upstreams: new UpstreamKeys({
      ...runtime,
      logger,
      limits: config.MODELS_LIMITS,
      waits: new ModelWaits({ client, clock, logger }),
    }),
    failures: new ProviderFailureCounts({ ledger, usage: store, namespace, clock, metrics }),
    clock,
    logger,
    metrics,
  });
}
