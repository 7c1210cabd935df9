import { createFolderStore } from '../src/folder-store.ts';

/**
 * Process that stores objects in the folder of its argument until it is killed, several at once,
 * and prints the key of each when it is stored. Each object contains its key alone, many times.
 */
const [, , directory = '', name = ''] = process.argv;
const store = createFolderStore({ directory });

async function write(lane: number): Promise<void> {
  for (let index = 0; ; index += 1) {
    const key = `${name}/${lane}/${index % 10}/${index}`;
    await store.put(key, Buffer.from(`${key} `.repeat(5000)));
    process.stdout.write(`${key}\n`);
    // Folders come and go.
    if (index % 10 === 9) await store.delete([`${name}/${lane}/9/${index}`]);
  }
}

await Promise.all([0, 1, 2, 3].map(write));
