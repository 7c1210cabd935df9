import type { Request } from '@conversation-operator/kube/controller';
import type { KubeObject } from '@conversation-operator/kube/object';
import { sandboxLabel } from '../../resources/sandbox.ts';
import type { UnresponsiveAgents } from '../agent-calls/unresponsive-agents.ts';
import { byTemplate, type WatchedCaches } from '../caches.ts';
import {
  handle,
  requestOf,
  watch,
  type ControllerSpec,
  type EventSource,
  maxPerOwner,
  ownerShare,
  workers,
} from '../controller-spec.ts';
import type { AgentClient } from '../../agent/agent.ts';
import type { SandboxArchives } from '../archive/seal.ts';
import { ElapsedTimes } from '../elapsed-times.ts';
import { AgentConnections } from './agent-connection.ts';
import { AgentConnector } from './agent-connector.ts';
import { AgentStops } from './agent-stops.ts';
import { Creations, type CreationsOptions } from './creations.ts';
import { SandboxObserver } from './observer.ts';
import { PodBackoff } from './pod-loss.ts';
import { SandboxReconciler, type SandboxReconcilerOptions } from './reconcile.ts';

export function sandboxOf({
  metadata: { namespace = '', labels },
}: KubeObject): readonly Request[] {
  const name = labels?.[sandboxLabel];
  return name === undefined ? [] : [{ namespace, name }];
}

export interface SandboxControllerOptions {
  readonly caches: Pick<WatchedCaches, 'sandboxes' | 'pods' | 'claims' | 'templates'>;
  readonly reconciler: Pick<SandboxReconciler, 'reconcile' | 'refresh'>;
  readonly unresponsiveAgents: Pick<UnresponsiveAgents, 'forget'>;
  readonly unresponsive: EventSource;
}

export interface SandboxesOptions extends CreationsOptions {
  /** Random numbers from 0 to below 1. */
  readonly random: () => number;
  readonly stores: SandboxReconcilerOptions['stores'];
  readonly agent: AgentClient;
  /** Records which agents do not answer the calls of other controllers. */
  readonly unresponsiveAgents?: UnresponsiveAgents | undefined;
  /** Maximum milliseconds that a pause waits for the end of the agent's runs. Default 15,000. */
  readonly pauseBoundMs?: number | undefined;
  /** Archives the agents' data before their pods are deleted; absent if nothing is archived. */
  readonly archives?: SandboxArchives | undefined;
}

export function createSandboxes(options: SandboxesOptions): SandboxReconciler {
  const {
    client,
    clock,
    logger,
    events,
    stores,
    keys,
    agent,
    archives,
    pauseBoundMs,
    unresponsiveAgents,
  } = options;
  const elapsed = new ElapsedTimes(options);
  const podBackoff = new PodBackoff(options);
  const connections = new AgentConnections(options);
  const stops = new AgentStops({
    client,
    clock,
    logger,
    keys,
    agent,
    archives,
    pauseBoundMs,
    elapsed,
    connections,
  });
  const connector = new AgentConnector({
    client,
    clock,
    logger,
    keys,
    unresponsiveAgents,
    connections,
    stops,
    podBackoff,
  });
  const observer = new SandboxObserver({ client, clock, logger, elapsed, podBackoff });
  const creations = new Creations(options);
  return new SandboxReconciler({
    client,
    clock,
    logger,
    events,
    stores,
    creations,
    connector,
    observer,
  });
}

export function sandboxController(options: SandboxControllerOptions): ControllerSpec {
  const { caches, reconciler, unresponsiveAgents, unresponsive } = options;
  const sandboxes = caches.sandboxes.store;
  return {
    name: 'sandbox',
    workers: workers.sandbox,
    shareOf: ({ namespace, name }) => ownerShare(sandboxes.get(namespace, name)),
    maxPerShare: maxPerOwner('sandbox'),
    sources: [
      watch(caches.sandboxes, (sandbox) => [requestOf(sandbox)]),
      watch(caches.pods, sandboxOf),
      watch(caches.claims, sandboxOf),
      watch(caches.templates, ({ metadata: { namespace, name } }) =>
        sandboxes.byIndex(byTemplate, `${namespace}/${name}`).map(requestOf),
      ),
      unresponsive,
      handle(caches.sandboxes, {
        deleted: ({ metadata: { uid } }) => unresponsiveAgents.forget(uid),
      }),
    ],
    reconcile: (request, signal) => reconciler.reconcile(request, signal),
    refresh: (request, signal) => reconciler.refresh(request, signal),
  };
}
