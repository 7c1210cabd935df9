import fc from 'fast-check';
import type { OpenApi, Schema } from '../support/openapi/document.ts';
import { hostileJson, hostileText } from './hostile.ts';

/** Ids of objects of both owners, also of deleted objects and of objects that never existed. */
export interface Pools {
  readonly conversation: readonly string[];
  readonly startTask: readonly string[];
  readonly sandbox: readonly string[];
  readonly spec: readonly string[];
  readonly key: readonly string[];
  readonly cursor: readonly string[];
  readonly idempotencyKey: readonly string[];
  /** URLs of agents, and of what is none. */
  readonly host: readonly string[];
  readonly path: readonly string[];
  readonly sessionKey: readonly string[];
  /** The sandbox of `sessionKey`. */
  readonly sessionSandbox: readonly string[];
  /** Values of secrets: no answer but one may contain them. */
  readonly secretValue: readonly string[];
  /** Mostly conversations that can be handed over. */
  readonly movable: readonly string[];
  /** Mostly the conversation that is shared. */
  readonly shared: readonly string[];
  readonly handover: readonly string[];
  readonly owner: readonly string[];
  /** Ids of options of the question of an agent. */
  readonly option: readonly string[];
}

/** Values with which an operation succeeds if its body is valid, too. */
export interface Aim {
  readonly params: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
}

/** The pool from which a property or parameter of this name takes its values, most of the time. */
const poolOfName: Readonly<Record<string, keyof Pools>> = {
  conversation_id: 'conversation',
  conversation_id__eq: 'conversation',
  parent_conversation_id: 'conversation',
  sandbox_id: 'sandbox',
  sandbox_id__eq: 'sandbox',
  sandbox_spec_id: 'spec',
  page_id: 'cursor',
  'idempotency-key': 'idempotencyKey',
  option_id: 'option',
  to: 'owner',
  host: 'host',
  path: 'path',
  value: 'secretValue',
};

const repositories = ['acme/shop', 'group/sub/project', 'a/b', 'acme/none'];
const times = [
  '2026-01-01T00:00:00Z',
  '2026-01-01',
  '2030-06-01T12:00:00+02:00',
  '2026-01-01T00:00:00.123456Z',
  '2020-01-01 00:00:00',
];

/** Arbitraries for what a schema of the document describes. */
export class Values {
  readonly #schemas: OpenApi['components']['schemas'];
  readonly #pools: Pools;

  constructor(document: OpenApi, pools: Pools) {
    this.#schemas = document.components.schemas;
    this.#pools = pools;
  }

