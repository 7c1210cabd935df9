import {
  persistentVolumeClaims,
  type PersistentVolumeClaim,
} from '@conversation-operator/kube/core';
import {
  apiVersionOf,
  ownerReferenceTo,
  type NewObject,
  isOwnedBy,
} from '@conversation-operator/kube/object';
import {
  ownerAnnotation,
  sandboxLabels,
  type Sandbox,
  sandboxes,
} from '../../resources/sandbox.ts';
import { madeForReferenceOf } from '../../resources/sandbox-owner-references.ts';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import type { CachedPod, CachedClaim } from '../../resources/cached-core.ts';
import { FailurePolicy, FailureCode, type Failure } from './failure.ts';
import type { Clock } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import { ElapsedTimes } from '../elapsed-times.ts';

/** Label of a claim that outlives its sandbox; the value is always "true". */
export const retainedLabel = 'conversation-operator.dev/retained';
/** Annotation of a claim with the name of the conversation that its sandbox was made for. */
export const conversationAnnotation = 'conversation-operator.dev/conversation';

/**
 * The PersistentVolumeClaim of a sandbox's workspace. A retained claim has no owner reference, so
 * that the garbage collector does not delete it. Its annotations name its owner and its
 * conversation.
 */
export function buildClaim(
  sandbox: Sandbox,
  template: SandboxTemplate,
): NewObject<PersistentVolumeClaim> {
  const { size, storageClassName, retain } = template.spec.storage;
  const { name, namespace } = sandbox.metadata;
  const conversation = madeForReferenceOf(sandbox)?.name;
  return {
    apiVersion: apiVersionOf(persistentVolumeClaims),
    kind: persistentVolumeClaims.kind,
    metadata: {
      name,
      namespace,
      labels: { ...sandboxLabels(name), ...(retain ? { [retainedLabel]: 'true' } : {}) },
      annotations: {
        [ownerAnnotation]: sandbox.spec.owner,
        ...(conversation === undefined ? {} : { [conversationAnnotation]: conversation }),
      },
      ...(retain ? {} : { ownerReferences: [ownerReferenceTo(sandbox, { controller: true })] }),
    },
    spec: {
      accessModes: ['ReadWriteOnce'],
      resources: { requests: { storage: size } },
      ...(storageClassName === undefined ? {} : { storageClassName }),
    },
  };
}

/** The relation of a claim to the sandbox whose name it has. */
type ClaimOwnership =
  /** Made for the sandbox, or retained from a sandbox of the same name and owner, and reused. */
  | 'own'
  /** Being deleted, or about to be: an earlier sandbox of the name, which is deleted, owns it. */
  | 'going'
  /** Made for another owner or by hand. The sandbox never uses such a claim. */
  | 'foreign';

export function ownershipOf(claim: CachedClaim, sandbox: Sandbox): ClaimOwnership {
  const { deletionTimestamp, ownerReferences = [], annotations } = claim.metadata;
  if (deletionTimestamp !== undefined) return 'going';
  if (isOwnedBy(claim, sandbox)) return 'own';
  if (ownerReferences.some(({ kind }) => kind === sandboxes.kind)) return 'going';
  return ownerReferences.length === 0 && annotations?.[ownerAnnotation] === sandbox.spec.owner
    ? 'own'
    : 'foreign';
}

export const volumeNameTaken = (name: string): Failure => ({
  code: FailureCode.volumeNameTaken,
  message: `A volume claim ${name} exists already and does not belong to the sandbox.`,
  policy: FailurePolicy.transient,
});

/**
 * Milliseconds after the creation of the pod in which an unbound claim is no failure. Provisioners
 * take some seconds, cloud disks about ten, and the scheduler reports the pod as unschedulable
 * meanwhile. With WaitForFirstConsumer the scheduler reports nothing for ten minutes, so a claim
 * that is unbound after this time is a failure.
 */
export const bindingMs = 20_000;

/** Milliseconds until an unbound claim is a failure; 0 or less once it is one. */
export const bindingInMs = (pod: CachedPod, now: number): number =>
  bindingMs - (now - Date.parse(pod.metadata.creationTimestamp));

/** The failure of a sandbox's claim while its pod does not run; undefined without a failure. */
export function claimFailure(claim: CachedClaim, pod: CachedPod, now: number): Failure | undefined {
  const { phase } = claim.status ?? {};
  if (phase === 'Lost') {
    const message = 'The volume of the sandbox does not exist any more.';
    return { code: FailureCode.volumeLost, message, policy: FailurePolicy.needsRepair };
  }
  const { conditions, containerStatuses, phase: podPhase = 'Pending' } = pod.status ?? {};
  const scheduled =
    conditions?.some(({ type, status }) => type === 'PodScheduled' && status === 'True') === true;
  const begun = scheduled || podPhase !== 'Pending' || (containerStatuses ?? []).length > 0;
  if (phase === 'Bound' || begun || bindingInMs(pod, now) > 0) return undefined;
  return volumeNotBound(claim);
}

/** The message names all possible causes, because the operator may not read storage classes. */
export function volumeNotBound({ spec }: CachedClaim): Failure {
  const { storageClassName } = spec ?? {};
  const why =
    storageClassName === undefined || storageClassName === ''
      ? 'the template names no storage class, and the cluster has no default one that provides it'
      : `the storage class ${storageClassName} does not exist, or does not provide it`;
  return {
    code: FailureCode.volumeNotBound,
    message: `The volume of the sandbox is not bound yet: ${why}.`,
    policy: FailurePolicy.transient,
  };
}

/** Maximum time in which a storage class with the mode `Immediate` binds a new claim. */
const bindsAtOnceMs = 1_000;
const maxClasses = 1_000;

/**
 * Delays the pod of a new claim until the claim is bound. A scheduler that sees an unbound claim
 * reports FailedScheduling, and retries a second later at the earliest. Most storage classes bind a
 * claim only after its pod is scheduled (WaitForFirstConsumer), but the operator may not read
 * storage classes. Therefore the first pod of each class waits, and later ones wait only if the
 * class has bound a claim within `bindsAtOnceMs`.
 */
export class ClaimBindings {
  readonly #seen: ElapsedTimes;
  /** Storage classes that did not bind a claim within `bindsAtOnceMs`. */
  readonly #late = recentlyUsed<true>(maxClasses);

  constructor(options: { readonly clock: Clock }) {
    this.#seen = new ElapsedTimes(options);
  }

  /** Milliseconds for which the pod of this claim has to wait. */
  waitMs({ metadata, spec, status }: CachedClaim): number {
    if (status?.phase === 'Bound' || status?.phase === 'Lost') return 0;
    const storageClass = spec?.storageClassName ?? '';
    if (this.#late.get(storageClass) !== undefined) return 0;
    const leftMs = bindsAtOnceMs - this.#seen.lastsMs(metadata.uid, 'unbound');
    if (leftMs <= 0) this.#late.set(storageClass, true);
    return Math.max(0, leftMs);
  }
}
