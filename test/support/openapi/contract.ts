import type { IncomingHttpHeaders } from 'node:http';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { operationAt, operationsOf, pointer, type OpenApi, type Operation } from './document.ts';

export interface SeenAnswer {
  readonly method: string;
  readonly target: string;
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** Headers that HTTP itself, browsers and caches ask for; no document lists them. */
const transportHeaders: ReadonlySet<string> = new Set([
  ...[
    'connection',
    'keep-alive',
    'date',
    'content-type',
    'content-length',
    'transfer-encoding',
    'cache-control',
    'etag',
    'vary',
  ],
  ...['x-content-type-options', 'x-accel-buffering', 'x-frame-options', 'referrer-policy'],
  ...['content-security-policy', 'cross-origin-opener-policy'],
]);

/** The schema with every object closed: what a document does not name is then an error. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== 'object' || schema === null) return schema;
  const copy = Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [key, closed(value)]),
  );
  return 'properties' in copy && !('additionalProperties' in copy)
    ? { ...copy, additionalProperties: false }
    : copy;
}

const problemType = 'application/problem+json';
const isJson = (mediaType: string): boolean => /^application\/(problem\+)?json$/.test(mediaType);
const mediaTypeOf = ({ headers }: SeenAnswer): string =>
  headers['content-type']?.split(';')[0]?.trim() ?? '';

/** Says what is wrong with an answer, by the document and nothing else. */
export class Contract {
  readonly operations: readonly Operation[];
  readonly #document: OpenApi;
  readonly #answers = new Ajv2020({ strict: false, validateFormats: false });
  readonly #requests = new Ajv2020({ strict: false, validateFormats: false });

  constructor(document: OpenApi) {
    this.#document = document;
    this.operations = operationsOf(document);
    // `closed` keeps the shape; only further keywords are added.
    this.#answers.addSchema({ ...(closed(document) as object), $id: 'answers' });
    this.#requests.addSchema({ ...document, $id: 'requests' });
  }

  /** Whether the document allows this as the operation's body. */
  allowsBody({ path, method }: Operation, body: unknown): boolean {
    const at = pointer(
      'paths',
      path,
      method.toLowerCase(),
      'requestBody',
      'content',
      'application/json',
      'schema',
    );
    return this.#compiled(this.#requests, `requests#${at}`)(body);
  }

  /** The fault of an answer; undefined where the answer is as documented. */
  fault(answer: SeenAnswer): string | undefined {
    const operation = operationAt(this.operations, answer.method, answer.target);
    if (operation === undefined) return this.#faultOfNoOperation(answer);
    const { path, method, operationId } = operation;
    const documented = operation.responses[String(answer.status)];
    if (documented === undefined) return `${operationId} documents no status ${answer.status}`;
    const mediaType = mediaTypeOf(answer);
    if (Object.keys(documented.content).length === 0)
      return answer.body.length === 0 ? undefined : `${operationId} documents no content`;
    if (!(mediaType in documented.content))
      return `${operationId} documents no ${mediaType || 'empty'} content for ${answer.status}`;
    const at = pointer(
      'paths',
      path,
      method.toLowerCase(),
      'responses',
      String(answer.status),
      'content',
      mediaType,
      'schema',
    );
    return (
      this.#headerFault(answer.headers, documented.headers) ??
      (isJson(mediaType) ? this.#bodyFault(`answers#${at}`, answer) : undefined)
    );
  }

  /** The answer is of no documented path or method. */
  #faultOfNoOperation(answer: SeenAnswer): string | undefined {
    if (![400, 404, 405, 410, 415].includes(answer.status))
      return `no operation is documented there, and it is answered by ${answer.status}`;
    if ((answer.status === 405) !== (answer.headers.allow !== undefined))
      return 'Allow belongs to 405 alone';
    if (mediaTypeOf(answer) !== problemType) return `a problem is no ${mediaTypeOf(answer)}`;
    return this.#bodyFault('answers#/components/schemas/Problem', answer);
  }

  #headerFault(
    headers: IncomingHttpHeaders,
    documented: Readonly<Record<string, { readonly $ref: string }>>,
  ): string | undefined {
    const known = new Set(Object.keys(documented).map((name) => name.toLowerCase()));
    for (const name of Object.keys(headers)) {
      if (!known.has(name) && !transportHeaders.has(name) && !name.startsWith('access-control-'))
        return `the header ${name} is not documented`;
    }
    for (const [name, { $ref }] of Object.entries(documented)) {
      const value = headers[name.toLowerCase()];
      const { required = false, schema } = this.#document.components.headers[
        $ref.split('/').at(-1) ?? ''
      ] ?? { schema: {} };
      if (value === undefined && required) return `the header ${name} is missing`;
      if (value !== undefined && schema['type'] === 'integer' && !/^\d+$/.test(String(value)))
        return `the header ${name} is ${String(value)}`;
    }
    return undefined;
  }

  #bodyFault(ref: string, { body }: SeenAnswer): string | undefined {
    let json: unknown;
    try {
      json = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
    } catch {
      return 'the body is no JSON in UTF-8';
    }
    const validate = this.#compiled(this.#answers, ref);
    return validate(json)
      ? undefined
      : `the body breaks the schema: ${this.#answers.errorsText(validate.errors)}`;
  }

  #compiled(ajv: Ajv2020, ref: string): ValidateFunction {
    const known = ajv.getSchema(ref);
    if (known === undefined) throw new Error(`the document has nothing at ${ref}`);
    return known;
  }
}
