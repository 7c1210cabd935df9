import { type JsonObject, mergePatch } from '../../src/json/json.ts';
import { findAll, parseJsonPath, plainKeys } from '../../src/json/json-path.ts';
import { strategicMergePatch } from '../../src/api/patch.ts';

const object = {
  metadata: { labels: { 'app.io/name': 'x' } },
  status: {
    conditions: [
      { type: 'Ready', status: 'True' },
      { type: 'Admitted', status: 'False' },
    ],
    numbers: [1, 2, 3],
  },
};

describe('a JSON path', () => {
  it.each([
    ['.status.numbers[0]', [1]],
    ['.status.numbers[-1]', [3]],
    ['.status.conditions[?(@.type=="Ready")].status', ['True']],
    [String.raw`.metadata.labels.app\.io/name`, ['x']],
    ['.status.absent.deeper', []],
    ['.status.numbers[7]', []],
  ])('%s leads to %j', (path, expected) => {
    expect(findAll(object, parseJsonPath(path))).toEqual(expected);
  });

  it('that is not understood is refused', () => {
    expect(() => parseJsonPath('.a[')).toThrow(SyntaxError);
  });

  it('of plain keys is distinguished from others', () => {
    expect(plainKeys('.spec.replicas')).toEqual(['spec', 'replicas']);
    expect(plainKeys('.spec.list[0]')).toBeUndefined();
  });
});

describe('a merge patch (RFC 7386, appendix A)', () => {
  it.each([
    [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
    [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
    [{ a: 'b' }, { a: null }, {}],
    [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
    [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
    [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
    [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
    [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
    [
      ['a', 'b'],
      ['c', 'd'],
      ['c', 'd'],
    ],
    [{ a: 'b' }, ['c'], ['c']],
    [{ e: null }, { a: 1 }, { e: null, a: 1 }],
    [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
  ])('makes of %j with %j: %j', (target, patch, expected) => {
    expect(mergePatch(target, patch)).toEqual(expected);
  });

  it('does not reach the prototype', () => {
    const merged = mergePatch({}, JSON.parse('{"__proto__":{"polluted":true}}') as JsonObject);
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
    expect(JSON.stringify(merged)).toBe('{"__proto__":{"polluted":true}}');
  });
});

describe('a strategic merge patch', () => {
  const pod = {
    spec: {
      containers: [
        { name: 'a', image: '1', env: [{ name: 'X', value: '1' }] },
        { name: 'b', image: '1' },
      ],
    },
  };

  it.each<[string, JsonObject, JsonObject, JsonObject]>([
    [
      'merges containers by name',
      pod,
      { spec: { containers: [{ name: 'b', image: '2' }] } },
      { spec: { containers: [pod.spec.containers[0] ?? {}, { name: 'b', image: '2' }] } },
    ],
    [
      'merges lists in lists',
      pod,
      { spec: { containers: [{ name: 'a', env: [{ name: 'Y', value: '2' }] }] } },
      {
        spec: {
          containers: [
            {
              name: 'a',
              image: '1',
              env: [
                { name: 'X', value: '1' },
                { name: 'Y', value: '2' },
              ],
            },
            { name: 'b', image: '1' },
          ],
        },
      },
    ],
    [
      'deletes an item',
      pod,
      { spec: { containers: [{ name: 'a', $patch: 'delete' }] } },
      { spec: { containers: [{ name: 'b', image: '1' }] } },
    ],
    [
      'replaces a list',
      pod,
      { spec: { containers: [{ $patch: 'replace' }, { name: 'c' }] } },
      { spec: { containers: [{ name: 'c' }] } },
    ],
    ['replaces an object', { a: { b: 1 } }, { a: { $patch: 'replace', c: 2 } }, { a: { c: 2 } }],
    ['removes with null', { a: 1, b: 2 }, { a: null }, { b: 2 }],
    [
      'adds to finalizers',
      { finalizers: ['a'] },
      { finalizers: ['b', 'a'] },
      { finalizers: ['a', 'b'] },
    ],
    [
      'takes from finalizers',
      { finalizers: ['a', 'b'] },
      { '$deleteFromPrimitiveList/finalizers': ['a'] },
      { finalizers: ['b'] },
    ],
    [
      'brings items into order',
      { env: [{ name: 'a' }, { name: 'b' }] },
      { '$setElementOrder/env': [{ name: 'b' }, { name: 'a' }], env: [{ name: 'a', value: '1' }] },
      { env: [{ name: 'b' }, { name: 'a', value: '1' }] },
    ],
    [
      'keeps only what it retains',
      { s: { a: 1, b: 2 } },
      { s: { $retainKeys: ['b'], b: 3 } },
      { s: { b: 3 } },
    ],
    ['replaces lists without a key', { args: ['a'] }, { args: ['b'] }, { args: ['b'] }],
  ])('%s', (_, target, patch, expected) => {
    expect(strategicMergePatch(target, patch)).toEqual(expected);
  });
});
