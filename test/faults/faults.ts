import { setTimeout as wait } from 'node:timers/promises';
import type { Rng } from './rng.ts';
import type { FaultProxy, ProxiedRequest, Treatment } from './proxy.ts';
import type { Target } from './target.ts';

export interface Scene {
  readonly proxy: FaultProxy;
  readonly target: Target;
  readonly rng: Rng;
}

export interface Fault {
  /** How often it comes, compared with the others. */
  readonly weight: number;
  /** Resolves once it is over: from then on everything gets through again. */
  readonly strike: (scene: Scene) => Promise<void>;
}

const statusBody = (code: number, reason: string, message: string): string =>
  JSON.stringify({
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message,
    reason,
    code,
  });
const expired = statusBody(410, 'Expired', 'too old resource version: 1 (2)');
const json = { 'content-type': 'application/json' };

const onlyWatches = ({ isWatch }: ProxiedRequest): boolean => isWatch;
const onlyCalls = ({ isWatch }: ProxiedRequest): boolean => !isWatch;
const any = (): boolean => true;

/**
 * For a while, requests that match are treated so. Watches that are open are reset half of the
 * time, so that there are some.
 */
const treating =
  (matches: (request: ProxiedRequest) => boolean, treatment: (rng: Rng) => Treatment) =>
  async ({ proxy, rng }: Scene): Promise<void> => {
    if (matches === onlyWatches || rng.chance(0.5)) proxy.reset();
    proxy.treat((request) =>
      matches(request) && rng.chance(0.8) ? treatment(rng) : { kind: 'pass' },
    );
    await wait(rng.between(20, 200));
    proxy.treat();
  };

const atOnce =
  (act: (scene: Scene) => void) =>
  (scene: Scene): Promise<void> => {
    act(scene);
    return Promise.resolve();
  };

const restart =
  (what: keyof Target['restarts']) =>
  async ({ target }: Scene): Promise<void> => {
    await target.restarts[what]?.();
  };

export const faults = {
  'connections refused': {
    weight: 4,
    strike: async ({ proxy, rng }) => {
      await proxy.refuse();
      await wait(rng.between(10, 200));
      await proxy.listen();
    },
  },
  'connections reset': {
    weight: 8,
    strike: atOnce(({ proxy, rng }) => proxy.reset(() => rng.chance(0.7))),
  },
  'answers reset in the midst': {
    weight: 6,
    strike: treating(any, (rng) => ({
      kind: 'truncate',
      afterBytes: rng.between(0, 3000),
      how: 'reset',
    })),
  },
  'answers lost after execution': {
    weight: 6,
    strike: treating(onlyCalls, () => ({ kind: 'lose' })),
  },
  'calls never answered': {
    weight: 3,
    strike: treating(onlyCalls, (rng) => ({ kind: 'swallow', executed: rng.chance(0.5) })),
  },
  'watches never answered': {
    weight: 2,
    strike: treating(onlyWatches, () => ({ kind: 'swallow', executed: false })),
  },
  'watches silent': { weight: 5, strike: atOnce(({ proxy }) => proxy.silenceWatches()) },
  'watches late': {
    weight: 6,
    strike: async ({ proxy, rng }) => {
      const release = proxy.holdWatches();
      await wait(rng.between(20, 300));
      release();
    },
  },
  'half an event': { weight: 5, strike: atOnce(({ proxy }) => proxy.endWatches('half-json')) },
  'half a chunk': { weight: 5, strike: atOnce(({ proxy }) => proxy.endWatches('half-chunk')) },
  'half an answer': {
    weight: 5,
    strike: treating(any, (rng) => ({
      kind: 'truncate',
      afterBytes: rng.between(0, 3000),
      how: rng.pick(['end', 'half-chunk']),
    })),
  },
  'answers slow': {
    weight: 5,
    strike: treating(any, (rng) => ({ kind: 'delay', delayMs: rng.between(5, 300) })),
  },
  'answers in small pieces': {
    weight: 3,
    strike: treating(any, (rng) => ({ kind: 'trickle', bytes: rng.between(1, 200) })),
  },
  '429 with Retry-After': {
    weight: 6,
    strike: treating(any, (rng) => ({
      kind: 'answer',
      status: 429,
      headers: { ...json, 'retry-after': String(rng.between(0, 3)) },
      body: statusBody(429, 'TooManyRequests', 'too many requests'),
    })),
  },
  '500': {
    weight: 4,
    strike: treating(any, () => ({
      kind: 'answer',
      status: 500,
      headers: json,
      body: statusBody(500, 'InternalError', 'etcdserver: no leader'),
    })),
  },
  '503 of a load balancer': {
    weight: 4,
    strike: treating(any, () => ({
      kind: 'answer',
      status: 503,
      headers: { 'content-type': 'text/html' },
      body: '<h1>503</h1>',
    })),
  },
  '410 in a watch': {
    weight: 6,
    strike: atOnce(({ proxy }) =>
      proxy.endWatches({ event: `{"type":"ERROR","object":${expired}}` }),
    ),
  },
  '410 for a watch': {
    weight: 5,
    strike: treating(onlyWatches, () => ({
      kind: 'answer',
      status: 410,
      headers: json,
      body: expired,
    })),
  },
  '500 in a watch': {
    weight: 3,
    strike: atOnce(({ proxy }) =>
      proxy.endWatches({
        event: `{"type":"ERROR","object":${statusBody(500, 'InternalError', 'etcdserver: leader changed')}}`,
      }),
    ),
  },
  'watches ended properly': {
    weight: 4,
    strike: atOnce(({ proxy }) => proxy.endWatches('properly')),
  },
  'API server killed': { weight: 1, strike: restart('api-server') },
  'etcd killed': { weight: 1, strike: restart('etcd') },
} as const satisfies Readonly<Record<string, Fault>>;

export type FaultName = keyof typeof faults;

/** Those that can be done to this target, each as often as it weighs. */
export function faultsFor(target: Target): readonly FaultName[] {
  const names = Object.keys(faults) as FaultName[];
  return names.flatMap((name) => {
    const needed =
      name === 'API server killed' ? 'api-server' : name === 'etcd killed' ? 'etcd' : undefined;
    if (needed !== undefined && target.restarts[needed] === undefined) return [];
    return Array.from({ length: faults[name].weight }, () => name);
  });
}
