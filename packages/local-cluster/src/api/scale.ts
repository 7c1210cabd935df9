import { numberAt, objectAt, valueAt, withValueAt, type JsonObject } from '../json/json.ts';
import type { ApiResource, ScalePaths } from '../registry/api-resource.ts';
import { invalidValue, type FieldError } from '../schema/field-error.ts';
import type { ApiObject } from './api-object.ts';

/** Returns the `autoscaling/v1 Scale` of an object. */
export function scaleOf(object: ApiObject, paths: ScalePaths) {
  const { name, namespace, uid, resourceVersion, creationTimestamp } = object.metadata;
  const replicas = (path: readonly string[]): number => Number(valueAt(object, path) ?? 0);
  const selector = paths.selector === undefined ? undefined : valueAt(object, paths.selector);
  return {
    kind: 'Scale',
    apiVersion: 'autoscaling/v1',
    metadata: {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      uid,
      resourceVersion,
      creationTimestamp,
    },
    spec: { replicas: replicas(paths.spec) },
    status: {
      replicas: replicas(paths.status),
      ...(typeof selector === 'string' ? { selector } : {}),
    },
  };
}

const maxReplicas = 2_147_483_647;

/**
 * Returns the errors of replica counts that a Scale cannot represent. Kubernetes writes these field
 * paths with a leading dot.
 */
export function scaleErrors(object: ApiObject, { scale }: ApiResource): readonly FieldError[] {
  return (scale === undefined ? [] : [scale.spec, scale.status]).flatMap((path) => {
    const replicas = valueAt(object, path);
    if (typeof replicas !== 'number') return [];
    const field = `.${path.join('.')}`;
    if (replicas < 0) return [invalidValue(field, replicas, 'should be a non-negative integer')];
    return replicas > maxReplicas
      ? [invalidValue(field, replicas, `should be less than or equal to ${maxReplicas}`)]
      : [];
  });
}

/**
 * Returns the object with the replicas of a Scale. The metadata of the Scale replace those of the
 * object, so that a resourceVersion is a precondition.
 */
export function withScale(object: ApiObject, scale: JsonObject, paths: ScalePaths): JsonObject {
  const replicas = numberAt(scale['spec'], 'replicas') ?? 0;
  const { name, namespace, uid, resourceVersion } = objectAt(scale, 'metadata') ?? {};
  const claimed = Object.fromEntries(
    Object.entries({ name, namespace, uid, resourceVersion }).filter(
      ([, value]) => value !== undefined,
    ),
  );
  return {
    ...withValueAt(object, paths.spec, replicas),
    metadata: { ...object.metadata, ...claimed },
  };
}
