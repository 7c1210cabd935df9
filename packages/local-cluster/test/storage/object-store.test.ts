import type { ApiObject } from '../../src/api/api-object.ts';
import type { Change } from '../../src/storage/changes.ts';
import { volatileJournal, type Journal, ObjectStore } from '../../src/storage/object-store.ts';

const anObject = (name: string, value = 1, namespace = 'n'): ApiObject => ({
  apiVersion: 'v1',
  kind: 'Thing',
  metadata: { name, namespace, uid: name, resourceVersion: '', creationTimestamp: '' },
  value,
});
const names = (items: Iterable<{ object: ApiObject }> | undefined) =>
  [...(items ?? [])].map(
    ({ object }) => `${object.metadata.name}${String(object['value'] as number)}`,
  );

const failing = (): Journal & { fails: boolean } => ({
  ...volatileJournal,
  durable: true,
  fails: false,
  append() {
    if (this.fails) throw new Error('disk full');
  },
});

describe('the store', () => {
  it('lists in order of keys, and continues behind one', () => {
    const store = new ObjectStore({ journal: volatileJournal, logCapacity: 10 });
    for (const name of ['c', 'a', 'b']) store.put('/things', anObject(name));
    store.put('/things', anObject('z', 1, 'm'));
    expect(names(store.list('/things'))).toEqual(['z1', 'a1', 'b1', 'c1']);
    expect(names(store.list('/things', 'n'))).toEqual(['a1', 'b1', 'c1']);
    expect(names(store.list('/things', 'n', 'n/a'))).toEqual(['b1', 'c1']);
  });

  it('lists a past version as it was', () => {
    const store = new ObjectStore({ journal: volatileJournal, logCapacity: 10 });
    store.put('/things', anObject('a'));
    const { version } = store.put('/things', anObject('b'));
    store.put('/things', anObject('a', 2));
    store.remove('/things', anObject('b'));
    store.put('/things', anObject('c'));
    expect(names(store.listAt('/things', version))).toEqual(['a1', 'b1']);
    expect(names(store.listAt('/things', version, 'n', 'n/a'))).toEqual(['b1']);
  });

  it('forgets old versions', () => {
    const store = new ObjectStore({ journal: volatileJournal, logCapacity: 2 });
    const versions = ['a', 'b', 'c', 'd'].map(
      (name) => store.put('/things', anObject(name)).version,
    );
    expect(store.since('/things', versions[0] ?? 0)).toBeUndefined();
    expect(store.since('/things', versions[1] ?? 0)).toHaveLength(2);
    store.compactTo(versions[3] ?? 0);
    expect(store.since('/things', versions[2] ?? 0)).toBeUndefined();
    expect(store.since('/things', versions[3] ?? 0)).toEqual([]);
  });

  it('reports changes only when they are durable', async () => {
    const store = new ObjectStore({ journal: failing(), logCapacity: 10 });
    const seen: Change[] = [];
    store.onChange((change) => seen.push(change));
    store.put('/things', anObject('a'));
    expect(seen).toHaveLength(0);
    await store.committed();
    expect(seen).toHaveLength(1);
  });

  it('undoes what could not be written, notifies no watcher, and gives no version twice', async () => {
    const journal = failing();
    const store = new ObjectStore({ journal, logCapacity: 10 });
    store.put('/things', anObject('a'));
    await store.committed();
    const seen: Change[] = [];
    store.onChange((change) => seen.push(change));
    journal.fails = true;
    store.put('/things', anObject('a', 2));
    store.put('/things', anObject('b'));
    const { version } = store.put('/things', anObject('a', 3));
    await expect(store.committed()).rejects.toThrow('could not be written');
    expect(names(store.list('/things'))).toEqual(['a1']);
    expect(seen).toEqual([]);
    journal.fails = false;
    expect(store.put('/things', anObject('c')).version).toBeGreaterThan(version);
    await store.committed();
  });
});
