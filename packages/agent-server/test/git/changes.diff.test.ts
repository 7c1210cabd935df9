import { execFileSync } from 'node:child_process';
import { rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { commitDiff, fileDiff, maxDiffBytes } from '../../src/git/changes.ts';
import { TestRepository } from './test-repository.ts';

const diff = (repository: TestRepository, name: string, ref?: string) =>
  fileDiff(repository.newGit(), join(repository.folder, name), ref);

describe('the two versions of a file', () => {
  it.each([
    ['a file that differs', 'a\nb\n', 'a\nc\n', { original: 'a\nb', modified: 'a\nc' }],
    ['edge white space', '\n a \n\n', ' a', { original: '\n a \n', modified: ' a' }],
    ['other line ends', 'a\r\nb\r\n', 'a\rb', { original: 'a\nb', modified: 'a\nb' }],
    ['bytes that are no text', 'a', Buffer.from([0xff, 0xfe]), { original: 'a', modified: '' }],
    ['an empty file', '', 'a', { original: '', modified: 'a' }],
  ])('of %s', async (_case, original, modified, expected) => {
    await using repository = await TestRepository.cloned({ 'a b': original, other: '' });
    repository.write('a b', modified);
    expect(await diff(repository, 'a b')).toEqual(expected);
  });

  it('of a new and of a deleted file have one that is empty', async () => {
    await using repository = await TestRepository.cloned({ old: 'a', kept: 'b' });
    rmSync(join(repository.folder, 'old'));
    repository.write('sub/new', 'c');
    expect(await diff(repository, 'old')).toEqual({ original: 'a', modified: '' });
    expect(await diff(repository, 'sub/new')).toEqual({ original: '', modified: 'c' });
  });

  it('are those of the commit that is asked for', async () => {
    await using repository = await TestRepository.cloned({ a: '1\n' });
    repository.write('a', '2\n');
    const second = repository.commit('Second');
    repository.write('a', '3\n');
    expect(await diff(repository, 'a')).toEqual({ original: '1', modified: '3' });
    expect(await diff(repository, 'a', 'HEAD')).toEqual({ original: '2', modified: '3' });
    rmSync(join(repository.folder, 'a'));
    const of = (name: string, commit: string) =>
      commitDiff(repository.newGit(), join(repository.folder, name), commit);
    expect(await of('a', second)).toEqual({ original: '1', modified: '2' });
    expect(await of('absent', second)).toEqual({ original: '', modified: '' });
    await expect(of('a', 'abcdef')).rejects.toMatchObject({ status: 400 });
  });

  it('are none where there is no repository', async () => {
    await using repository = await TestRepository.create();
    const none = { modified: null, original: null };
    const path = repository.write('a', '1');
    expect(await diff(repository, 'a')).toEqual(none);
    expect(await commitDiff(repository.newGit(), path, 'abcd')).toEqual(none);
  });

  it.each(['absent', 'absent/below', '.'])('are refused of %s', async (name) => {
    await using repository = await TestRepository.cloned({ a: '1' });
    await expect(diff(repository, name)).rejects.toMatchObject({ status: 400 });
  });

  it('are refused of a file that is too large now, or was', async () => {
    await using repository = await TestRepository.cloned({ a: 'x'.repeat(maxDiffBytes + 1) });
    const tooLarge = {
      status: 400,
      detail: expect.stringContaining('File too large for git diff') as string,
    };
    await expect(diff(repository, 'a')).rejects.toMatchObject(tooLarge);
    rmSync(join(repository.folder, 'a'));
    await expect(diff(repository, 'a')).rejects.toMatchObject(tooLarge);
    const head = repository.git(repository.folder, 'rev-parse', 'HEAD').trim();
    await expect(
      commitDiff(repository.newGit(), join(repository.folder, 'a'), head),
    ).rejects.toMatchObject(tooLarge);
  });

  it('of a link are those of the file that it leads to', async () => {
    await using repository = await TestRepository.cloned({ a: '1' });
    repository.write('a', '2');
    symlinkSync('a', join(repository.folder, 'link'));
    expect(await diff(repository, 'link')).toEqual({ original: '1', modified: '2' });
    symlinkSync('/proc/self/status', join(repository.folder, 'outside'));
    expect(await diff(repository, 'outside')).toEqual({ original: null, modified: null });
  });

  it('do not wait for a pipe in the place of the file', async () => {
    await using repository = await TestRepository.cloned({ a: '1' });
    rmSync(join(repository.folder, 'a'));
    execFileSync('mkfifo', [join(repository.folder, 'a')]);
    await expect(diff(repository, 'a')).rejects.toMatchObject({ status: 400 });
  });
});
