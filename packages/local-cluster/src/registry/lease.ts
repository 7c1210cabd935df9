import type { ApiObject } from '../api/api-object.ts';
import { numberAt } from '../json/json.ts';
import { invalidValue, type FieldError } from '../schema/field-error.ts';

export function leaseErrors(lease: ApiObject): readonly FieldError[] {
  const duration = numberAt(lease['spec'], 'leaseDurationSeconds');
  const transitions = numberAt(lease['spec'], 'leaseTransitions');
  return [
    ...(duration !== undefined && duration <= 0
      ? [invalidValue('spec.leaseDurationSeconds', duration, 'must be greater than 0')]
      : []),
    ...(transitions !== undefined && transitions < 0
      ? [invalidValue('spec.leaseTransitions', transitions, 'must be greater than or equal to 0')]
      : []),
  ];
}
