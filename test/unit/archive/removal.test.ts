import { removeArchive } from '../../../src/archive/removal.ts';
import { memoryStore } from '../../support/archive/memory-store.ts';

const address = { namespace: 'default', uid: 'one' };
const head = 'default/one/h/0000000002-aaaaaaaaaaaaaaaaaaaaaaaa';
const keys = [
  head,
  'default/one/f/files',
  'default/one/s/0000000000-b',
  'default/one/s/0000000001-c',
];

describe('the removal of an archive', () => {
  it('deletes all of its objects and no others', async () => {
    const { store, objects } = memoryStore();
    for (const key of [...keys, 'default/one-more/s/x']) objects.set(key, Buffer.from('x'));
    await expect(removeArchive(store, address)).resolves.toBe(true);
    expect([...objects.keys()]).toEqual(['default/one-more/s/x']);
    await expect(removeArchive(store, address)).resolves.toBe(false);
  });

  it('leaves the head, which says whose archive it is, where it is interrupted', async () => {
    const { store, objects } = memoryStore();
    for (const key of keys) objects.set(key, Buffer.from('x'));
    const interrupted = {
      ...store,
      delete: async ([first = '']: readonly string[]) => {
        await store.delete([first]);
        throw new Error('the process ends');
      },
    };
    await expect(removeArchive(interrupted, address)).rejects.toThrow('the process ends');
    expect(objects.size).toBe(keys.length - 1);
    expect(objects.has(head)).toBe(true);
  });
});
