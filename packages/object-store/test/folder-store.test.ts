import { existsSync } from 'node:fs';
import {
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { execFileSync, spawn } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { systemClock, type Clock } from '@conversation-operator/base/clock';
import { folderErrorOf } from '../src/folder-files.ts';
import { createFolderStore } from '../src/folder-store.ts';
import { StoreError } from '../src/object-store.ts';
import { codeOf, describeStoreContract, keysOf, listAll } from './store-contract.ts';

const writerFile = fileURLToPath(new URL('folder-writer.ts', import.meta.url));
const newFolder = async () => {
  const directory = await mkdtemp(join(tmpdir(), 'folder-store-'));
  return {
    directory,
    open: () => createFolderStore({ directory }),
    [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }),
  };
};

describeStoreContract('a folder', { newPlace: newFolder, maxObjects: 20, numRuns: 60 });

describe('a store in a folder', () => {
  let folder: Awaited<ReturnType<typeof newFolder>>;
  beforeEach(async () => {
    folder = await newFolder();
  });
  afterEach(() => folder[Symbol.asyncDispose]());

  it('has its objects as files, and leaves no other ones', async () => {
    await using store = closing(folder.open());
    await store.put('a/b', Buffer.from('text'));
    await store.put('a/b', Buffer.from('text 2'));
    expect(await readFile(join(folder.directory, 'a/b'), 'utf8')).toBe('text 2');
    expect(await readdir(join(folder.directory, '.unfinished~'))).toEqual([]);
    await store.delete(['a/b']);
    expect(await readdir(folder.directory)).toEqual(['.unfinished~']);
  });

  it('ignores what is no object', async () => {
    await using store = closing(folder.open());
    await store.put('a/b', Buffer.from('text'));
    await mkdir(join(folder.directory, 'lost+found'));
    await writeFile(join(folder.directory, 'lost+found', 'x'), '');
    await writeFile(join(folder.directory, 'a', 'b~'), '');
    await mkdir(join(folder.directory, 'empty/folder'), { recursive: true });
    execFileSync('mkfifo', [join(folder.directory, 'pipe')]);
    expect(keysOf(await listAll(store, { prefix: '' }))).toEqual(['a/b']);
    expect(keysOf(await listAll(store, { prefix: '', summed: true }))).toEqual(['a/']);
    expect(await store.get('pipe')).toBeUndefined();
    expect(await store.get('empty')).toBeUndefined();
    await store.delete(['empty', 'a/b']);
    expect(existsSync(join(folder.directory, 'a', 'b~'))).toBe(true);
  });

  it('follows no symbolic link', async () => {
    await using store = closing(folder.open());
    await using outside = await newFolder();
    await writeFile(join(outside.directory, 'secret'), 'secret');
    await symlink(outside.directory, join(folder.directory, 'out'));
    await symlink(join(outside.directory, 'secret'), join(folder.directory, 'link'));
    expect(await store.get('out/secret')).toBeUndefined();
    // An object may be behind the link, so no caller may take it for absent.
    expect(await codeOf(store.get('link'))).toBe('invalid');
    expect(keysOf(await listAll(store, { prefix: '' }))).toEqual(['link', 'out']);
    expect(await listAll(store, { prefix: 'out/' })).toEqual([]);
    await store.delete(['out/secret', 'link']);
    expect(keysOf(await listAll(store, { prefix: '' }))).toEqual(['out']);
    expect(await codeOf(store.put('out/secret', Buffer.from('x')))).toBe('invalid');
    expect(await readFile(join(outside.directory, 'secret'), 'utf8')).toBe('secret');
  });

  it('can itself be behind a symbolic link', async () => {
    await using outside = await newFolder();
    const link = join(outside.directory, 'link');
    await symlink(folder.directory, link);
    await using store = closing(createFolderStore({ directory: link }));
    await store.put('a', Buffer.from('x'));
    expect(keysOf(await listAll(store, { prefix: '' }))).toEqual(['a']);
  });

  it('rejects calls while its folder does not exist, and makes none', async () => {
    const directory = join(folder.directory, 'later');
    await using store = closing(createFolderStore({ directory }));
    const calls = [
      () => store.put('a/b', Buffer.from('x')),
      () => store.get('a/b'),
      () => store.delete(['a/b']),
      () => store.list({ prefix: '' }),
    ];
    for (const call of calls) expect(await codeOf(call())).toBe('missing');
    expect(existsSync(directory)).toBe(false);
    await writeFile(directory, '');
    for (const call of calls.slice(1)) expect(await codeOf(call())).toBe('missing');
    await rm(directory);
    await mkdir(directory);
    for (const call of calls) await call();
  });

  it('rejects keys that exclude each other', async () => {
    await using store = closing(folder.open());
    await store.put('a/b', Buffer.from('x'));
    expect(await codeOf(store.put('a', Buffer.from('x')))).toBe('invalid');
    expect(await codeOf(store.put('a/b/c', Buffer.from('x')))).toBe('invalid');
    expect(await readdir(join(folder.directory, '.unfinished~'))).toEqual([]);
  });

  it('removes unfinished files of more than an hour', async () => {
    const unfinished = join(folder.directory, '.unfinished~');
    await mkdir(unfinished);
    for (const [name, ageMs] of [['old', 3_700_000] as const, ['young', 3_500_000] as const]) {
      await writeFile(join(unfinished, name), 'x');
      const time = new Date(Date.now() - ageMs);
      await utimes(join(unfinished, name), time, time);
    }
    const store = folder.open();
    await store.close();
    expect(await readdir(unfinished)).toEqual(['young']);
  });

  it('ends a call at the deadline, and stores nothing afterwards', async () => {
    // Every time is over in the next turn of the event loop.
    let isHasty = true;
    const clock: Clock = {
      ...systemClock,
      after: (delayMs, callback) => {
        if (!isHasty) return systemClock.after(delayMs, callback);
        const immediate = setImmediate(callback);
        return { cancel: () => clearImmediate(immediate) };
      },
    };
    const { directory } = folder;
    const store = createFolderStore({ directory, clock });
    expect(await codeOf(store.put('a', Buffer.alloc(1000)))).toBe('timeout');
    expect(await codeOf(store.get('a/b/c/d/e'))).toBe('timeout');
    await expect(store.put('a', Buffer.alloc(1000))).rejects.toThrow(
      'The folder of the store has not answered within 10000 ms',
    );
    isHasty = false;
    await store.close();
    expect(await readdir(join(directory, '.unfinished~'))).toEqual([]);
    await using later = closing(folder.open());
    expect(await later.get('a')).toBeUndefined();
  });

  it('has every object as a whole whose writer was killed, and those that were acknowledged', async () => {
    for (let round = 0; round < 3; round += 1) {
      const name = `round-${round}`;
      const child = spawn(process.execPath, [writerFile, folder.directory, name], {
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      const acknowledged: string[] = [];
      for await (const line of createInterface({ input: child.stdout })) {
        acknowledged.push(line);
        if (acknowledged.length === 60) child.kill('SIGKILL');
      }
      await using store = closing(folder.open());
      const found = keysOf(await listAll(store, { prefix: `${name}/` }));
      // The writer deletes those.
      const isKept = (key: string) => key.split('/')[2] !== '9';
      expect(acknowledged.filter((key) => isKept(key) && !found.includes(key))).toEqual([]);
      for (const key of found) expect(String(await store.get(key))).toBe(`${key} `.repeat(5000));
    }
  });
});

describe('the error for one of the file system', () => {
  it.each([
    ...[['ENOSPC', 'unavailable'] as const, ['EDQUOT', 'unavailable'] as const],
    ...[['EIO', 'unavailable'] as const, ['ESTALE', 'unavailable'] as const],
    ...[['EMFILE', 'unavailable'] as const, ['EACCES', 'denied'] as const],
    ...[['EPERM', 'denied'] as const, ['EROFS', 'denied'] as const],
    ...[['EISDIR', 'invalid'] as const, ['ENOTDIR', 'invalid'] as const],
    ...[['ENAMETOOLONG', 'invalid'] as const, ['ELOOP', 'invalid'] as const],
  ])('%s: %s', (system, expected) => {
    const cause = Object.assign(new Error('of the system'), { code: system });
    const error = folderErrorOf(cause, 'store a/b');
    expect(error).toMatchObject({ code: expected, cause });
    expect(error.message).toBe(`The folder of the store can not store a/b: ${system}`);
  });

  it('is unavailable for an unknown error, and an error of a store stays', () => {
    expect(folderErrorOf('odd', 'store a')).toMatchObject({ code: 'unavailable' });
    const error = new StoreError('missing', 'no folder');
    expect(folderErrorOf(error, 'store a')).toBe(error);
  });
});

const closing = <T extends { close(): Promise<void> }>(store: T): T & AsyncDisposable =>
  Object.assign(store, { [Symbol.asyncDispose]: () => store.close() });
