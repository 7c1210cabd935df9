import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { eventually } from '../../../../test/support/eventually.ts';
import { changesBelow, changesOf } from '../../src/git/changes.ts';
import { commitsOf } from '../../src/git/routes.ts';
import { TestRepository } from './test-repository.ts';

const changes = (repository: TestRepository, ref?: string, path = repository.folder) =>
  changesBelow(repository.newGit(), path, ref);
const added = (path: string) => ({ status: 'ADDED', path });
const deleted = (path: string) => ({ status: 'DELETED', path });
const updated = (path: string) => ({ status: 'UPDATED', path });

describe('the changes of a folder', () => {
  it('are those of its files, committed or not, in the order of their paths', async () => {
    await using repository = await TestRepository.cloned({ a: '1', b: '1', c: '1', d: '1' });
    repository.write('b', '2');
    repository.commit('Second');
    rmSync(join(repository.folder, 'c'));
    renameSync(join(repository.folder, 'd'), join(repository.folder, 'moved'));
    repository.git(repository.folder, 'add', 'moved');
    repository.write('sub/new', '1');
    expect(await changes(repository)).toEqual([
      updated('b'),
      deleted('c'),
      deleted('d'),
      added('moved'),
      added('sub/new'),
    ]);
    expect(await changes(repository, 'HEAD')).toEqual([
      deleted('c'),
      deleted('d'),
      added('moved'),
      added('sub/new'),
    ]);
  });

  it.each([
    ['spaces', 'a b  c'],
    ['a tab and a line feed', 'a\tb\nc'],
    ['quotes', `"a" 'b'`],
    ['other letters', 'größe-👍'],
    ['the form of an option', '--output=x'],
    ['the form of a pathspec', ':(top)*'],
    ['a backslash', 'a\\nb'],
  ])('show names with %s as they are', async (_case, name) => {
    await using repository = await TestRepository.cloned({ [name]: '1', kept: '1' });
    repository.write(name, '2');
    repository.write(`new ${name}`, '2');
    expect(await changes(repository)).toEqual(
      [updated(name), added(`new ${name}`)].sort((a, b) => (a.path < b.path ? -1 : 1)),
    );
  });

  it('are names that any file system has', async () => {
    const part = fc
      .string({ unit: 'binary-ascii', minLength: 1, maxLength: 12 })
      .filter((text) => !/[/\0]/.test(text) && !/^\.+$/.test(text) && !/^\.?git/i.test(text));
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(part, { minLength: 1, maxLength: 4 }), async (names) => {
        await using repository = await TestRepository.cloned({ '.kept': '1' });
        for (const name of names) repository.write(name, '1');
        const paths = (await changes(repository)).map(({ path }) => path);
        expect(paths.toSorted()).toEqual(names.toSorted());
      }),
      { numRuns: 15 },
    );
  });

  it('replace the bytes of a name that are no UTF-8', async () => {
    await using repository = await TestRepository.cloned({ a: '1' });
    const folder = Buffer.from(`${repository.folder}/`);
    mkdirSync(Buffer.concat([folder, Buffer.from([0x62, 0xff])]));
    repository.git(repository.folder, 'config', 'core.quotePath', 'true');
    writeFileSync(Buffer.concat([folder, Buffer.from([0x62, 0xff, 0x2f, 0x63])]), '1');
    expect(await changes(repository)).toEqual([added('b�/c')]);
  });

  it('are none of a folder without a repository, and of none at all', async () => {
    await using repository = await TestRepository.create();
    repository.write('a', '1');
    expect(await changes(repository)).toEqual([]);
    expect(await changes(repository, undefined, join(repository.folder, 'absent'))).toEqual([]);
    expect(await changes(repository, undefined, join(repository.folder, 'a'))).toEqual([]);
  });

  it('are all files before the first commit', async () => {
    await using repository = await TestRepository.create();
    repository.git(repository.folder, 'init', '-q');
    repository.write('a', '1');
    repository.write('staged', '1');
    repository.git(repository.folder, 'add', 'staged');
    const all = [added('a'), added('staged')];
    expect(await changes(repository)).toEqual(all);
    expect(await changes(repository, 'HEAD')).toEqual(all);
  });

  it('of a folder in a repository are those below it', async () => {
    await using repository = await TestRepository.cloned({ 'sub/a': '1', b: '1' });
    repository.write('sub/a', '2');
    repository.write('b', '2');
    repository.write('sub/new', '2');
    expect(await changes(repository, undefined, join(repository.folder, 'sub'))).toEqual([
      updated('a'),
      added('new'),
    ]);
  });

  it('include those of repositories directly below', async () => {
    await using repository = await TestRepository.create();
    const shop = join(repository.folder, 'shop');
    mkdirSync(shop);
    repository.git(shop, 'init', '-q', '-b', 'main');
    repository.write('a', '1', shop);
    repository.commit('First', shop);
    repository.write('a', '2', shop);
    mkdirSync(join(repository.folder, 'broken/.git'), { recursive: true });
    expect(await changes(repository)).toEqual([updated('shop/a')]);
    repository.git(repository.folder, 'init', '-q');
    repository.write('shop-front', '1');
    expect(await changes(repository)).toEqual([added('shop-front'), updated('shop/a')]);
  });

  it('show a file with a conflict once', async () => {
    await using repository = await TestRepository.cloned({ a: '1' });
    repository.write('a', '2');
    repository.commit('Mine');
    repository.git(repository.folder, 'checkout', '-q', '-b', 'other', 'main');
    repository.write('a', '3');
    repository.commit('Theirs');
    expect(() => repository.git(repository.folder, 'merge', '-q', 'work')).toThrow();
    expect(await changes(repository)).toEqual([updated('a')]);
  });

  it.each(['unknown', '-O/etc/passwd', '--all', 'HEAD~9'])(
    'are refused for the ref %s',
    async (ref) => {
      await using repository = await TestRepository.cloned({ a: '1' });
      await expect(changes(repository, ref)).rejects.toMatchObject({ status: 400 });
    },
  );
});

