import * as fc from 'fast-check';
import { IndexedStore, type Indexers } from '../src/store.ts';
import { aThing, type Thing } from './things.ts';

const indexers: Indexers<Thing> = {
  color: ({ spec }) => spec.colors,
  namespace: ({ metadata }) => [metadata.namespace ?? ''],
};
const colors = ['red', 'green', 'blue'] as const;
const change = fc.record({
  namespace: fc.constantFrom('x', 'y'),
  name: fc.constantFrom('one', 'two', 'three'),
  incarnation: fc.integer({ min: 0, max: 1 }),
  colors: fc.uniqueArray(fc.constantFrom(...colors)),
  remove: fc.boolean(),
});

const byKey = (one: Thing, other: Thing) => (one.metadata.uid < other.metadata.uid ? -1 : 1);
const sorted = (objects: Iterable<Thing>) => [...objects].sort(byKey);

describe('IndexedStore', () => {
  it('finds by name and by every index what a recomputation finds, after any changes', () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 40 }), (changes) => {
        const store = new IndexedStore(indexers);
        const model = new Map<string, Thing>();
        for (const { namespace, name, incarnation, colors: painted, remove } of changes) {
          const key = `${namespace}/${name}`;
          if (remove) {
            expect(store.delete(namespace, name)).toBe(model.get(key));
            model.delete(key);
          } else {
            const thing = aThing({
              namespace,
              name,
              uid: `${key}/${incarnation}`,
              colors: painted,
            });
            store.set(thing);
            model.set(key, thing);
          }
          expect(store.size).toBe(model.size);
          expect(store.get(namespace, name)).toBe(model.get(key));
          expect(sorted(store.list())).toEqual(sorted(model.values()));
          for (const color of colors) {
            const expected = [...model.values()].filter(({ spec }) => spec.colors.includes(color));
            expect(sorted(store.byIndex('color', color))).toEqual(sorted(expected));
          }
          for (const place of ['x', 'y']) {
            const expected = [...model.values()].filter(
              ({ metadata }) => metadata.namespace === place,
            );
            expect(sorted(store.byIndex('namespace', place))).toEqual(sorted(expected));
          }
        }
      }),
    );
  });

  it('gives the same array of several objects as long as nothing in it changes', () => {
    const store = new IndexedStore(indexers);
    for (const name of ['one', 'two']) store.set(aThing({ name, colors: ['red'] }));
    const red = store.byIndex('color', 'red');
    store.set(aThing({ name: 'three', colors: ['blue'] }));
    expect(store.byIndex('color', 'red')).toBe(red);
  });

  it('leaves an array alone that it has given out', () => {
    const store = new IndexedStore(indexers);
    store.set(aThing({ name: 'one', colors: ['red'] }));
    const red = store.byIndex('color', 'red');
    store.delete('default', 'one');
    expect(red).toHaveLength(1);
    expect(store.byIndex('color', 'red')).toEqual([]);
  });

  it('keeps the place of an object that changes', () => {
    const store = new IndexedStore(indexers);
    for (const name of ['one', 'two', 'three']) store.set(aThing({ name, colors: ['red'] }));
    store.set(aThing({ name: 'two', colors: ['red', 'blue'] }));
    expect(store.byIndex('color', 'red').map(({ metadata }) => metadata.name)).toEqual([
      'one',
      'two',
      'three',
    ]);
  });

  it('takes in nothing of an object whose indexer throws', () => {
    const store = new IndexedStore<Thing>({
      color: ({ spec }) => spec.colors,
      strict: ({ spec }) => {
        if (!spec.valid) throw new Error('not valid');
        return [];
      },
    });
    expect(() => store.set(aThing({ colors: ['red'], valid: false }))).toThrow('not valid');
    expect(store.size).toBe(0);
    expect(store.byIndex('color', 'red')).toEqual([]);
  });

  it('refuses an index that it does not have', () => {
    expect(() => new IndexedStore(indexers).byIndex('size', 'large')).toThrow(
      "the store has no index 'size'",
    );
  });
});
