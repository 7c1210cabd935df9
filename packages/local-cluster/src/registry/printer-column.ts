import type { ApiObject } from '../api/api-object.ts';
import { isArray, type Json } from '../json/json.ts';
import { findAll, parseJsonPath } from '../json/json-path.ts';
import { ageOf } from '@conversation-operator/kube/human-duration';
import type { ColumnWithCell } from './api-resource.ts';

export const nameColumn: ColumnWithCell = {
  name: 'Name',
  type: 'string',
  format: 'name',
  description: 'Name must be unique within a namespace.',
  priority: 0,
  cell: ({ metadata }) => metadata.name,
};

export const ageColumn: ColumnWithCell = {
  name: 'Age',
  type: 'string',
  description: 'Time since creation.',
  priority: 0,
  cell: ({ metadata }, nowMs) => ageOf(metadata.creationTimestamp, nowMs),
};

/**
 * Returns the cell for the first value at the path, as the API server prints it for the type of the
 * column.
 */
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
      return text(value);
  }
}

const text = (value: Json): string =>
  typeof value === 'object' ? JSON.stringify(isArray(value) ? value : value) : String(value);

interface PrinterColumn {
  readonly name: string;
  readonly type: string;
  readonly jsonPath: string;
  readonly format?: string;
  readonly description?: string;
  readonly priority?: number;
}

/** Creates a column of a CustomResourceDefinition. @throws SyntaxError for an unsupported path */
export function printerColumn({
  name,
  type,
  jsonPath,
  format,
  description,
  priority,
}: PrinterColumn): ColumnWithCell {
  const path = parseJsonPath(jsonPath);
  return {
    name,
    type,
    ...(format === undefined ? {} : { format }),
    description: description ?? '',
    priority: priority ?? 0,
    cell: (object: ApiObject, nowMs) => cellOf(findAll(object, path), type, nowMs),
  };
}
