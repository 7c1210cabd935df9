import { setTimeout as wait } from 'node:timers/promises';
import type { KubeClient } from '@conversation-operator/kube/client';
import { systemClock } from '@conversation-operator/base/clock';
import { isAlreadyExists } from '@conversation-operator/kube/errors';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { Transport } from '@conversation-operator/kube/transport';
import { silentLogger } from '@conversation-operator/base/logger';
import { namespaces } from '@conversation-operator/kube/core';
import { sandboxes } from '../../src/resources/sandbox.ts';
import { Rng } from './rng.ts';
import { faults, faultsFor, type FaultName } from './faults.ts';
import { FaultProxy } from './proxy.ts';
import { RuntimeUnderTest, silenceMs } from './runtime-under-test.ts';
import type { Target } from './target.ts';
import { Writers } from './writers.ts';

export interface FaultRunOptions {
  readonly target: Target;
  readonly count: number;
  readonly seed: number;
  /** Absent: all that can be done to the target. */
  readonly only?: FaultName;
  readonly onFault?: (done: number, name: FaultName, healedMs: number) => void;
}

export interface FaultReport {
  readonly faults: number;
  /** By fault: how often, and the longest time until the stores were equal to the server again. */
  readonly byFault: ReadonlyMap<FaultName, { readonly count: number; readonly slowestMs: number }>;
  readonly writes: number;
  readonly events: number;
  readonly reconciles: number;
  /** Objects that a store did not have, or had too many, when the time to heal was over. */
  readonly lost: number;
  readonly phantom: number;
  /** Sentences about everything that was not as it must be. */
  readonly violations: readonly string[];
  readonly peakSockets: number;
  readonly maxSockets: number;
  /** The longest that a silent watch stayed open. */
  readonly longestSilenceMs: number;
}

/** After a fault everything has to agree within so long. */
const healMs = 30_000;
const writerCount = 4;
const burstSize = 40;

interface Difference {
  readonly lost: number;
  readonly phantom: number;
  readonly words: readonly string[];
}

/**
 * Strikes one fault after the other, and compares the stores with a list of the server after each.
 */
export async function runFaults({
  target,
  count,
  seed,
  only,
  onFault,
}: FaultRunOptions): Promise<FaultReport> {
  const rng = new Rng(seed);
  const namespace = `faults-${seed}-${Date.now().toString(36)}`;
  await using stack = new AsyncDisposableStack();
  const transport = new Transport({
    connection: target.connection,
    clock: systemClock,
    random: Math.random,
    logger: silentLogger,
  });
  stack.defer(() => transport.close());
  const client = new HttpKubeClient({ transport });
  await createNamespace(client, namespace);
  // A server that is gone for good has been complained of already.
  stack.defer(() => client.delete(namespaces, '', namespace).catch(() => undefined));
  const proxy = await FaultProxy.start(target.connection);
  stack.defer(() => proxy.close());
  const writers = new Writers({ client, namespace, rng: new Rng(seed + 1) });
  const runtime = new RuntimeUnderTest({ url: proxy.url, namespace, rng: new Rng(seed + 2) });
  stack.defer(() => runtime.stop());
  stack.defer(() => writers.stop());
  await runtime.start();
  writers.start(writerCount);

  const possible = only === undefined ? faultsFor(target) : [only];
  const byFault = new Map<FaultName, { count: number; slowestMs: number }>();
  const violations: string[] = [];
  let lost = 0;
  let phantom = 0;
  for (let index = 0; index < count; index++) {
    const name = rng.pick(possible);
    await wait(rng.between(0, 60));
    const burst = runtime.burst(burstSize);
    await faults[name].strike({ proxy, target, rng });
    await burst;
    if (rng.chance(0.5)) await wait(rng.between(0, 60));
    await writers.pause();
    const began = performance.now();
    const difference = await agreement(
      client,
      namespace,
      runtime,
      name === 'watches silent' ? proxy : undefined,
    );
    writers.resume();
    const healedMs = performance.now() - began;
    lost += difference.lost;
    phantom += difference.phantom;
    const where = `fault ${index + 1} of seed ${seed} (${name})`;
    for (const words of difference.words) violations.push(`${where}: ${words}`);
    for (const { name: kind, witness } of runtime.watched) {
      for (const words of witness.violations.splice(0))
        violations.push(`${where}: ${kind}: ${words}`);
    }
    for (const words of runtime.violations.splice(0)) violations.push(`${where}: ${words}`);
    const { peakSockets } = proxy;
    if (peakSockets > runtime.maxConnections)
      violations.push(`${where}: ${peakSockets} connections at once`);
    const before = byFault.get(name) ?? { count: 0, slowestMs: 0 };
    byFault.set(name, { count: before.count + 1, slowestMs: Math.max(before.slowestMs, healedMs) });
    onFault?.(index + 1, name, healedMs);
  }
  const longestSilenceMs = Math.max(0, ...proxy.silences);
  if (longestSilenceMs > silenceMs + 1000)
    violations.push(`a silent watch was noticed after ${Math.round(longestSilenceMs)} ms`);
  return {
    faults: count,
    byFault,
    writes: writers.writes,
    events: runtime.watched.reduce((sum, { witness }) => sum + witness.events, 0),
    reconciles: runtime.reconciles,
    lost,
    phantom,
    violations,
    peakSockets: proxy.peakSockets,
    maxSockets: runtime.maxConnections,
    longestSilenceMs,
  };
}