describe('the base of the changes', () => {
  const withWork = async () => {
    const repository = await TestRepository.cloned({ a: '1', b: '1' });
    repository.write('a', '2');
    repository.commit('Work');
    return repository;
  };

  it('hides nothing of a branch that is pushed', async () => {
    await using repository = await withWork();
    repository.git(repository.folder, 'push', '-q', 'origin', 'work');
    expect(await changes(repository)).toEqual([updated('a')]);
  });

  it('is the upstream of a pushed branch while files differ', async () => {
    await using repository = await withWork();
    repository.git(repository.folder, 'push', '-q', 'origin', 'work');
    repository.write('b', '2');
    expect(await changes(repository)).toEqual([updated('b')]);
  });

  it('is not moved by what others have done since', async () => {
    await using repository = await withWork();
    const origin = join(repository.root, 'origin');
    repository.write('theirs', '1', origin);
    repository.commit('Theirs', origin);
    repository.git(repository.folder, 'fetch', '-q');
    expect(await changes(repository)).toEqual([updated('a')]);
  });

  it.each(['main', 'master'])(
    'is the branch %s of a remote that does not name its default',
    async (name) => {
      await using repository = await withWork();
      repository.git(repository.folder, 'remote', 'set-head', 'origin', '--delete');
      const tip = repository.git(repository.folder, 'rev-parse', 'origin/main').trim();
      repository.git(repository.folder, 'update-ref', '-d', 'refs/remotes/origin/main');
      repository.git(repository.folder, 'update-ref', `refs/remotes/origin/${name}`, tip);
      expect(await changes(repository)).toEqual([updated('a')]);
    },
  );

  it('is the local default branch where there is no remote', async () => {
    await using repository = await withWork();
    repository.git(repository.folder, 'remote', 'remove', 'origin');
    expect(await changes(repository)).toEqual([updated('a')]);
    repository.git(repository.folder, 'checkout', '-q', 'work', '-B', 'main');
    expect(await changes(repository)).toEqual([]);
    repository.write('b', '2');
    expect(await changes(repository)).toEqual([updated('b')]);
  });
});

