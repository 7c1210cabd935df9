import type { PersistentVolumeClaim } from '@conversation-operator/kube/core';
import { equal } from '../json/json.ts';
import {
  forbiddenField,
  invalidValue,
  notSupported,
  required,
  type FieldError,
} from '../schema/field-error.ts';
import {
  type ColumnWithCell,
  type Decoded,
  ageColumn,
  columnOf,
  nameColumn,
} from './api-resource.ts';
import { canonicalQuantity, parseQuantity } from './quantity.ts';

type Claim = Decoded<PersistentVolumeClaim>;
type ClaimSpec = NonNullable<Claim['spec']>;

const accessModes: Readonly<Record<string, string>> = {
  ReadOnlyMany: 'ROX',
  ReadWriteMany: 'RWX',
  ReadWriteOnce: 'RWO',
  ReadWriteOncePod: 'RWOP',
};

function storageErrors({ resources }: ClaimSpec): FieldError[] {
  const field = 'spec.resources[storage]';
  const storage = resources?.requests?.['storage'];
  if (storage === undefined) return [required(field)];
  const quantity = parseQuantity(storage);
  return quantity !== undefined && quantity.nanos > 0n
    ? []
    : [invalidValue(field, storage, 'must be greater than zero')];
}

/**
 * Returns an error if the spec has changed. A bound claim may change its `resources` and
 * `volumeAttributesClassName`. Every claim may set an absent `volumeName` or `storageClassName`.
 */
function changeErrors(spec: ClaimSpec, old: Claim): FieldError[] {
  const { spec: before = {} } = old;
  const isBound = old.status?.phase === 'Bound';
  const fixed = ({ volumeName, storageClassName, ...rest }: ClaimSpec): ClaimSpec => ({
    ...rest,
    ...(before.volumeName === undefined ? {} : { volumeName }),
    ...(before.storageClassName === undefined ? {} : { storageClassName }),
    ...(isBound ? { resources: {}, volumeAttributesClassName: '' } : {}),
  });
  return equal(fixed(spec), fixed(before))
    ? []
    : [
        forbiddenField(
          'spec',
          'spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims',
        ),
      ];
}

export function claimErrors({ spec = {} }: Claim, old: Claim | undefined): readonly FieldError[] {
  const { accessModes: modes = [] } = spec;
  return [
    ...(modes.length === 0
      ? [required('spec.accessModes', 'at least 1 access mode is required')]
      : []),
    ...modes
      .filter((mode) => accessModes[mode] === undefined)
      .map((mode) => notSupported('spec.accessModes', mode, Object.keys(accessModes))),
    ...storageErrors(spec),
    ...(old === undefined ? [] : changeErrors(spec, old)),
  ];
}

export function claimDefaults(claim: Claim): Claim {
  const { spec } = claim;
  if (spec === undefined) return claim;
  const { resources = {} } = spec;
  const storage = resources.requests?.['storage'];
  const requests =
    storage === undefined
      ? {}
      : { requests: { ...resources.requests, storage: canonicalQuantity(storage) } };
  return {
    ...claim,
    spec: { volumeMode: 'Filesystem', ...spec, resources: { ...resources, ...requests } },
  };
}

export const claimColumns: readonly ColumnWithCell<Claim>[] = [
  nameColumn,
  columnOf('Status', ({ metadata, status }) =>
    metadata.deletionTimestamp === undefined ? status?.phase : 'Terminating',
  ),
  columnOf('Volume', ({ spec }) => spec?.volumeName),
  columnOf('Capacity', ({ status }) => status?.capacity?.['storage']),
  columnOf('Access Modes', ({ status }) =>
    status?.accessModes?.map((mode) => accessModes[mode] ?? mode).join(','),
  ),
  columnOf('StorageClass', ({ spec }) => spec?.storageClassName),
  columnOf('VolumeAttributesClass', ({ spec }) => spec?.volumeAttributesClassName ?? '<unset>'),
  ageColumn,
  columnOf('VolumeMode', ({ spec }) => spec?.volumeMode, 1),
];
