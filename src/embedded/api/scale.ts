import { numberAt, objectAt, valueAt, withValueAt, type JsonObject } from '../json/json.ts';
import type { ScalePaths } from '../registry/api-resource.ts';
import { invalidValue } from '../schema/field-error.ts';
import type { ApiObject } from './api-object.ts';
import { invalid } from './status-error.ts';

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

/** The object with the number of replicas that a Scale asks for. Its metadata is the Scale's: a version in it is a precondition. */
export function withScale(object: ApiObject, scale: JsonObject, paths: ScalePaths): JsonObject {
  const replicas = numberAt(scale['spec'], 'replicas') ?? 0;
  if (!Number.isInteger(replicas) || replicas < 0) {
    const subject = { group: 'autoscaling', plural: 'scales', kind: 'Scale' };
    throw invalid(subject, object.metadata.name, [invalidValue('spec.replicas', replicas, 'must be greater than or equal to 0')]);
  }
  const { name, namespace, uid, resourceVersion } = objectAt(scale, 'metadata') ?? {};
  const claimed = Object.fromEntries(Object.entries({ name, namespace, uid, resourceVersion }).filter(([, value]) => value !== undefined));
  return { ...withValueAt(object, paths.spec, replicas), metadata: { ...object.metadata, ...claimed } };
}
