import type { ApiObject } from '../api/api-object.ts';
import {
  arrayAt,
  equal,
  isArray,
  isObject,
  numberAt,
  objectAt,
  stringAt,
  type Json,
  type JsonObject,
} from '../json/json.ts';
import {
  duplicate,
  forbiddenField,
  invalidValue,
  notFoundField,
  notSupported,
  required,
  type FieldError,
} from '../schema/field-error.ts';
import { parseQuantity } from './quantity.ts';

/** Returns the errors of items without a name or with the name of an earlier item. */
function nameErrors(items: readonly Json[], path: string): FieldError[] {
  const seen = new Set<string>();
  return items.flatMap((item, index) => {
    const name = stringAt(item, 'name') ?? '';
    const field = `${path}[${index}].name`;
    if (name === '') return [required(field)];
    if (seen.has(name)) return [duplicate(field, name)];
    seen.add(name);
    return [];
  });
}

function portErrors(container: Json, path: string): FieldError[] {
  return arrayAt(container, 'ports').flatMap((port, index) => {
    const number = numberAt(port, 'containerPort') ?? 0;
    const field = `${path}.ports[${index}].containerPort`;
    if (number === 0) return [required(field)];
    return number < 1 || number > 65_535
      ? [invalidValue(field, number, 'must be between 1 and 65535, inclusive')]
      : [];
  });
}

function resourceErrors(container: Json, path: string): FieldError[] {
  const resources = objectAt(container, 'resources');
  const limits = objectAt(resources, 'limits') ?? {};
  return Object.entries(objectAt(resources, 'requests') ?? {}).flatMap(([name, request]) => {
    const limit = limits[name];
    if (typeof request !== 'string' || typeof limit !== 'string') return [];
    const [requested, max] = [parseQuantity(request), parseQuantity(limit)];
    if (requested === undefined || max === undefined || requested.nanos <= max.nanos) return [];
    return [
      invalidValue(
        `${path}.resources.requests`,
        request,
        `must be less than or equal to ${name} limit of ${limit}`,
      ),
    ];
  });
}

function mountErrors(container: Json, path: string, volumes: ReadonlySet<string>): FieldError[] {
  return arrayAt(container, 'volumeMounts').flatMap((mount, index) => {
    const name = stringAt(mount, 'name') ?? '';
    const at = `${path}.volumeMounts[${index}]`;
    return [
      ...(name === ''
        ? [required(`${at}.name`)]
        : volumes.has(name)
          ? []
          : [notFoundField(`${at}.name`, name)]),
      ...((stringAt(mount, 'mountPath') ?? '') === '' ? [required(`${at}.mountPath`)] : []),
    ];
  });
}

function containerErrors(
  containers: readonly Json[],
  path: string,
  volumes: ReadonlySet<string>,
): FieldError[] {
  return [
    ...nameErrors(containers, path),
    ...containers.flatMap((container, index) => {
      const at = `${path}[${index}]`;
      return [
        ...((stringAt(container, 'image') ?? '') === '' ? [required(`${at}.image`)] : []),
        ...arrayAt(container, 'env').flatMap((variable, position) =>
          (stringAt(variable, 'name') ?? '') === ''
            ? [required(`${at}.env[${position}].name`)]
            : [],
        ),
        ...portErrors(container, at),
        ...resourceErrors(container, at),
        ...mountErrors(container, at, volumes),
      ];
    }),
  ];
}

const policies = ['Always', 'OnFailure', 'Never'];

export function podErrors(pod: ApiObject, old: ApiObject | undefined): readonly FieldError[] {
  const spec = objectAt(pod, 'spec');
  const containers = arrayAt(spec, 'containers');
  const policy = stringAt(spec, 'restartPolicy') ?? 'Always';
  const volumes = arrayAt(spec, 'volumes');
  const volumeNames = new Set(volumes.map((volume) => stringAt(volume, 'name') ?? ''));
  return [
    ...nameErrors(volumes, 'spec.volumes'),
    ...(containers.length === 0 ? [required('spec.containers')] : []),
    ...containerErrors(containers, 'spec.containers', volumeNames),
    ...containerErrors(arrayAt(spec, 'initContainers'), 'spec.initContainers', volumeNames),
    ...(policies.includes(policy) ? [] : [notSupported('spec.restartPolicy', policy, policies)]),
    ...(old === undefined ? [] : changeErrors(spec ?? {}, objectAt(old, 'spec') ?? {})),
  ];
}

/** Fields of the spec of a pod that may change after its creation. */
const mutable: ReadonlySet<string> = new Set([
  'activeDeadlineSeconds',
  'tolerations',
  'terminationGracePeriodSeconds',
]);

function changeErrors(spec: JsonObject, old: JsonObject): FieldError[] {
  const frozen = (value: JsonObject): JsonObject =>
    Object.fromEntries(
      Object.entries(value)
        .filter(([key]) => !mutable.has(key))
        .map(([key, field]) => [
          key,
          key === 'containers' || key === 'initContainers'
            ? (isArray(field) ? field : []).map((container) =>
                isObject(container) ? { ...container, image: '' } : container,
              )
            : field,
        ]),
    );
  return equal(frozen(spec), frozen(old))
    ? []
    : [
        forbiddenField(
          'spec',
          'pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)',
        ),
      ];
}
