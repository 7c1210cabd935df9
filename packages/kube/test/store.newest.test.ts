import { NewestStore, IndexedStore } from '../src/store.ts';
import { aThing, type Thing } from './things.ts';

function aStore() {
  const cache = new IndexedStore<Thing>();
  let now = 0;
  const newest = new NewestStore(cache, { monotonic: () => now });
  return { cache, newest, pass: (ms: number) => (now += ms) };
}

const at = (resourceVersion: string, name = 'one', uid = `uid-${name}`) =>
  aThing({ name, uid, resourceVersion });

describe('the newest of a cache and what was seen since', () => {
  it('is what was written, until the cache has it', () => {
    const { cache, newest } = aStore();
    cache.set(at('9'));
    newest.observe(at('10'));
    expect(newest.get('default', 'one')?.metadata.resourceVersion).toBe('10');
    cache.set(at('11'));
    expect(newest.get('default', 'one')?.metadata.resourceVersion).toBe('11');
    expect(newest.size).toBe(0);
  });

  it('is not what was seen before', () => {
    const { cache, newest } = aStore();
    cache.set(at('10'));
    newest.observe(at('9'));
    newest.observe(at('12'));
    newest.observe(at('11'));
    expect(newest.get('default', 'one')?.metadata.resourceVersion).toBe('12');
  });

  it('is nothing where the cache says that it is gone', () => {
    const { cache, newest } = aStore();
    cache.set(at('9'));
    newest.observe(at('10'));
    cache.delete('default', 'one');
    expect(newest.get('default', 'one')).toBeUndefined();
    cache.set(at('11', 'one', 'another'));
    expect(newest.get('default', 'one')?.metadata.uid).toBe('another');
  });

  it('is what was written of an object that was deleted and made again, while the cache learns of both', () => {
    const { cache, newest } = aStore();
    cache.set(at('9'));
    newest.observe(at('14', 'one', 'another'));
    cache.delete('default', 'one');
    expect(newest.get('default', 'one')).toBeUndefined();
    cache.set(at('12', 'one', 'another'));
    expect(newest.get('default', 'one')?.metadata.resourceVersion).toBe('14');
  });

  it('is what was written while the cache did not have the one that was made again', () => {
    const { cache, newest } = aStore();
    newest.observe(at('14', 'one', 'another'));
    newest.observe(at('13', 'one', 'another'));
    expect(newest.get('default', 'one')).toBeUndefined();
    cache.set(at('12', 'one', 'another'));
    expect(newest.get('default', 'one')?.metadata.resourceVersion).toBe('14');
  });

  it('keeps a bounded number of objects that are gone', () => {
    const { cache, newest } = aStore();
    for (let index = 0; index < 5000; index++) {
      const name = `thing-${index}`;
      cache.set(at('1', name));
      newest.observe(at('2', name));
      cache.delete('default', name);
    }
    expect(newest.size).toBeLessThanOrEqual(1001);
  });

  it('is the one that was created again, where that was read', () => {
    const { cache, newest } = aStore();
    cache.set(at('9'));
    newest.observe(at('12', 'one', 'another'));
    expect(newest.get('default', 'one')?.metadata.uid).toBe('another');
  });

  it('keeps no object that the cache has caught up with, though no caller asks for it again', () => {
    const { cache, newest } = aStore();
    for (let index = 0; index < 1000; index++) {
      const name = `thing-${index}`;
      cache.set(at('1', name));
      newest.observe(at('2', name));
      cache.set(at('2', name));
    }
    expect(newest.size).toBeLessThanOrEqual(2);
  });
});

describe('an object that was just created', () => {
  const versionIn = ({ newest }: Pick<ReturnType<typeof aStore>, 'newest'>) =>
    newest.get('default', 'one')?.metadata.resourceVersion;

  it('exists for a second, which a repetition does not extend', () => {
    const store = aStore();
    store.newest.created(at('10'));
    store.pass(999);
    store.newest.created(at('10'));
    expect(versionIn(store)).toBe('10');
    store.pass(1);
    expect(versionIn(store)).toBeUndefined();
  });

  it('is gone with its deletion once the cache has shown it', () => {
    const store = aStore();
    store.newest.created(at('10'));
    store.cache.set(at('10'));
    expect(versionIn(store)).toBe('10');
    store.cache.delete('default', 'one');
    expect(versionIn(store)).toBeUndefined();
  });

  it('is not recorded where the cache shows an object', () => {
    const store = aStore();
    store.cache.set(at('10'));
    store.newest.created(at('11'));
    expect(versionIn(store)).toBe('10');
  });
});
