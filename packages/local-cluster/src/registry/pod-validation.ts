import { equal } from '../json/json.ts';
import {
  duplicate,
  forbiddenField,
  invalidValue,
  notFoundField,
  notSupported,
  required,
  type FieldError,
} from '../schema/field-error.ts';
import type { Container, Pod } from './pod.ts';
import { parseQuantity } from './quantity.ts';

type PodSpec = NonNullable<Pod['spec']>;
interface Named {
  readonly name?: string;
}

/** Returns the errors of items without a name or with the name of an earlier item. */
function nameErrors(items: readonly Named[], path: string): FieldError[] {
  const seen = new Set<string>();
  return items.flatMap(({ name = '' }, index) => {
    const field = `${path}[${index}].name`;
    if (name === '') return [required(field)];
    if (seen.has(name)) return [duplicate(field, name)];
    seen.add(name);
    return [];
  });
}

const missing = (value: string | undefined, field: string): FieldError[] =>
  value === undefined || value === '' ? [required(field)] : [];

const portErrors = ({ ports = [] }: Container, path: string): FieldError[] =>
  ports.flatMap(({ containerPort = 0 }, index) => {
    const field = `${path}.ports[${index}].containerPort`;
    if (containerPort === 0) return [required(field)];
    return containerPort < 1 || containerPort > 65_535
      ? [invalidValue(field, containerPort, 'must be between 1 and 65535, inclusive')]
      : [];
  });

function resourceErrors({ resources = {} }: Container, path: string): FieldError[] {
  const { limits = {}, requests = {} } = resources;
  return Object.entries(requests).flatMap(([name, request]) => {
    const limit = limits[name];
    const [requested, max] = [parseQuantity(request ?? ''), parseQuantity(limit ?? '')];
    if (requested === undefined || max === undefined || requested.nanos <= max.nanos) return [];
    return [
      invalidValue(
        `${path}.resources.requests`,
        request,
        `must be less than or equal to ${name} limit of ${limit ?? ''}`,
      ),
    ];
  });
}

const mountErrors = (
  { volumeMounts = [] }: Container,
  path: string,
  volumes: ReadonlySet<string>,
): FieldError[] =>
  volumeMounts.flatMap(({ name = '', mountPath }, index) => {
    const at = `${path}.volumeMounts[${index}]`;
    const isUnknown = name !== '' && !volumes.has(name);
    return [
      ...missing(name, `${at}.name`),
      ...(isUnknown ? [notFoundField(`${at}.name`, name)] : []),
      ...missing(mountPath, `${at}.mountPath`),
    ];
  });

const containerErrors = (
  containers: readonly Container[],
  path: string,
  volumes: ReadonlySet<string>,
): FieldError[] => [
  ...nameErrors(containers, path),
  ...containers.flatMap((container, index) => {
    const at = `${path}[${index}]`;
    const { image, env = [] } = container;
    return [
      ...missing(image, `${at}.image`),
      ...env.flatMap(({ name }, position) => missing(name, `${at}.env[${position}].name`)),
      ...portErrors(container, at),
      ...resourceErrors(container, at),
      ...mountErrors(container, at, volumes),
    ];
  }),
];

const policies = ['Always', 'OnFailure', 'Never'];

export function podErrors({ spec = {} }: Pod, old: Pod | undefined): readonly FieldError[] {
  const { containers = [], initContainers = [], volumes = [], restartPolicy = 'Always' } = spec;
  const volumeNames = new Set(volumes.map(({ name = '' }) => name));
  return [
    ...nameErrors(volumes, 'spec.volumes'),
    ...(containers.length === 0 ? [required('spec.containers')] : []),
    ...containerErrors(containers, 'spec.containers', volumeNames),
    ...containerErrors(initContainers, 'spec.initContainers', volumeNames),
    ...(policies.includes(restartPolicy)
      ? []
      : [notSupported('spec.restartPolicy', restartPolicy, policies)]),
    ...(old === undefined ? [] : changeErrors(spec, old.spec ?? {})),
  ];
}

const withoutImage = (container: Container): Container => ({ ...container, image: '' });

/** Returns the spec with constants for the fields that may change after the creation of the pod. */
const frozen = ({ containers = [], initContainers = [], ...spec }: PodSpec): PodSpec => ({
  ...spec,
  activeDeadlineSeconds: 0,
  tolerations: [],
  terminationGracePeriodSeconds: 0,
  containers: containers.map(withoutImage),
  initContainers: initContainers.map(withoutImage),
});

const changeErrors = (spec: PodSpec, old: PodSpec): FieldError[] =>
  equal(frozen(spec), frozen(old))
    ? []
    : [
        forbiddenField(
          'spec',
          'pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)',
        ),
      ];
