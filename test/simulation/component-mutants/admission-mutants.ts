import { AdmissionCache } from '../../../src/controllers/admission/cache.ts';
import { AdmissionReads } from '../../../src/controllers/admission/reads.ts';
import { createCaches } from '../../../src/controllers/caches.ts';
import { PodCreations } from '../../../src/controllers/sandbox/pod-creations.ts';
import { ApiError, TransportError } from '@conversation-operator/kube/errors';
import { ActiveQuotas } from '../../../src/quota/rules.ts';
import { Snapshot } from '../../../src/quota/snapshot.ts';
import type { Slot } from '../../../src/quota/slot.ts';
import { findCondition } from '../../../src/resources/conditions.ts';
import { pods, type Pod } from '@conversation-operator/kube/core';
import {
  SandboxCondition,
  SandboxReason,
  sandboxes,
  type Sandbox,
} from '../../../src/resources/sandbox.ts';
import { slotTaken } from '../../../src/status/sandbox-phase.ts';
import { but, client, pretended } from './replaced-methods.ts';
import type { ComponentMutant } from './component-mutant.ts';
import { patched } from './patched.ts';

/** Slots are counted as something else than what they are. */
const slots = (map: (slot: Slot) => Slot): ComponentMutant => ({
  patches: [patched(Snapshot.prototype, 'put', (_, put, slot) => put(map(slot)))],
});

/**
 * No mutant: every pod is created seconds after its creation was given up, as the slowest of API
 * servers may.
 */
export const latePods: ComponentMutant = {
  client: (whole, { clock }) =>
    but(whole, {
      create: (resource, object, options) => {
        if (resource.kind !== pods.kind || options?.dryRun === true)
          return whole.create(resource, object, options);
        clock.after(4_000, () => void whole.create(resource, object).catch(() => undefined));
        return Promise.reject(new TransportError('the answer is lost'));
      },
    }),
};

