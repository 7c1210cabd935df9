import * as fc from 'fast-check';
import { z } from 'zod';
import { definitions } from '../../../src/resources/crd.ts';
import { shapeOf, timestamp } from '../../../src/resources/schema.ts';

const texts = fc.oneof(
  fc.string(),
  fc.constantFrom('alice', 'default', 'True', 'RUNNING', 'READY', 'user', '2026-03-01T12:00:00Z'),
  // A character that is two units of UTF-16, as often as limits are.
  fc.constantFrom(1, 2, 3, 4, 33, 64, 65, 128, 200, 201, 256).map((count) => '👍'.repeat(count)),
);
const leaves = fc.oneof(
  texts,
  fc.integer(),
  fc.double(),
  fc.boolean(),
  fc.constantFrom(null, undefined, 0, 1, '', [], {}, -1, 65_536, 'x'.repeat(300)),
);

/** Values that are nearly right: what the schema names, with leaves of which some fit. */
function near(schema: z.core.$ZodType): fc.Arbitrary<unknown> {
  const { def } = (schema as z.core.$ZodTypes)._zod;
  switch (def.type) {
    case 'object': {
      const shape = Object.fromEntries(
        Object.entries(def.shape).map(([key, field]) => [key, near(field)]),
      );
      return mostly(fc.record(shape, { requiredKeys: [] }));
    }
    case 'array':
      return mostly(fc.array(near(def.element), { maxLength: 4 }));
    case 'record':
      return mostly(fc.dictionary(fc.string({ maxLength: 3 }), near(def.valueType)));
    case 'optional':
    case 'default':
      return fc.option(near(def.innerType), { nil: undefined });
    case 'enum':
      return mostly(fc.constantFrom(...Object.values(def.entries)));
    case 'string':
      return mostly(texts);
    case 'number':
      return mostly(
        fc.oneof(fc.integer({ min: -1, max: 70_000 }), fc.double({ min: -1, max: 2e6 })),
      );
    default:
      return leaves;
  }
}

const mostly = <T>(right: fc.Arbitrary<T>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 30, arbitrary: right }, { weight: 1, arbitrary: leaves });

const schemas: readonly (readonly [string, z.ZodType])[] = [
  ...definitions.flatMap(({ kind, spec, status }) => [
    [`spec of ${kind}`, spec] as const,
    [`status of ${kind}`, status] as const,
  ]),
  [
    'condition',
    z.object({
      type: z.string().min(1),
      status: z.enum(['True', 'False']),
      at: timestamp(),
      generation: z.int().min(0).optional(),
    }),
  ],
  ['record', z.record(z.string(), z.string().max(3))],
  ['short text', z.string().min(2).max(3)],
  ['short list', z.array(z.string()).min(1).max(2)],
  ['small number', z.object({ count: z.int().min(1).max(2) })],
];

describe('shapeOf', () => {
  it.each(schemas)('says the same as zod of a %s', (_name, schema) => {
    const isRight = shapeOf(schema);
    fc.assert(
      fc.property(near(schema), (value) => {
        expect(isRight(value)).toBe(schema.safeParse(value).success);
      }),
      { numRuns: 500 },
    );
  });

  it('refuses a schema that it can not check', () => {
    expect(() => shapeOf(z.object({ one: z.unknown() }))({ one: 1 })).toThrow(
      'There is no check for the schema {}.',
    );
  });
});
