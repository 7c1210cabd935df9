export type Schema = Readonly<Record<string, unknown>>;

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required: boolean;
  readonly schema: Schema;
}

export interface ResponseObject {
  readonly headers: Readonly<Record<string, { readonly $ref: string }>>;
  readonly content: Readonly<Record<string, { readonly schema: Schema }>>;
}

export interface Operation {
  readonly method: string;
  readonly path: string;
  readonly operationId: string;
  readonly parameters: readonly Parameter[];
  readonly requestBody?: {
    readonly required: boolean;
    readonly content: Readonly<Record<string, { readonly schema: Schema }>>;
  };
  readonly responses: Readonly<Record<string, ResponseObject>>;
  /** Empty where no key is needed. */
  readonly security?: readonly unknown[];
}

/** As much of an OpenAPI 3.1 document as tests read. */
export interface OpenApi {
  readonly openapi: string;
  readonly paths: Readonly<
    Record<string, Readonly<Record<string, Omit<Operation, 'method' | 'path'>>>>
  >;
  readonly components: {
    readonly headers: Readonly<
      Record<string, { readonly required?: boolean; readonly schema: Schema }>
    >;
    readonly schemas: Readonly<Record<string, Schema>>;
  };
}

export const operationsOf = ({ paths }: OpenApi): readonly Operation[] =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      ...operation,
      method: method.toUpperCase(),
      path,
    })),
  );

const patternOf = (path: string): RegExp =>
  new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}/?$`, 'i');

/** The operation that a request reaches: a path without parameters wins, whatever its methods. */
export function operationAt(
  operations: readonly Operation[],
  method: string,
  target: string,
): Operation | undefined {
  const [path = ''] = target.split('?');
  const matching = operations.filter((operation) => patternOf(operation.path).test(path));
  const plain = matching.filter((operation) => !operation.path.includes('{'));
  return (plain.length > 0 ? plain : matching).find((operation) => operation.method === method);
}

/** The parts of a JSON pointer, escaped. */
export const pointer = (...parts: readonly string[]): string =>
  parts
    .map((part) => `/${encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))}`)
    .join('');