async function createNamespace(client: KubeClient, name: string): Promise<void> {
  try {
    await client.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
}

/**
 * Waits until stores, handlers and server agree and the controller has seen everything; says what
 * is missing when that does not come.
 */
async function agreement(
  client: KubeClient,
  namespace: string,
  runtime: RuntimeUnderTest,
  silenced: FaultProxy | undefined,
): Promise<Difference> {
  const deadline = performance.now() + healMs;
  for (;;) {
    const difference = await compare(client, namespace, runtime);
    // A store may be right though its watch is deaf: that the silence has been noticed is part of
    // being healed.
    const deaf = silenced?.hasSilentWatches === true;
    if (difference.words.length === 0 && !deaf) return difference;
    if (performance.now() > deadline) {
      return deaf
        ? { ...difference, words: [...difference.words, 'a silent watch is still open'] }
        : difference;
    }
    await wait(10);
  }
}

async function compare(
  client: KubeClient,
  namespace: string,
  runtime: RuntimeUnderTest,
): Promise<Difference> {
  const words: string[] = [];
  let lost = 0;
  let phantom = 0;
  for (const { name, resource, labelSelector, reflector, witness } of runtime.watched) {
    const { items } = await client.list(resource, {
      namespace,
      ...(labelSelector === undefined ? {} : { labelSelector }),
    });
    const there = new Map(items.map(({ metadata }) => [metadata.uid, metadata.resourceVersion]));
    const stored = new Map(
      reflector.store.list().map(({ metadata }) => [metadata.uid, metadata.resourceVersion]),
    );
    for (const [where, known] of [
      ['the store', stored],
      ['the handler', witness.present],
    ] as const) {
      for (const [uid, version] of there) {
        const knownVersion = known.get(uid);
        if (knownVersion === version) continue;
        lost++;
        words.push(
          `${where} of ${name} has ${uid} at version ${knownVersion ?? 'none'} instead of ${version}`,
        );
      }
      for (const uid of known.keys()) {
        if (there.has(uid)) continue;
        phantom++;
        words.push(`${where} of ${name} has ${uid}, which does not exist`);
      }
    }
  }
  const { items } = await client.list(sandboxes, { namespace });
  for (const { metadata, status } of items) {
    if (status?.observedGeneration !== metadata.generation)
      words.push(
        `the controller has not seen generation ${metadata.generation} of ${metadata.name}`,
      );
  }
  return { lost, phantom, words };
}
