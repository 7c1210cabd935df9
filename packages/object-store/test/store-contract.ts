import { createHash, randomBytes } from 'node:crypto';
import fc from 'fast-check';
import {
  maxObjectBytes,
  type ListOptions,
  type ObjectStore,
  type StoredName,
  StoreError,
} from '../src/object-store.ts';

/** A place where several stores have the same objects; empty at first. */
export interface StorePlace extends AsyncDisposable {
  open(): ObjectStore;
}

export interface StoreContractOptions {
  readonly newPlace: () => Promise<StorePlace>;
  /** Maximum objects of a generated store; fewer for a server that is slow. */
  readonly maxObjects: number;
  readonly numRuns: number;
}

export async function listAll(store: ObjectStore, options: ListOptions): Promise<StoredName[]> {
  const names: StoredName[] = [];
  let { after } = options;
  do {
    const page = await store.list({ ...options, after });
    names.push(...page.names);
    after = page.next;
  } while (after !== undefined);
  return names;
}

export const keysOf = (names: readonly StoredName[]): readonly string[] =>
  names.map(({ key }) => key);

export const codeOf = async (call: Promise<unknown>): Promise<unknown> => {
  try {
    return { resolved: await call };
  } catch (error) {
    return error instanceof StoreError ? error.code : error;
  }
};

