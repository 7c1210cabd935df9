import type { Json } from '../../src/json/json.ts';
import { applyDefaults, prune, type Schema } from '../../src/schema/structural-schema.ts';
import { validate } from '../../src/schema/validate.ts';

const text: Schema = { type: 'string' };
const faults = (value: Json, schema: Schema, old?: Json) =>
  validate(value, schema, 'spec', old).map(({ field, message }) => `${field}: ${message}`);

// The cases of conformance show the rest.

describe('pruning', () => {
  it.each<[string, Json, Schema, Json, string[]]>([
    [
      'keeps the keys of maps',
      { m: { k: 'v' } },
      { properties: { m: { additionalProperties: text } } },
      { m: { k: 'v' } },
      [],
    ],
    ['is not fooled by the prototype', { constructor: 1 }, { properties: {} }, {}, ['constructor']],
  ])('%s', (_, value, schema, expected, unknown) => {
    const found: string[] = [];
    expect(prune(value, schema, found)).toEqual(expected);
    expect(found).toEqual(unknown);
  });
});

describe('defaulting', () => {
  it.each<[string, Json, Schema, Json]>([
    [
      'does not make parents',
      {},
      { properties: { a: { properties: { b: { default: 'x' } } } } },
      {},
    ],
    [
      'goes into lists and maps',
      { l: [{}], m: { k: {} } },
      {
        properties: {
          l: { items: { properties: { a: { default: 1 } } } },
          m: { additionalProperties: { properties: { a: { default: 2 } } } },
        },
      },
      { l: [{ a: 1 }], m: { k: { a: 2 } } },
    ],
  ])('%s', (_, value, schema, expected) => {
    expect(applyDefaults(value, schema)).toEqual(expected);
  });
});

describe('validation says', () => {
  it.each<[string, Json, Schema, string[]]>([
    [
      'that null is no value',
      { a: null },
      { type: 'object', properties: { a: text } },
      ['spec.a: Invalid value: "null": spec.a in body must be of type string: "null"'],
    ],
    ['nothing of an integer as number', 2, { type: 'number' }, []],
    [
      'nothing of two characters of four units',
      '😀😀',
      { type: 'string', maxLength: 2, minLength: 2 },
      [],
    ],
    [
      'where in a map',
      { 'a.b': 1 },
      { type: 'object', additionalProperties: text },
      ['spec[a.b]: Invalid value: "integer": spec[a.b] in body must be of type string: "integer"'],
    ],
    [
      'nothing of an integer or a string',
      ['1', 1],
      { type: 'array', items: { 'x-kubernetes-int-or-string': true } },
      [],
    ],
  ])('%s', (_, value, schema, expected) => {
    expect(faults(value, schema)).toEqual(expected);
  });

  it('nothing of what was wrong before and has not changed', () => {
    const schema: Schema = {
      type: 'object',
      properties: { a: { type: 'string', maxLength: 1 }, b: text },
    };
    expect(faults({ a: 'long', b: 'new' }, schema, { a: 'long', b: 'old' })).toEqual([]);
    expect(faults({ a: 'longer', b: 'new' }, schema, { a: 'long', b: 'old' })).toHaveLength(1);
  });
});

describe('a CEL rule', () => {
  const rule = (
    expression: string,
    extra: object = {},
    schema: Schema = { type: 'object' },
  ): Schema => ({
    ...schema,
    'x-kubernetes-validations': [{ rule: expression, message: 'no', ...extra }],
  });
  const ofInteger: Schema = {
    type: 'object',
    properties: {
      n: { type: 'integer' },
      t: { type: 'string', format: 'date-time' },
      m: { type: 'object', additionalProperties: { type: 'integer' } },
    },
  };

  it.each<[string, string, Json, Json | undefined, boolean]>([
    ['sees fields', "self.a == 'x'", { a: 'x' }, undefined, true],
    ['asks for optional fields', 'has(self.a) && size(self.a) > 0', {}, undefined, false],
    ['compares integers', 'self.n > 1', { n: 2 }, undefined, true],
    [
      'compares times',
      "self.t < timestamp('2030-01-01T00:00:00Z')",
      { t: '2029-01-01T00:00:00Z' },
      undefined,
      true,
    ],
    ['matches', "self.a.matches('^x+$')", { a: 'xxx' }, undefined, true],
    ['goes over lists', 'self.l.all(i, i > 0)', { l: [1, 0] }, undefined, false],
    ['goes over keys', "self.m.all(k, k.startsWith('a'))", { m: { ab: 1 } }, undefined, true],
    [
      'sees keys of maps as they are',
      "self.m.all(k, k == 'a-b')",
      { m: { 'a-b': 1 } },
      undefined,
      true,
    ],
    [
      'of a change does not hold for a new value',
      'self.a == oldSelf.a',
      { a: 'x' },
      undefined,
      true,
    ],
    ['of a change sees both', 'self.a == oldSelf.a', { a: 'x' }, { a: 'y' }, false],
    ['compares deeply', 'self.a == oldSelf.a', { a: { b: [1] }, c: 1 }, { a: { b: [1] } }, true],
    ['that can not be evaluated fails', 'self.a.b.c == 1', {}, undefined, false],
  ])('%s: %s', (_, expression, value, old, holds) => {
    expect(faults(value, rule(expression, {}, ofInteger), old)).toHaveLength(holds ? 0 : 1);
  });

  it('puts its message at its field', () => {
    expect(faults({ a: 1 }, rule('false', { fieldPath: '.a' }))).toEqual([
      'spec.a: Invalid value: "object": no',
    ]);
  });

  it('waits until the schema holds', () => {
    expect(faults({ n: 'x' }, rule('self.n > 0', {}, ofInteger))).toEqual([
      'spec.n: Invalid value: "string": spec.n in body must be of type integer: "string"',
      '<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation',
    ]);
  });

  it('of a change in a list follows the item by its key', () => {
    const schema: Schema = {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['name'],
      items: rule(
        'self.size == oldSelf.size',
        {},
        { type: 'object', properties: { name: text, size: { type: 'integer' } } },
      ),
    };
    expect(
      faults(
        [
          { name: 'b', size: 1 },
          { name: 'a', size: 1 },
        ],
        schema,
        [{ name: 'a', size: 1 }],
      ),
    ).toEqual([]);
    expect(faults([{ name: 'a', size: 2 }], schema, [{ name: 'a', size: 1 }])).toEqual([
      'spec[0]: Invalid value: "object": no',
    ]);
  });
});