/** Mutants of the quota, each named by a sentence. */
export const admissionMutants = {
  'sandboxes that start are not counted': slots((slot) =>
    slot.state === 'starting' ? { ...slot, taken: false } : slot,
  ),
  'a pod that is being deleted counts as gone': {
    caches: (options) => {
      const whole = createCaches(options);
      const { store } = whole.pods;
      const get = (namespace: string, name: string) => {
        const pod = store.get(namespace, name);
        return pod?.metadata.deletionTimestamp === undefined ? pod : undefined;
      };
      return { ...whole, pods: but(whole.pods, { store: but(store, { get }) }) };
    },
    client: client((whole) => ({
      get: async (resource, namespace, name, options) => {
        const object = await whole.get(resource, namespace, name, options);
        if (
          resource.kind === pods.kind &&
          (object as Pick<Pod, 'metadata'>).metadata.deletionTimestamp !== undefined
        )
          throw new ApiError(404, { reason: 'NotFound' });
        return object;
      },
    })),
  },
  'the pods of deleted sandboxes are forgotten': {
    patches: [patched(AdmissionCache.prototype, 'addOrphaned', () => undefined)],
  },
  'a write of unknown outcome counts as not executed': {
    patches: [
      patched(AdmissionCache.prototype, 'assume', (_, assume, sandbox, { until }) =>
        assume(sandbox, { until, state: 'none', taken: slotTaken(sandbox) }),
      ),
    ],
  },
  'an admission is written regardless of the version': {
    client: client((whole) => ({
      updateStatus: async (resource, object, options) => {
        if (resource.kind !== sandboxes.kind) return whole.updateStatus(resource, object, options);
        const { namespace = '', name } = object.metadata;
        const stored = await whole.get(resource, namespace, name);
        const decided =
          isAdmitted(object as object as Sandbox) !== isAdmitted(stored as object as Sandbox);
        const { resourceVersion } = decided ? stored.metadata : object.metadata;
        return whole.updateStatus(
          resource,
          { ...object, metadata: { ...object.metadata, resourceVersion } },
          options,
        );
      },
    })),
  },
  'a pod is reserved regardless of the version': {
    client: client((whole) => ({
      updateStatus: async (resource, object, options) => {
        if (resource.kind !== sandboxes.kind) return whole.updateStatus(resource, object, options);
        const { namespace = '', name } = object.metadata;
        const stored = await whole.get(resource, namespace, name);
        const reserves =
          (object as object as Sandbox).status?.replicas === 1 &&
          (stored as object as Sandbox).status?.replicas !== 1;
        const { resourceVersion } = reserves ? stored.metadata : object.metadata;
        return whole.updateStatus(
          resource,
          { ...object, metadata: { ...object.metadata, resourceVersion } },
          options,
        );
      },
    })),
  },
  'a pod is created without a reservation': {
    client: (whole, { caches }) =>
      but(whole, {
        updateStatus: async (resource, object, options) => {
          const { namespace = '', name } = object.metadata;
          const cached = caches().sandboxes.store.get(namespace, name);
          const { status } = object as object as Sandbox;
          const reserves =
            resource.kind === sandboxes.kind &&
            status?.replicas === 1 &&
            cached?.status?.replicas !== 1;
          if (!reserves) return whole.updateStatus(resource, object, options);
          // The reservation is a part of the admission, or a write of its own after that.
          return cached !== undefined && isAdmitted(cached)
            ? pretended(await whole.get(resource, namespace, name), object)
            : whole.updateStatus(
                resource,
                { ...object, status: { ...status, replicas: 0 } },
                options,
              );
        },
      }),
  },
  'pod creations of unknown outcome are forgotten': {
    ...latePods,
    patches: [patched(PodCreations.prototype, 'unsettledMs', () => 0)],
  },
  'sandboxes that start may be evicted': slots((slot) =>
    slot.state === 'starting' ? { ...slot, state: 'running' } : slot,
  ),
  'an automatic resume evicts other sandboxes': slots((slot) =>
    slot.state === 'resumable'
      ? { ...slot, state: 'waiting', requestedAt: slot.pausedSince }
      : slot,
  ),
  'no sandbox resumes automatically': slots((slot) =>
    slot.state === 'resumable' ? { ...slot, state: 'suspended' } : slot,
  ),
  'a sandbox that its owner has paused resumes automatically': slots((slot) =>
    slot.state === 'none' && slot.sandbox.spec.replicas === 0
      ? { ...slot, state: 'resumable', pausedSince: 0 }
      : slot,
  ),
  'a sandbox that was paused for its age resumes automatically': slots((slot) =>
    slot.state === 'suspended' ? { ...slot, state: 'resumable' } : slot,
  ),
  'a resume with a message counts as a bare resume': slots((slot) =>
    slot.state === 'waiting' && slot.sandbox.status?.lastContainerID !== undefined
      ? { ...slot, bare: true }
      : slot,
  ),
  'an automatic resume counts as a request of a person': slots((slot) => ({
    ...slot,
    automatic: false,
  })),
  'automatic resumes have no delay': slots((slot) => ({ ...slot, resumesAt: 0 })),
  'a sandbox without unfinished work resumes automatically again': slots((slot) =>
    slot.state === 'suspended' && slot.sandbox.status?.reason === SandboxReason.quota
      ? { ...slot, state: 'resumable' }
      : slot,
  ),
  'a sandbox that starts is stalled at once': slots((slot) =>
    slot.stalledAt < Infinity ? { ...slot, stalledAt: 0 } : slot,
  ),
  'the pods of deleted sandboxes are never read': {
    patches: [patched(AdmissionReads.prototype, 'readPod', () => Promise.resolve(undefined))],
  },
  'a change of a quota is ignored': {
    patches: [
      patched(
        ActiveQuotas.prototype,
        'observe',
        (quotas, observe, quota) =>
          [...quotas.values()].every(({ metadata }) => metadata.uid !== quota.metadata.uid) &&
          observe(quota),
      ),
    ],
  },
  'the limit of the namespace is ignored': {
    patches: [
      patched(Snapshot.prototype, 'setRules', (_, setRules, rules) =>
        setRules({ ...rules, namespace: undefined }),
      ),
    ],
  },
} as const satisfies Readonly<Record<string, ComponentMutant>>;

export type AdmissionMutantName = keyof typeof admissionMutants;

const isAdmitted = ({ status }: Sandbox): boolean =>
  findCondition(status?.conditions, SandboxCondition.admitted)?.status === 'True';