describe('the commits of a folder', () => {
  it('are the latest, with what each of them changed', async () => {
    await using repository = await TestRepository.cloned({ a: '1', b: '1' });
    repository.write('a', '2');
    const second = repository.commit('Second: "quoted" | ünïcode');
    const page = await commitsOf(repository.newGit(), repository.folder, 50);
    expect(page.has_more).toBe(false);
    expect(page.commits).toEqual([
      {
        sha: second,
        short_sha: second.slice(0, 7),
        subject: 'Second: "quoted" | ünïcode',
        author: 'Ada',
        timestamp: '2026-01-02T03:04:05+01:00',
      },
      expect.objectContaining({ subject: 'First' }),
    ]);
    const [, first] = page.commits;
    const of = (sha: string) => changesOf(repository.newGit(), repository.folder, sha);
    expect(await of(second)).toEqual([updated('a')]);
    expect(await of(second.slice(0, 8))).toEqual([updated('a')]);
    expect(await of(first?.sha ?? '')).toEqual([added('a'), added('b')]);
    await expect(of('0123456789')).rejects.toMatchObject({ status: 400 });
    expect(await commitsOf(repository.newGit(), repository.folder, 1)).toMatchObject({
      commits: [{ sha: second }],
      has_more: true,
    });
  });

  it('are none without a commit, and without a repository', async () => {
    await using repository = await TestRepository.create();
    const none = { commits: [], has_more: false };
    expect(await commitsOf(repository.newGit(), repository.folder, 50)).toEqual(none);
    expect(await changesOf(repository.newGit(), repository.folder, 'abcd')).toEqual([]);
    repository.git(repository.folder, 'init', '-q');
    expect(await commitsOf(repository.newGit(), repository.folder, 50)).toEqual(none);
  });
});

describe('a hostile repository', () => {
  it('runs no monitor, hook, pager, external diff or conversion to text', async () => {
    await using repository = await TestRepository.cloned({ 'a.txt': '1', '.gitattributes': '' });
    const mark = join(repository.root, 'mark');
    const evil = `touch ${mark}; false`;
    for (const [name, value] of [
      ['core.fsmonitor', evil],
      ['core.pager', evil],
      ['core.hooksPath', join(repository.root, 'hooks')],
      ['diff.external', evil],
      ['diff.evil.command', evil],
      ['diff.evil.textconv', evil],
      ['core.sshCommand', evil],
      ['pager.diff', evil],
      ['log.showSignature', 'true'],
      ['gpg.program', evil],
      ['diff.renames', 'copies'],
      ['diff.noprefix', 'true'],
      ['color.ui', 'always'],
    ] as const)
      repository.git(repository.folder, 'config', name, value);
    const hook = repository.write('hooks/post-index-change', `${evil}\n`, repository.root);
    chmodSync(hook, 0o755);
    repository.write('.git/info/attributes', '* diff=evil\n');
    repository.write('a.txt', '2');
    expect(await changes(repository)).toEqual([updated('a.txt')]);
    expect((await commitsOf(repository.newGit(), repository.folder, 5)).commits).toHaveLength(1);
    expect(existsSync(mark)).toBe(false);
  });

  it('is given up where git takes too long, with everything that git has started', async () => {
    await using repository = await TestRepository.cloned({ a: '1' });
    const mark = join(repository.root, 'mark');
    repository.git(repository.folder, 'config', 'filter.slow.clean', `echo $$ >${mark}; sleep 600`);
    repository.write('.git/info/attributes', '* filter=slow\n');
    repository.write('a', '2');
    const git = repository.newGit({ timeoutMs: 5000 });
    await expect(changesBelow(git, repository.folder, 'HEAD')).rejects.toMatchObject({
      status: 400,
      detail: expect.stringContaining('took too long') as string,
    });
    const pid = readFileSync(mark, 'utf8').trim();
    const stat = `/proc/${pid}/stat`;
    const lives = () => existsSync(stat) && !readFileSync(stat, 'utf8').includes(') Z ');
    await eventually('the end of the filter', () => !lives());
  });

  it('is given up where git prints too much', async () => {
    await using repository = await TestRepository.cloned({ a: '1' });
    for (let index = 0; index < 50; index += 1) repository.write(`new/${index}`, '1');
    const git = repository.newGit({ maxOutputBytes: 200 });
    await expect(changesBelow(git, repository.folder, undefined)).rejects.toMatchObject({
      status: 400,
      detail: 'git ls-files prints too much.',
    });
  });

  it('leads git to no other repository by the environment', async () => {
    await using repository = await TestRepository.cloned({ a: '1' });
    repository.write('a', '2');
    const env = { PATH: process.env['PATH'] ?? '', GIT_DIR: '/nowhere', GIT_WORK_TREE: '/nowhere' };
    expect(await changesBelow(repository.newGit({ env }), repository.folder, 'HEAD')).toEqual([
      updated('a'),
    ]);
  });
});
