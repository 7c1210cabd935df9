import { STATUS_CODES } from 'node:http';

/**
 * The values of a label: a closed set, or for values that another process chooses a function whose
 * results form a bounded set.
 */
export type LabelRule = readonly string[] | ((value: string) => string);

/** Value of a label in the place of all values that its rule does not know. */
export const otherValue = 'other';

/** Function that returns a value of the closed set as it is, and `other` for the rest. */
export function oneOf(values: readonly string[]): (value: string) => string {
  const known = new Set(values);
  return (value) => (known.has(value) ? value : otherValue);
}

/**
 * Function that returns the first `max` values as they are, and `other` for later ones. Only for
 * names that the code of other rooms defines, for example routes.
 */
export function firstValues(max: number): (value: string) => string {
  const known = new Set<string>();
  return (value) => {
    if (known.size < max) known.add(value);
    return known.has(value) ? value : otherValue;
  };
}

/** The methods of RFC 9110, and PATCH. */
export const httpMethod = oneOf([
  ...['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'CONNECT', 'TRACE'],
]);

/**
 * A status that Node knows as it is, `0` for a missing response, another status from 100 to 599 by
 * its class, such as `4xx`, and `other` for the rest.
 */
export function httpStatus(status: string): string {
  if (status === '0' || Object.hasOwn(STATUS_CODES, status)) return status;
  return /^[1-5]\d\d$/.test(status) ? `${status.charAt(0)}xx` : otherValue;
}
