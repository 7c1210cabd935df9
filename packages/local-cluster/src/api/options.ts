import { isObject, numberAt, objectAt, stringAt, type Json } from '../json/json.ts';
import type { FieldValidation } from './decode.ts';
import type { DeleteOptions } from './deletion.ts';
import { StatusError } from './status-error.ts';

/** Options of a request, validated as in apimachinery `metav1/validation`. */

type Kind = 'CreateOptions' | 'UpdateOptions' | 'PatchOptions' | 'DeleteOptions' | 'ListOptions';

const invalidOption = (kind: Kind, text: string): StatusError =>
  new StatusError(422, 'Invalid', `${kind}.meta.k8s.io "" is invalid: ${text}`);

export const isTrue = (text: string | null): boolean =>
  text === 'true' || text === '1' || text === '';

const writeKinds: Readonly<Record<string, Kind>> = {
  POST: 'CreateOptions',
  PUT: 'UpdateOptions',
  PATCH: 'PatchOptions',
};
const kindOf = (method: string): Kind => writeKinds[method] ?? 'DeleteOptions';

function dryRunOf(values: readonly string[], kind: Kind): boolean {
  const given = values.filter((value) => value !== '');
  if (given.every((value) => value === 'All')) return given.length > 0;
  throw invalidOption(
    kind,
    `dryRun: Unsupported value: ${JSON.stringify(given)}: supported values: "All"`,
  );
}

/** @throws StatusError 422 for an invalid value */
export const writeOptions = (
  query: URLSearchParams,
  method: string,
): { readonly dryRun: boolean } => ({
  dryRun: dryRunOf(query.getAll('dryRun'), kindOf(method)),
});

/** @throws StatusError 422 for an invalid value */
export function validationOf(query: URLSearchParams, method: string): FieldValidation {
  const value = query.get('fieldValidation');
  if (value === null || value === '') return 'Warn';
  if (value === 'Strict' || value === 'Warn' || value === 'Ignore') return value;
  throw invalidOption(
    kindOf(method),
    `fieldValidation: Unsupported value: ${JSON.stringify(value)}: supported values: "", "Ignore", "Strict", "Warn"`,
  );
}

const maxManagerBytes = 128;

/**
 * Returns the field manager of a request, '' when the request names none. @throws StatusError 422
 * for an invalid name
 */
export function fieldManagerOf(query: URLSearchParams, method: string): string {
  const name = query.get('fieldManager') ?? '';
  if (Buffer.byteLength(name) > maxManagerBytes)
    throw invalidOption(
      kindOf(method),
      `fieldManager: Too long: may not be more than ${maxManagerBytes} bytes`,
    );
  if (/[\p{C}\p{Zl}\p{Zp}]/u.test(name))
    throw invalidOption(
      kindOf(method),
      `fieldManager: Invalid value: ${JSON.stringify(name)}: should only contain printable characters`,
    );
  return name;
}

/** Returns the field manager of an apply, which requires one. */
export function applyManagerOf(query: URLSearchParams): string {
  const manager = fieldManagerOf(query, 'PATCH');
  if (manager === '')
    throw invalidOption(
      'PatchOptions',
      'fieldManager: Required value: is required for apply patch',
    );
  return manager;
}

export function rejectForce(query: URLSearchParams): void {
  if (query.get('force') !== null)
    throw invalidOption(
      'PatchOptions',
      'force: Forbidden: may not be specified for non-apply patch',
    );
}

const policies = ['Background', 'Foreground', 'Orphan'];

/**
 * Returns the options of a deletion from the body, or from the query as older clients send them.
 */
export function deleteOptions(query: URLSearchParams, sent: Json): DeleteOptions {
  const preconditions = objectAt(sent, 'preconditions');
  const uid = stringAt(preconditions, 'uid');
  const resourceVersion = stringAt(preconditions, 'resourceVersion');
  const queried = query.get('gracePeriodSeconds');
  const grace =
    numberAt(sent, 'gracePeriodSeconds') ?? (queried === null ? undefined : Number(queried));
  const orphans = isObject(sent) ? sent['orphanDependents'] : undefined;
  const named = stringAt(sent, 'propagationPolicy') ?? query.get('propagationPolicy') ?? undefined;
  if (named !== undefined && typeof orphans === 'boolean') {
    throw invalidOption(
      'DeleteOptions',
      `propagationPolicy: Invalid value: ${JSON.stringify(named)}: orphanDependents and deletionPropagation cannot be both set`,
    );
  }
  const policy = named ?? (orphans === true ? 'Orphan' : undefined);
  if (policy !== undefined && !policies.includes(policy)) {
    throw invalidOption(
      'DeleteOptions',
      `propagationPolicy: Unsupported value: ${JSON.stringify(policy)}: supported values: "Foreground", "Background", "Orphan", "nil"`,
    );
  }
  const dryRun =
    isObject(sent) && Array.isArray(sent['dryRun'])
      ? sent['dryRun'].map(String)
      : query.getAll('dryRun');
  return {
    dryRun: dryRunOf(dryRun, 'DeleteOptions'),
    ...(uid === undefined ? {} : { uid }),
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
    ...(grace === undefined ? {} : { gracePeriodSeconds: grace }),
    ...(policy === undefined ? {} : { propagationPolicy: policy }),
  };
}

/** @throws StatusError 422 for an invalid combination of options */
export function checkListOptions(query: URLSearchParams, watching: boolean): void {
  const match = query.get('resourceVersionMatch') ?? '';
  const version = query.get('resourceVersion') ?? '';
  const isInitial = query.get('sendInitialEvents') !== null;
  const refuseIf = (refused: boolean, text: string, field = 'resourceVersionMatch'): void => {
    if (refused) throw invalidOption('ListOptions', `${field}: ${text}`);
  };
  const unsupported = (supported: string) =>
    `Unsupported value: ${JSON.stringify(match)}: supported values: ${supported}`;
  const forbidden = 'Forbidden: resourceVersionMatch is forbidden';
  if (watching) {
    refuseIf(
      match !== '' && !isInitial,
      `${forbidden} for watch unless sendInitialEvents is provided`,
    );
    refuseIf(
      isInitial && match === '',
      'Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan',
    );
    refuseIf(isInitial && match !== 'NotOlderThan', unsupported('"NotOlderThan"'));
    return;
  }
  refuseIf(isInitial, 'Forbidden: sendInitialEvents is forbidden for list', 'sendInitialEvents');
  if (match === '') return;
  refuseIf(
    match !== 'Exact' && match !== 'NotOlderThan',
    unsupported('"Exact", "NotOlderThan", ""'),
  );
  refuseIf(version === '', `${forbidden} unless resourceVersion is provided`);
  refuseIf((query.get('continue') ?? '') !== '', `${forbidden} when continue is provided`);
  refuseIf(
    match === 'Exact' && version === '0',
    'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
  );
}
