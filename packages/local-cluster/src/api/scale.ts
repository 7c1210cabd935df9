import { numberAt, objectAt, valueAt, withValueAt, type JsonObject } from '../json/json.ts';
import type { ApiResource, ScalePaths } from '../registry/api-resource.ts';
import { invalidValue, type FieldError } from '../schema/field-error.ts';
import type { ApiObject } from './api-object.ts';

/** `autoscaling/v1 Scale` of an object. */
export function scaleOf(object: ApiObject, paths: ScalePaths) {
  const { name, namespace, uid, resourceVersion, creationTimestamp } = object.metadata;
  const replicas = (path: readonly string[]): number => Number(valueAt(object, path) ?? 0);
  const selector = paths.selector === undefined ? undefined : valueAt(object, paths.selector);
  return {
    kind: 'Scale',
    apiVersion: 'autoscaling/v1',
    metadata: { name, ...(namespace === undefined ? {} : { namespace }), uid, resourceVersion, creationTimestamp },
    spec: { replicas: replicas(paths.spec) },
    status: { replicas: replicas(paths.status), ...(typeof selector === 'string' ? { selector } : {}) },
  };
}

const maxReplicas = 2_147_483_647;

/** The numbers that a Scale shows must be some that it can hold. The dot in front of the path is Kubernetes'. */
export function scaleErrors(object: ApiObject, { scale }: ApiResource): readonly FieldError[] {
  return (scale === undefined ? [] : [scale.spec, scale.status]).flatMap((path) => {
    const replicas = valueAt(object, path);
    if (typeof replicas !== 'number') return [];
    const field = `.${path.join('.')}`;
    if (replicas < 0) return [invalidValue(field, replicas, 'should be a non-negative integer')];
    return replicas > maxReplicas ? [invalidValue(field, replicas, `should be less than or equal to ${maxReplicas}`)] : [];
  });
}

/** The object with the number of replicas that a Scale asks for. Its metadata is the Scale's: a version in it is a precondition. */
export function withScale(object: ApiObject, scale: JsonObject, paths: ScalePaths): JsonObject {
  const replicas = numberAt(scale['spec'], 'replicas') ?? 0;
  const { name, namespace, uid, resourceVersion } = objectAt(scale, 'metadata') ?? {};
  const claimed = Object.fromEntries(Object.entries({ name, namespace, uid, resourceVersion }).filter(([, value]) => value !== undefined));
  return { ...withValueAt(object, paths.spec, replicas), metadata: { ...object.metadata, ...claimed } };
}
