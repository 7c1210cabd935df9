import type {
  ListOptions,
  ListPage,
  ObjectStore,
  StoredName,
} from '@conversation-operator/object-store/object-store';

/** An object store in memory, and the number of its calls. */
export function memoryStore(objects = new Map<string, Buffer>()) {
  const calls = { put: 0, get: 0, delete: 0, list: 0 };
  const store: ObjectStore = {
    put: (key, body) => {
      calls.put++;
      objects.set(key, Buffer.from(body));
      return Promise.resolve();
    },
    get: (key, { range } = {}) => {
      calls.get++;
      const body = objects.get(key);
      if (body === undefined || range === undefined) return Promise.resolve(body);
      return Promise.resolve(body.subarray(range.offset, range.offset + range.length));
    },
    delete: (keys) => {
      calls.delete++;
      for (const key of keys) objects.delete(key);
      return Promise.resolve();
    },
    list: (options) => {
      calls.list++;
      return Promise.resolve(listOf(objects, options));
    },
    close: () => Promise.resolve(),
  };
  return { store, objects, calls };
}

function listOf(
  objects: ReadonlyMap<string, Buffer>,
  { prefix, summed = false, after = '', limit = 1000 }: ListOptions,
): ListPage {
  const names = new Map<string, StoredName>();
  const inOrder = [...objects.keys()].filter((key) => key.startsWith(prefix)).sort();
  for (const key of inOrder) {
    const slash = key.indexOf('/', prefix.length);
    const name =
      summed && slash !== -1
        ? { key: key.slice(0, slash + 1), bytes: 0 }
        : { key, bytes: objects.get(key)?.length ?? 0 };
    if (name.key > after) names.set(name.key, name);
  }
  const all = [...names.values()];
  const page = all.slice(0, limit);
  return { names: page, next: all.length > limit ? page.at(-1)?.key : undefined };
}
