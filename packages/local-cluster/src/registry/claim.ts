import type { ApiObject } from '../api/api-object.ts';
import { arrayAt, equal, objectAt, stringAt, without, type JsonObject } from '../json/json.ts';
import {
  forbiddenField,
  invalidValue,
  notSupported,
  required,
  type FieldError,
} from '../schema/field-error.ts';
import { canonicalQuantity, parseQuantity } from './quantity.ts';

/** Defaults and validation of PersistentVolumeClaims. */

const accessModes = ['ReadOnlyMany', 'ReadWriteMany', 'ReadWriteOnce', 'ReadWriteOncePod'];

const storageOf = (spec: JsonObject): string | undefined => {
  const storage = objectAt(objectAt(spec, 'resources'), 'requests')?.['storage'];
  return typeof storage === 'string' || typeof storage === 'number' ? String(storage) : undefined;
};

function storageErrors(spec: JsonObject): FieldError[] {
  const field = 'spec.resources[storage]';
  const storage = storageOf(spec);
  if (storage === undefined) return [required(field)];
  const quantity = parseQuantity(storage);
  return quantity !== undefined && quantity.nanos > 0n
    ? []
    : [invalidValue(field, storage, 'must be greater than zero')];
}

/**
 * Returns the errors of a change. The size and the attributes class of a bound claim may change,
 * and fields that the server sets may be set once.
 */
function changeErrors(spec: JsonObject, old: ApiObject): FieldError[] {
  const before = objectAt(old, 'spec') ?? {};
  const bound = stringAt(old['status'], 'phase') === 'Bound';
  const filled = ['volumeName', 'storageClassName'].filter((key) => before[key] === undefined);
  const free = [...filled, ...(bound ? ['resources', 'volumeAttributesClassName'] : [])];
  return equal(without(spec, ...free), without(before, ...free))
    ? []
    : [
        forbiddenField(
          'spec',
          'spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims',
        ),
      ];
}

export function claimErrors(claim: ApiObject, old: ApiObject | undefined): readonly FieldError[] {
  const spec = objectAt(claim, 'spec') ?? {};
  const modes = arrayAt(spec, 'accessModes');
  return [
    ...(modes.length === 0
      ? [required('spec.accessModes', 'at least 1 access mode is required')]
      : []),
    ...modes
      .filter((mode) => typeof mode !== 'string' || !accessModes.includes(mode))
      .map((mode) => notSupported('spec.accessModes', mode, accessModes)),
    ...storageErrors(spec),
    ...(old === undefined ? [] : changeErrors(spec, old)),
  ];
}

export function claimDefaults(claim: JsonObject): JsonObject {
  const spec = objectAt(claim, 'spec');
  if (spec === undefined) return claim;
  const storage = storageOf(spec);
  const resources = objectAt(spec, 'resources') ?? {};
  const requests = objectAt(resources, 'requests');
  return {
    ...claim,
    spec: {
      volumeMode: 'Filesystem',
      ...spec,
      resources:
        storage === undefined
          ? resources
          : { ...resources, requests: { ...requests, storage: canonicalQuantity(storage) } },
    },
  };
}

export const claimInitial = (claim: ApiObject): ApiObject => ({
  ...claim,
  status: { phase: 'Pending' },
});
