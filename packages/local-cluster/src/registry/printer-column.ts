import type { Json } from '../json/json.ts';
import { ageOf } from '@conversation-operator/kube/human-duration';
import type { Meta } from '../api/api-object.ts';
import { findAll, parseJsonPath } from '../json/json-path.ts';
import type { Column, ColumnWithCell } from './api-resource.ts';

type ColumnOfAnyKind = ColumnWithCell<{ readonly metadata: Meta }>;

export const nameColumn: ColumnOfAnyKind = {
  name: 'Name',
  type: 'string',
  format: 'name',
  description: 'Name must be unique within a namespace.',
  priority: 0,
  cell: ({ metadata }) => metadata.name,
};

export const ageColumn: ColumnOfAnyKind = {
  name: 'Age',
  type: 'string',
  description: 'Time since creation.',
  priority: 0,
  cell: ({ metadata }, nowMs) => ageOf(metadata.creationTimestamp, nowMs),
};

/** Creates a column of texts; an absent value is shown as an empty text. */
export const columnOf = <T>(
  name: string,
  cell: (object: T, nowMs: number) => string | number | undefined,
  priority = 0,
): ColumnWithCell<T> => ({
  ...{ name, type: 'string', description: name, priority },
  cell: (object, nowMs) => cell(object, nowMs) ?? '',
});

/** Cell for the first value at the path, as the API server prints the column's type. */
function cellOf(
  [value]: readonly Json[],
  type: string,
  nowMs: number,
): string | number | boolean | null {
  if (value === undefined || value === null) return null;
  switch (type) {
    case 'integer':
    case 'number':
      return typeof value === 'number' ? value : Number(value);
    case 'boolean':
      return typeof value === 'boolean' ? value : null;
    case 'date':
      return ageOf(value, nowMs);
    default:
      return typeof value === 'object' ? JSON.stringify(value) : String(value);
  }
}

/** Creates a column of a CustomResourceDefinition. @throws SyntaxError for an unsupported path */
export function printerColumn(jsonPath: string, column: Column): ColumnWithCell {
  const path = parseJsonPath(jsonPath);
  return {
    ...column,
    cell: (object, nowMs) => cellOf(findAll(object, path), column.type, nowMs),
  };
}
