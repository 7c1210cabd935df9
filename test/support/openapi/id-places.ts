import type { OpenApi, Operation, Schema } from './document.ts';

/** A place in which a request names something by an id. */
export interface IdPlace {
  readonly operation: Operation;
  readonly in: 'path' | 'query' | 'header' | 'body';
  readonly name: string;
}

const isId = (name: string): boolean =>
  /(^|_)ids?(__\w+)?$/.test(name) || name === 'idempotency-key';

/** `getThing path id`, unique in a document. */
export const labelOf = ({ operation, in: where, name }: IdPlace): string =>
  `${operation.operationId} ${where} ${name}`;

/** Every one that the document has, so that a new one can't be overlooked. */
export const idPlacesOf = (document: OpenApi, operation: Operation): readonly IdPlace[] => [
  ...operation.parameters
    .filter(({ name }) => isId(name))
    .map((parameter) => ({ operation, in: parameter.in, name: parameter.name })),
  ...namesIn(document, operation.requestBody?.content['application/json']?.schema ?? {})
    .filter(isId)
    .map((name) => ({ operation, in: 'body' as const, name })),
];

/** Names of properties, at any depth. */
function namesIn(document: OpenApi, schema: unknown): readonly string[] {
  if (Array.isArray(schema)) return schema.flatMap((item) => namesIn(document, item));
  if (typeof schema !== 'object' || schema === null) return [];
  const { $ref, properties = {} } = schema as Schema & { readonly properties?: object };
  if (typeof $ref === 'string')
    return namesIn(document, document.components.schemas[$ref.split('/').at(-1) ?? '']);
  return [
    ...Object.keys(properties),
    ...Object.values(schema).flatMap((value) => namesIn(document, value)),
  ];
}
