import * as fc from 'fast-check';
import { ApiError, TransportError } from '../src/errors.ts';
import { parseObject, watchEvent, withoutManagedFields } from '../src/watch-stream.ts';
import { aThing, things } from './things.ts';

/** Text like the markers that the parser searches for, inside and outside of strings. */
const hostile = fc.oneof(
  fc.constantFrom(
    '"managedFields":[',
    ',"managedFields":[{',
    '],"name":"',
    ']},"spec',
    ']',
    '[',
    '"',
    '\\',
    ',"a',
    'managedFields',
    '}',
  ),
  fc.string(),
);
const text = fc.array(hostile, { maxLength: 3 }).map((parts) => parts.join(''));
const key = fc.oneof(fc.constantFrom('managedFields', 'metadata', 'name', 'spec', 'object'), text);
const { value: anything } = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    text,
    fc.integer(),
    fc.constant(null),
    fc.array(tie('value'), { maxLength: 3 }),
    tie('object'),
  ),
  object: fc.dictionary(key, tie('value'), { maxKeys: 3 }),
}));
const entry = fc.record({
  apiVersion: fc.constant('example.com/v1'),
  fieldsV1: fc.dictionary(text, anything, { maxKeys: 2 }),
  manager: text,
  time: fc.constant('2026-03-01T12:00:00Z'),
});

/** The same members in any order: servers order built-in kinds and custom ones differently. */
const shuffled = <T extends object>(object: T) =>
  fc
    .shuffledSubarray(Object.entries(object), { minLength: Object.keys(object).length })
    .map((entries) => Object.fromEntries(entries) as T);

const line = fc
  .record({
    annotations: fc.dictionary(key, text, { maxKeys: 3 }),
    managedFields: fc.oneof(
      fc.array(entry, { minLength: 1, maxLength: 2 }),
      fc.constant(undefined),
      fc.constant([]),
      anything,
    ),
    spec: fc.dictionary(key, anything, { maxKeys: 3 }),
  })
  .chain(({ annotations, managedFields, spec }) => {
    const { metadata, ...thing } = aThing();
    return shuffled({
      ...metadata,
      annotations,
      ...(managedFields === undefined ? {} : { managedFields }),
    }).chain((shuffledMetadata) =>
      shuffled({ ...thing, spec, metadata: shuffledMetadata }).map((object) => ({
        type: 'ADDED',
        object,
      })),
    );
  });

describe('watchEvent', () => {
  it('gives what is left of the whole event without its managedFields, whatever they and the rest contain', () => {
    fc.assert(
      fc.property(line, fc.constantFrom(undefined, 1), (event, space) => {
        const written = JSON.stringify(event, undefined, space);
        const expected = JSON.parse(written) as typeof event;
        Reflect.deleteProperty(expected.object.metadata, 'managedFields');
        const read = watchEvent(things, written);
        expect(read).toEqual(expected);
        expect('object' in read && Object.keys(read.object.metadata)).toEqual(
          Object.keys(expected.object.metadata),
        );
      }),
      { numRuns: 2000 },
    );
  });

  it('reads the same of an object that is no event', () => {
    fc.assert(
      fc.property(line, fc.constantFrom(undefined, 1), ({ object }, space) => {
        const written = JSON.stringify(object, undefined, space);
        const expected = JSON.parse(written) as typeof object;
        Reflect.deleteProperty(expected.metadata, 'managedFields');
        expect(withoutManagedFields(things, parseObject(written))).toEqual(expected);
      }),
      { numRuns: 2000 },
    );
  });

  it.each(['null', '1', '"managedFields"', '[{"metadata":{"managedFields":[{}]}}]'])(
    'reads %s as it is',
    (json) => {
      expect(parseObject(json)).toEqual(JSON.parse(json));
    },
  );

  it.each([
    ['of its metadata alone', { spec: { managedFields: [{ a: 1 }], name: 'x' } }],
    [
      'of its metadata alone, where that comes later',
      { a: { managedFields: [{ a: [] }], name: 'x' }, metadata: { ...aThing().metadata } },
    ],
  ])('leaves out managedFields %s', (_name, parts) => {
    const thing = { ...parts, ...aThing(), ...parts };
    expect(watchEvent(things, JSON.stringify({ type: 'ADDED', object: thing }))).toEqual({
      type: 'ADDED',
      object: thing,
    });
  });

  it('does not take half of an event for an event, wherever it is split', () => {
    const { metadata, ...thing } = aThing();
    const managedFields = [{ manager: 'a', fieldsV1: { 'f:metadata': { 'k:{"a":"]"}': {} } } }];
    const written = JSON.stringify({
      type: 'ADDED',
      object: { ...thing, metadata: { ...metadata, managedFields, namespace: 'a' } },
    });
    for (let length = 1; length < written.length; length++) {
      expect(() => watchEvent(things, written.slice(0, length))).toThrow(TransportError);
    }
  });

  it('throws for an ERROR event and for one of an unknown type', () => {
    const status = { code: 410, reason: 'Expired', message: 'too old' };
    expect(() => watchEvent(things, JSON.stringify({ type: 'ERROR', object: status }))).toThrow(
      ApiError,
    );
    expect(() => watchEvent(things, '{"type":"SURPRISE","object":{}}')).toThrow(
      "an event of unknown type 'SURPRISE'",
    );
  });
});