  /** A value of the schema; a property named like an id is mostly an id that exists. */
  valid(schema: Schema, name = ''): fc.Arbitrary<unknown> {
    const pool = poolOfName[name];
    if (pool !== undefined) return this.#from(pool);
    if (name === 'headers')
      return this.#from('sessionKey').map((key) => ({ 'X-Session-API-Key': key }));
    if (name === 'subject')
      return fc.oneof(
        fc.constant({ kind: 'link' }),
        this.#from('owner').map((owner) => ({ kind: 'user', name: owner })),
        this.valid(schema),
      );
    const { $ref, enum: choices, anyOf, oneOf, type, const: only } = schema;
    if (typeof $ref === 'string')
      return this.valid(this.#schemas[$ref.split('/').at(-1) ?? ''] ?? {}, name);
    if ('const' in schema) return fc.constant(only);
    if (Array.isArray(choices)) return fc.constantFrom(...(choices as readonly unknown[]));
    const alternatives = anyOf ?? oneOf;
    if (Array.isArray(alternatives))
      return fc.oneof(...alternatives.map((one: Schema) => this.valid(one, name)));
    switch (type) {
      case 'string':
        return this.#text(schema);
      case 'integer':
      case 'number':
        return fc.integer({
          min: Number(schema['minimum'] ?? -1000),
          max: Math.min(Number(schema['maximum'] ?? 1_000_000), 2 ** 31),
        });
      case 'boolean':
        return fc.boolean();
      case 'null':
        return fc.constant(null);
      case 'array':
        return fc.array(this.valid((schema['items'] ?? {}) as Schema, name), {
          minLength: Number(schema['minItems'] ?? 0),
          maxLength: Math.min(Number(schema['maxItems'] ?? 3), 3),
        });
      case 'object':
        return this.#object(schema);
      default:
        return fc.jsonValue({ maxDepth: 1 });
    }
  }

  /** Almost a value of the schema: one part of it is changed. */
  near(schema: Schema, name = ''): fc.Arbitrary<unknown> {
    return fc
      .tuple(this.valid(schema, name), hostileJson, fc.nat())
      .map(([value, odd, where]) => broken(value, odd, where));
  }

  #from(pool: keyof Pools): fc.Arbitrary<string> {
    return fc.constantFrom(...this.#pools[pool]);
  }

  #text({ format, pattern, minLength, maxLength }: Schema): fc.Arbitrary<string> {
    if (format === 'uuid') return this.#from('conversation');
    if (format === 'date-time') return fc.constantFrom(...times);
    if (typeof pattern === 'string') {
      try {
        return fc.stringMatching(new RegExp(pattern), { size: 'small' });
      } catch {
        // Assertions can't be generated from.
        return fc.constantFrom(...repositories);
      }
    }
    const min = Number(minLength ?? 0);
    const max = Number(maxLength ?? 1e6);
    const usual = fc.string({ unit: 'grapheme', minLength: min, maxLength: Math.min(max, 40) });
    const longest =
      max <= 20_000 ? [fc.constant('m'.repeat(max)), fc.constant('👍'.repeat(max))] : [];
    const odd = hostileText.filter(({ length }) => length >= min && length <= max);
    return fc.oneof({ arbitrary: usual, weight: 6 }, odd, ...longest);
  }

  #object({ properties = {}, required = [], additionalProperties }: Schema): fc.Arbitrary<unknown> {
    const fields = Object.entries(properties as Record<string, Schema>).map(([key, schema]) => {
      const field = this.valid(schema, key).map((value): [string, unknown][] => [[key, value]]);
      // Few at a time, so that one that is refused does not hide all others.
      return (required as string[]).includes(key)
        ? field
        : fc.oneof({ arbitrary: fc.constant([]), weight: 7 }, { arbitrary: field, weight: 2 });
    });
    const known = fc
      .tuple(...fields)
      .map((pairs) => Object.fromEntries(pairs.flat()) as Record<string, unknown>);
    if (typeof additionalProperties !== 'object' || additionalProperties === null) return known;
    const further = fc.dictionary(
      fc.string({ unit: 'grapheme', maxLength: 70 }),
      this.valid(additionalProperties as Schema),
      { maxKeys: 4 },
    );
    return fc.tuple(known, further).map(([left, right]) => ({ ...right, ...left }));
  }
}

/** Replaces, removes or adds one part somewhere in a value. */
function broken(value: unknown, odd: unknown, where: number): unknown {
  if (typeof value !== 'object' || value === null) return odd;
  const keys = Object.keys(value);
  const key = keys[where % (keys.length + 1)];
  const next = Math.floor(where / (keys.length + 1));
  if (Array.isArray(value)) {
    if (key === undefined) return [...(value as readonly unknown[]), odd];
    return value.map((item: unknown, index) =>
      String(index) === key ? broken(item, odd, next) : item,
    );
  }
  if (key === undefined) return { ...value, [`field${where % 7}`]: odd };
  if (next % 4 === 0)
    return Object.fromEntries(Object.entries(value).filter(([name]) => name !== key));
  return Object.fromEntries(
    Object.entries(value).map(([name, item]: [string, unknown]) => [
      name,
      name === key ? broken(item, odd, next) : item,
    ]),
  );
}