/** Keys of few characters, so that many begin alike. Those that exclude each other are left out. */
const someKeys = (maxObjects: number): fc.Arbitrary<readonly string[]> => {
  const segment = fc
    .string({
      unit: fc.constantFrom('a', 'b', 'Z', '0', '-', '.', '_'),
      minLength: 1,
      maxLength: 3,
    })
    .filter((text) => text !== '.' && text !== '..');
  const key = fc.array(segment, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'));
  return fc
    .uniqueArray(key, { maxLength: maxObjects })
    .map((keys) =>
      keys.filter((one) => !keys.some((other) => other !== one && one.startsWith(`${other}/`))),
    );
};

/** The names of a list, from all keys. */
function expectedNames(
  keys: readonly string[],
  { prefix, summed = false, after = '' }: ListOptions,
): readonly string[] {
  const names = keys
    .filter((key) => key.startsWith(prefix))
    .map((key) => {
      const end = summed ? key.indexOf('/', prefix.length) : -1;
      return end < 0 ? key : key.slice(0, end + 1);
    });
  const inOrder = [...new Set(names)].sort((a, b) =>
    Buffer.compare(Buffer.from(a), Buffer.from(b)),
  );
  return inOrder.filter((name) => Buffer.compare(Buffer.from(name), Buffer.from(after)) > 0);
}

/** Tests every guarantee of `ObjectStore` with one kind of store. */
export function describeStoreContract(name: string, options: StoreContractOptions): void {
  describe(`${name} as an object store`, () => {
    let place: StorePlace;
    let store: ObjectStore;
    beforeEach(async () => {
      place = await options.newPlace();
      store = place.open();
    });
    afterEach(async () => {
      await store.close();
      await place[Symbol.asyncDispose]();
    });
    const put = (key: string, text = key) => store.put(key, Buffer.from(text));

    it('returns an object as it was stored, also by another store of the same place', async () => {
      const body = randomBytes(300_000);
      await store.put('a/b.c/d-e_F', body);
      expect((await store.get('a/b.c/d-e_F'))?.equals(body)).toBe(true);
      const other = place.open();
      expect((await other.get('a/b.c/d-e_F'))?.equals(body)).toBe(true);
      await other.close();
    });

    it('stores empty objects and those of the longest keys', async () => {
      const long = Array.from({ length: 4 }, () => 'k'.repeat(199)).join('/');
      await put(long, '');
      expect(await store.get(long)).toEqual(Buffer.alloc(0));
      expect(keysOf(await listAll(store, { prefix: long.slice(0, 500) }))).toEqual([long]);
    });

    it('replaces an object as a whole', async () => {
      await put('a', 'a long text');
      await put('a', 'short');
      expect(String(await store.get('a'))).toBe('short');
      expect((await store.list({ prefix: 'a' })).names).toEqual([{ key: 'a', bytes: 5 }]);
    });

    it('shows no reader a part of an object that writers replace', async () => {
      const bodies = Array.from({ length: 8 }, (_, index) => Buffer.alloc(200_000, index));
      const sums = new Set(bodies.map((body) => createHash('sha1').update(body).digest('hex')));
      await store.put('shared', bodies[0] ?? Buffer.alloc(0));
      const reads = Array.from({ length: 40 }, async () => {
        const found = await store.get('shared');
        return createHash('sha1')
          .update(found ?? '')
          .digest('hex');
      });
      await Promise.all(bodies.map((body) => store.put('shared', body)));
      for (const sum of await Promise.all(reads)) expect(sums).toContain(sum);
    });

    it.each<[string, number, number, string]>([
      ['the beginning', 0, 3, '012'],
      ['the middle', 4, 2, '45'],
      ['the last byte', 9, 1, '9'],
      ['more than there is', 7, 1000, '789'],
      ['nothing at the end', 10, 1, ''],
      ['nothing behind the end', 5000, 10, ''],
    ])('reads a range: %s', async (_name, offset, length, expected) => {
      await put('digits', '0123456789');
      const range = { offset, length };
      expect(String(await store.get('digits', { range }))).toBe(expected);
    });

    it('reads no range of an object that does not exist', async () => {
      expect(await store.get('none', { range: { offset: 0, length: 1 } })).toBeUndefined();
    });

    it('returns nothing for an object that does not exist, whatever exists beside it', async () => {
      await put('a/b/c');
      for (const key of ['x', 'a/x', 'a', 'a/b', 'a/b/c/d'])
        expect(await store.get(key)).toBeUndefined();
    });

    it('deletes objects as far as they exist, and nothing else', async () => {
      for (const key of ['a/b/c', 'a/b/d', 'a/e', 'f']) await put(key);
      await store.delete(['a/b/c', 'a/e', 'none', 'a/none', 'a', 'a/b']);
      expect(keysOf(await listAll(store, { prefix: '' }))).toEqual(['a/b/d', 'f']);
      await store.delete(['a/b/d', 'f']);
      expect(await store.list({ prefix: '' })).toEqual({ names: [], next: undefined });
      await store.delete([]);
    });

    it('stores an object under a name that had been one of a prefix', async () => {
      await put('a/b');
      await store.delete(['a/b']);
      await put('a');
      expect(String(await store.get('a'))).toBe('a');
    });

    it('stores objects beside those that are deleted at the same time', async () => {
      for (let round = 0; round < 10; round += 1) {
        const old = [`r/${round}/s/old`, `r/${round}/older`];
        for (const key of old) await put(key);
        await Promise.all([
          ...old.map((key) => store.delete([key])),
          put(`r/${round}/s/new`),
          put(`r/${round}/t/new`),
        ]);
        expect(keysOf(await listAll(store, { prefix: `r/${round}/` }))).toEqual([
          `r/${round}/s/new`,
          `r/${round}/t/new`,
        ]);
        await store.delete([`r/${round}/s/new`, `r/${round}/t/new`]);
      }
    });

    it('lists keys in the order of their bytes', async () => {
      const keys = ['a-b', 'a.b', 'a/1', 'a/B/c', 'a/b', 'a0', 'aZ', 'a_', 'b', 'B'];
      for (const key of keys) await put(key);
      expect(keysOf(await listAll(store, { prefix: '' }))).toEqual([
        ...['B', 'a-b', 'a.b', 'a/1', 'a/B/c', 'a/b', 'a0', 'aZ', 'a_', 'b'],
      ]);
    });

    it.each<[string, Omit<ListOptions, 'limit'>, readonly string[]]>([
      ['with a prefix of a folder', { prefix: 'a/' }, ['a/b/1', 'a/b/2', 'a/c', 'a/d/e/f']],
      ['with a prefix within a name', { prefix: 'a/b/1' }, ['a/b/1']],
      ['with a prefix within a folder', { prefix: 'a/d' }, ['a/d/e/f']],
      ['with a prefix of no key', { prefix: 'a/x' }, []],
      ['with a prefix of no folder', { prefix: 'x/y/' }, []],
      ['summed up', { prefix: '', summed: true }, ['a/', 'b']],
      ['summed up in a folder', { prefix: 'a/', summed: true }, ['a/b/', 'a/c', 'a/d/']],
      ['summed up from a name on', { prefix: 'a/d', summed: true }, ['a/d/']],
      ['behind a key', { prefix: '', after: 'a/b/1' }, ['a/b/2', 'a/c', 'a/d/e/f', 'b']],
      ['behind a name that does not exist', { prefix: '', after: 'a/bb' }, ['a/c', 'a/d/e/f', 'b']],
      ['behind a prefix', { prefix: 'a/', summed: true, after: 'a/b/' }, ['a/c', 'a/d/']],
      ['behind the last prefix', { prefix: 'a/', summed: true, after: 'a/d/' }, []],
      ['behind all', { prefix: 'a/', after: 'b' }, []],
      ['before all', { prefix: 'b', after: 'a' }, ['b']],
    ])('lists %s', async (_name, listOptions, expected) => {
      for (const key of ['a/b/1', 'a/b/2', 'a/c', 'a/d/e/f', 'b']) await put(key);
      expect(keysOf(await listAll(store, listOptions))).toEqual(expected);
    });

    it('gives prefixes no size, and objects theirs', async () => {
      await put('a/b', 'xyz');
      await put('a/c/d', 'xyz');
      expect(await listAll(store, { prefix: 'a/', summed: true })).toEqual([
        { key: 'a/b', bytes: 3 },
        { key: 'a/c/', bytes: 0 },
      ]);
    });

    it('gives the same names in pages of any size', async () => {
      await fc.assert(
        fc.asyncProperty(
          someKeys(options.maxObjects),
          fc.constantFrom('', 'a', 'a/', 'b', '-/', 'Z/a'),
          fc.constantFrom('', 'a', 'a/', 'a/b', 'Z'),
          fc.boolean(),
          fc.integer({ min: 1, max: 4 }),
          async (keys, prefix, after, summed, limit) => {
            const before = keysOf(await listAll(store, { prefix: '' }));
            await store.delete(before.filter((key) => !keys.includes(key)));
            for (const key of keys) if (!before.includes(key)) await put(key);
            const listOptions = { prefix, summed, after };
            const expected = expectedNames(keys, listOptions);
            expect(keysOf(await listAll(store, listOptions))).toEqual(expected);
            expect(keysOf(await listAll(store, { ...listOptions, limit }))).toEqual(expected);
            const page = await store.list({ ...listOptions, limit });
            expect(page.names.length).toBeLessThanOrEqual(limit);
          },
        ),
        { numRuns: options.numRuns },
      );
    });

    it.each<[string, (store: ObjectStore) => Promise<unknown>]>([
      ['an empty key', (tried) => tried.put('', Buffer.from('x'))],
      ['a key with an empty segment', (tried) => tried.get('a//b')],
      ['a key with a slash at its end', (tried) => tried.get('a/')],
      ['a key that leaves the store', (tried) => tried.get('../x')],
      ['a key with a dot alone', (tried) => tried.put('a/./b', Buffer.from('x'))],
      ['a key with another character', (tried) => tried.delete(['a', 'a b'])],
      ['a key with a zero byte', (tried) => tried.get('a\0')],
      ['a segment that is too long', (tried) => tried.put('k'.repeat(201), Buffer.from('x'))],
      ['a key that is too long', (tried) => tried.get('k/'.repeat(400) + 'k')],
      ['an object that is too large', (tried) => tried.put('a', Buffer.alloc(maxObjectBytes + 1))],
      ['an empty range', (tried) => tried.get('a', { range: { offset: 0, length: 0 } })],
      [
        'a range before the object',
        (tried) => tried.get('a', { range: { offset: -1, length: 1 } }),
      ],
      ['half a byte', (tried) => tried.get('a', { range: { offset: 0.5, length: 1 } })],
      ['a prefix of no keys', (tried) => tried.list({ prefix: '/' })],
      ['a prefix above the store', (tried) => tried.list({ prefix: '../' })],
      ['a page of nothing', (tried) => tried.list({ prefix: '', limit: 0 })],
      ['a page that is too long', (tried) => tried.list({ prefix: '', limit: 1001 })],
      ['a name of no page', (tried) => tried.list({ prefix: '', after: 'a b' })],
    ])('rejects %s', async (_name, call) => {
      expect(await codeOf(call(store))).toBe('invalid');
    });

    it('rejects with the reason of a signal', async () => {
      const reason = new Error('no longer wanted');
      const signal = AbortSignal.abort(reason);
      await expect(store.put('a', Buffer.from('x'), { signal })).rejects.toBe(reason);
      await expect(store.get('a', { signal })).rejects.toBe(reason);
      await expect(store.delete(['a'], { signal })).rejects.toBe(reason);
      await expect(store.list({ prefix: '', signal })).rejects.toBe(reason);
      expect(await store.get('a')).toBeUndefined();
    });

    it('rejects calls once it is closed', async () => {
      const closed = place.open();
      await closed.put('a', Buffer.from('x'));
      await closed.close();
      await closed.close();
      expect(await codeOf(closed.get('a'))).toBe('unavailable');
      expect(String(await store.get('a'))).toBe('x');
    });
  });
}
