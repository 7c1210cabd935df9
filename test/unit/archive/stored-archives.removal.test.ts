import { removeArchive } from '../../../src/archive/stored-archives.ts';
import { memoryStore } from '../../support/archive/memory-store.ts';

const address = { namespace: 'default', uid: 'one' };
const head = 'default/one/h/0000000002-aaaaaaaaaaaaaaaaaaaaaaaa';
const keys = [
  head,
  'default/one/f/0000000002-bbbbbbbbbbbbbbbbbbbbbbbb',
  'default/one/s/0000000000-cccccccccccccccccccccccc',
  'default/one/s/0000000001-dddddddddddddddddddddddd',
];

describe('the removal of an archive', () => {
  it('deletes all of its objects and no others', async () => {
    const { store, objects } = memoryStore();
    const others = [
      'default/one-more/s/0000000000-cccccccccccccccccccccccc',
      // The folder is the prefix of another installation.
      'default/one/agents/uid/h/0000000002-aaaaaaaaaaaaaaaaaaaaaaaa',
      'default/one/report.csv',
      'default/one/h/report.csv',
    ];
    for (const key of [...keys, ...others]) objects.set(key, Buffer.from('x'));
    await expect(removeArchive(store, address)).resolves.toBe(true);
    expect([...objects.keys()]).toEqual(others);
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
