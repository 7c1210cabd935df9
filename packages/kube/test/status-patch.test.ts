import jsonPatch, { type Operation } from 'fast-json-patch';
import * as fc from 'fast-check';
import { statusPatch, type JsonPatch } from '../src/status-patch.ts';

const version = { op: 'replace', path: '/metadata/resourceVersion', value: '7' };

type Fields = Readonly<Record<string, unknown>>;
const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const mapped = (fields: Fields, map: (nested: Fields) => Fields): Fields =>
  Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [name, isFields(value) ? map(value) : value]),
  );
/** The fields with a further field in every object, which no cache has. */
const withHidden = (fields: Fields): Fields => ({ ...mapped(fields, withHidden), hidden: 'kept' });
const withoutHidden = (fields: Fields): Fields => {
  const { hidden: _hidden, ...shown } = fields;
  return mapped(shown, withoutHidden);
};
/** The paths of the objects that have the hidden field. */
const hiddenIn = (fields: Fields, path = ''): readonly string[] => [
  ...(fields['hidden'] === 'kept' ? [path] : []),
  ...Object.keys(fields)
    .toSorted()
    .flatMap((name) => (isFields(fields[name]) ? hiddenIn(fields[name], `${path}.${name}`) : [])),
];
const onlyWhereBothAre = (one: Fields, other: Fields): Fields =>
  Object.fromEntries(
    Object.entries(one).flatMap(([name, value]) => {
      const counterpart = other[name];
      if (name === 'hidden') return [[name, value]];
      return isFields(value) && isFields(counterpart)
        ? [[name, onlyWhereBothAre(value, counterpart)]]
        : [];
    }),
  );

function after(stored: Fields, patch: JsonPatch): Fields {
  const document = { metadata: { resourceVersion: '6' }, status: structuredClone(stored) };
  return jsonPatch.applyPatch(document, structuredClone(patch) as Operation[], true, true, false)
    .newDocument.status;
}

describe('the patch that replaces a status', () => {
  it('replaces all of it where nothing is said of what it was made from', () => {
    expect(statusPatch('7', { phase: 'RUNNING' })).toEqual([
      version,
      { op: 'add', path: '/status', value: { phase: 'RUNNING' } },
    ]);
  });

  it('touches only the fields that differ from what it was made from', () => {
    const from = { same: { deep: [1] }, changed: { a: 1 }, gone: true };
    expect(
      statusPatch(
        '7',
        { same: { deep: [1] }, changed: { a: 2 }, 'n/e~w': 1, gone: undefined },
        from,
      ),
    ).toEqual([
      version,
      { op: 'add', path: '/status/changed/a', value: 2 },
      { op: 'remove', path: '/status/gone' },
      { op: 'add', path: '/status/n~1e~0w', value: 1 },
    ]);
  });

  it('makes the one of the other', () => {
    // The library that applies the patch refuses that name.
    const isPlain = (value: unknown) =>
      value !== null && !JSON.stringify(value).includes('__proto__');
    const status = fc.dictionary(fc.string(), fc.jsonValue().filter(isPlain)).filter(isPlain);
    fc.assert(
      fc.property(status, status, (from, to) => {
        const stored = { metadata: { resourceVersion: '6' }, status: structuredClone(from) };
        const patch = structuredClone(statusPatch('7', to, from)) as Operation[];
        const { newDocument } = jsonPatch.applyPatch(stored, patch, true, true, false);
        expect(JSON.parse(JSON.stringify(newDocument))).toEqual(
          JSON.parse(JSON.stringify({ metadata: { resourceVersion: '7' }, status: to })),
        );
      }),
    );
  });

  it('keeps fields at any depth that the cache has left out of what the status was made from', () => {
    const stored = {
      start: { status: 'READY', steps: [{ name: 'clone', output: 'much' }] },
      executionStatus: 'running',
    };
    const cached = { start: { status: 'READY' }, executionStatus: 'running' };
    const made = { start: { status: 'READY', deadline: '12:00' }, executionStatus: 'finished' };
    expect(after(stored, statusPatch('7', made, cached))).toEqual({
      ...made,
      start: { ...made.start, steps: stored.start.steps },
    });
  });

  it('keeps them whatever else changes, unless the object around them goes', () => {
    const tree = fc.letrec<{ readonly object: Readonly<Record<string, unknown>> }>((tie) => ({
      object: fc.dictionary(
        fc.constantFrom('a', 'b', 'c', 'd/~'),
        fc.oneof({ maxDepth: 4 }, fc.integer(), fc.array(fc.integer()), tie('object')),
      ),
    })).object;
    fc.assert(
      fc.property(tree, tree, (from, to) => {
        const stored = withHidden(from);
        const result = after(stored, statusPatch('7', to, from));
        expect(withoutHidden(result)).toEqual(JSON.parse(JSON.stringify(to)));
        expect(hiddenIn(result)).toEqual(hiddenIn(onlyWhereBothAre(stored, to)));
      }),
    );
  });
});
