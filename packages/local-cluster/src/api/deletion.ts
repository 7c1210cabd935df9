import { timestampOf } from '@conversation-operator/kube/object';
import { objectAt } from '../json/json.ts';
import type { ApiResource } from '../registry/api-resource.ts';
import { namespacesKey, withMeta, withStatus, type ApiObject, type Meta } from './api-object.ts';
import { deletionConflict, forbidden } from './status-error.ts';

export interface DeleteOptions {
  readonly dryRun?: boolean;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly gracePeriodSeconds?: number;
}

export interface Deletion {
  readonly object: ApiObject;
  /** False: the object waits for its finalizers or its grace period. */
  readonly gone: boolean;
}

export const protectedNamespaces = ['default', 'kube-system'];

/** @throws StatusError 409 for a failed precondition, 403 for a protected namespace */
export function checkDeletion(
  resource: ApiResource,
  { name, uid, resourceVersion }: Meta,
  wanted: DeleteOptions,
): void {
  if (wanted.uid !== undefined && wanted.uid !== uid)
    throw deletionConflict(
      resource,
      name,
      `the UID in the precondition (${wanted.uid}) does not match the UID in record (${uid}). The object might have been deleted and then recreated`,
    );
  if (wanted.resourceVersion !== undefined && wanted.resourceVersion !== resourceVersion)
    throw deletionConflict(
      resource,
      name,
      `the ResourceVersion in the precondition (${wanted.resourceVersion}) does not match the ResourceVersion in record (${resourceVersion}). The object might have been modified`,
    );
  if (resource.key === namespacesKey && protectedNamespaces.includes(name))
    throw forbidden(resource, name, 'this namespace may not be deleted');
}

export function deleted(
  resource: ApiResource,
  object: ApiObject,
  { gracePeriodSeconds }: DeleteOptions,
  nowMs: number,
): Deletion {
  const { generation, deletionTimestamp, deletionGracePeriodSeconds = 0 } = object.metadata;
  const own = resource.graceSeconds?.(object) ?? 0;
  // An object without a grace period (a pod without a node) ignores `gracePeriodSeconds`.
  const grace = own === 0 ? 0 : Math.max(0, gracePeriodSeconds ?? own);
  if (grace === 0 && !isHeld(object)) return { object, gone: true };
  const again = deletionTimestamp !== undefined;
  // A repeated deletion may shorten the grace period and never extends it.
  if (again && grace >= deletionGracePeriodSeconds) return { object, gone: false };
  const deleting = withMeta(object, {
    deletionTimestamp: timestampOf(nowMs + grace * 1000),
    deletionGracePeriodSeconds: grace,
    ...(generation === undefined || again ? {} : { generation: generation + 1 }),
  });
  return {
    object:
      resource.key === namespacesKey ? withStatus(deleting, { phase: 'Terminating' }) : deleting,
    gone: false,
  };
}

/** Whether finalizers or the contents of a namespace block the removal of an object. */
export function isHeld(object: ApiObject): boolean {
  if ((object.metadata.finalizers ?? []).length > 0) return true;
  const own = objectAt(object, 'spec')?.['finalizers'];
  return (
    object.kind === 'Namespace' &&
    object.apiVersion === 'v1' &&
    Array.isArray(own) &&
    own.length > 0
  );
}
