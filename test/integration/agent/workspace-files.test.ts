import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { maxFileBytes, maxPathLength, WorkspaceFiles } from '../../../src/agent/workspace-files.ts';
import { takeSnapshot } from '../../../src/archive/take-snapshot.ts';
import {
  snapshotChanges,
  snapshotDiff,
  snapshotFile,
  snapshotFiles,
  workspaceSnapshotSchema,
} from '../../../src/archive/workspace-snapshot.ts';
import { AgentVolume, call } from './agent-process.ts';

const files = new WorkspaceFiles();
let volume: AgentVolume;
let endpoint: Awaited<ReturnType<AgentVolume['startReady']>>['endpoint'];
beforeAll(async () => {
  volume = await AgentVolume.create();
  ({ endpoint } = await volume.startReady());
});
afterAll(async () => {
  await files.close();
  await volume[Symbol.asyncDispose]();
});

const author = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com'];
const git = (folder: string, ...args: readonly string[]) =>
  execFileSync('git', [...author, ...args], { cwd: folder, stdio: 'pipe', encoding: 'utf8' });
let count = 0;
/** A new folder of the volume with files, below which every test has its own names. */
function folderWith(contents: Readonly<Record<string, string | Buffer>>): string {
  count += 1;
  const folder = join(volume.folder, `it's folder ${count}`);
  mkdirSync(folder);
  write(folder, contents);
  return folder;
}
function write(folder: string, contents: Readonly<Record<string, string | Buffer>>): void {
  for (const [name, content] of Object.entries(contents)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
}
/** The same in a repository with one commit. */
function repositoryWith(contents: Readonly<Record<string, string | Buffer>>): string {
  const folder = folderWith(contents);
  git(folder, 'init', '-q', '-b', 'main');
  git(folder, 'add', '-A');
  git(folder, 'commit', '-q', '--allow-empty', '-m', 'First');
  return folder;
}
const namesIn = async (path: string) => (await files.files(endpoint, path, {})).names;
const odd = [
  'a b',
  "it's",
  '"quoted"',
  'line\nfeed',
  'tab\t',
  'größe 👍',
  '$(touch x)',
  '-n',
  '\\',
];

describe('the files of a sandbox', () => {
  it.each([
    ['a repository', repositoryWith],
    ['another folder', folderWith],
  ])('have the names that they have in %s', async (_case, made) => {
    const folder = made(Object.fromEntries(odd.map((name) => [name, '1'])));
    write(folder, { 'sub/below/file': '1' });
    symlinkSync('/etc', join(folder, 'sub/link'));
    expect(await namesIn(folder)).toEqual([...odd, 'sub/below/file', 'sub/link'].toSorted());
    expect(await namesIn(join(folder, 'sub'))).toEqual(['below/file', 'link']);
  });

  it('are those of a repository that are there and not ignored', async () => {
    const folder = repositoryWith({ '.gitignore': 'ignored\n', gone: '1', kept: '1' });
    write(folder, { ignored: '1', 'new/one': '1', 'build/ignored/a': '1' });
    rmSync(join(folder, 'gone'));
    expect(await namesIn(folder)).toEqual(['.gitignore', 'kept', 'new/one']);
    expect(await namesIn(join(folder, 'build'))).toEqual([]);
    expect(await namesIn(join(folder, 'build/ignored'))).toEqual(['a']);
  });

  it('include those of repositories in it', async () => {
    const folder = repositoryWith({ a: '1' });
    write(folder, { 'shop/b': '1' });
    git(join(folder, 'shop'), 'init', '-q');
    expect(await namesIn(folder)).toEqual(['a', 'shop/b']);
  });

  it('leave out the folders of tools where there is no repository', async () => {
    const folder = folderWith({ 'node_modules/a/b': '1', 'x/node_modules/c': '1', 'x/d': '1' });
    expect(await namesIn(folder)).toEqual(['x/d']);
  });

  it('are none of a folder that does not exist, and of a file', async () => {
    const folder = folderWith({ a: '1' });
    expect(await namesIn(join(folder, 'absent'))).toEqual([]);
    expect(await namesIn(join(folder, 'a'))).toEqual([]);
  });

  it('run no program of a hostile repository', async () => {
    const folder = repositoryWith({ a: '1' });
    git(folder, 'config', 'core.fsmonitor', `touch ${volume.folder}/mark`);
    expect(await namesIn(folder)).toEqual(['a']);
    expect(await namesIn(volume.folder)).not.toContain('mark');
  });

  it.each(['relative', '', 'a/../b', `/${'x'.repeat(maxPathLength)}`, '/a\0b'])(
    'are not asked for at a path %#',
    async (path) => {
      const refused = { code: 'refused' };
      await expect(files.files(endpoint, path, {})).rejects.toMatchObject(refused);
      await expect(files.file(endpoint, path, {})).rejects.toMatchObject(refused);
      await expect(files.changes(endpoint, path, {})).rejects.toMatchObject(refused);
      await expect(files.diff(endpoint, path, {})).rejects.toMatchObject(refused);
    },
  );
});

describe('a file of a sandbox', () => {
  it.each(['text\n', '', '\ufeffmark', 'größe 👍\r\n', 'x'.repeat(maxFileBytes)])(
    'is a text %#',
    async (text) => {
      const folder = folderWith({ 'a b&c=d': text });
      expect(await files.file(endpoint, join(folder, 'a b&c=d'), {})).toBe(text);
    },
  );

  it('is undefined where there is none', async () => {
    const folder = folderWith({ a: '1' });
    expect(await files.file(endpoint, join(folder, 'absent'), {})).toBeUndefined();
    expect(await files.file(endpoint, join(folder, 'a/below'), {})).toBeUndefined();
  });

  it.each<[string, (folder: string) => void, string]>([
    ['has a NUL', (folder) => write(folder, { a: 'a\0b' }), 'The file is no text.'],
    ['is no UTF-8', (folder) => write(folder, { a: Buffer.from([0xff]) }), 'The file is no text.'],
    [
      'is too large',
      (folder) => {
        write(folder, { a: '' });
        truncateSync(join(folder, 'a'), 4 * 1024 ** 3);
      },
      `The file has more than ${maxFileBytes} bytes.`,
    ],
    [
      'is a folder',
      (folder) => write(folder, { 'a/b': '1' }),
      'The agent answered 400: Path is not a file',
    ],
    [
      'is a pipe',
      (folder) => execFileSync('mkfifo', [join(folder, 'a')]),
      'The agent answered 400: Path is not a file',
    ],
  ])('is refused where it %s', async (_case, make, message) => {
    const folder = folderWith({});
    make(folder);
    await expect(files.file(endpoint, join(folder, 'a'), {})).rejects.toMatchObject({
      code: 'refused',
      message,
    });
  });

  it('is the name of its download', async () => {
    const folder = folderWith({ 'a b': '1', plain: '12' });
    const headersOf = async (name: string) => {
      const url = new URL('/api/file/download', endpoint.baseUrl);
      url.searchParams.set('path', join(folder, name));
      const { headers } = await fetch(url, { headers: { 'x-session-api-key': 'session' } });
      return [headers.get('content-disposition'), headers.get('content-length')];
    };
    expect(await headersOf('plain')).toEqual(['attachment; filename="plain"', '2']);
    expect(await headersOf('a b')).toEqual(["attachment; filename*=utf-8''a%20b", '1']);
  });
});

describe('what git says in a sandbox', () => {
  it('is read from the agent', async () => {
    const folder = repositoryWith({ 'a b': '1\n' });
    write(folder, { 'a b': '2\n', new: '3\n' });
    expect(await files.changes(endpoint, folder, {})).toEqual([
      { status: 'UPDATED', path: 'a b' },
      { status: 'ADDED', path: 'new' },
    ]);
    const path = join(folder, 'a b');
    expect(await files.diff(endpoint, path, {})).toEqual({ original: '1', modified: '2' });
    const page = await files.commits(endpoint, folder, { limit: 5 });
    expect(page).toMatchObject({ commits: [{ subject: 'First' }], has_more: false });
    const commit = page.commits[0]?.sha ?? '';
    expect(await files.commitChanges(endpoint, folder, { commit })).toEqual([
      { status: 'ADDED', path: 'a b' },
    ]);
    expect(await files.diff(endpoint, path, { commit })).toEqual({ original: '', modified: '1' });
  });

  it('is refused with the words of the agent', async () => {
    const folder = repositoryWith({ a: '1' });
    await expect(files.diff(endpoint, join(folder, 'absent'), {})).rejects.toMatchObject({
      code: 'refused',
      message: expect.stringContaining('File does not exist') as string,
    });
  });

  it.each([
    ['GET /api/git/changes', 422],
    ['GET /api/git/changes?path=', 422],
    ['GET /api/git/changes?path=/a%00b', 422],
    ['GET /api/git/diff?path=/a&commit=--all', 422],
    ['GET /api/git/diff?path=/a&commit=abcd&ref=HEAD', 400],
    ['GET /api/git/commits?path=/a&limit=0', 422],
    ['GET /api/git/commits?path=/a&limit=201', 422],
    ['GET /api/git/commits/HEAD/changes?path=/a', 422],
    ['GET /api/file/download', 400],
    ['GET /api/file/download?path=a', 400],
    ['GET /api/file/download?path=/a%00b', 404],
    ['POST /api/git/changes?path=/a', 405],
  ])('%s is answered with %i', async (route, status) => {
    expect((await call(endpoint, route)).status).toBe(status);
  });

  it.each(['/api/git/changes?path=/', '/api/git/commits?path=/', '/api/file/download?path=/a'])(
    '%s needs the session key',
    async (path) => {
      expect((await call({ ...endpoint, sessionKey: 'wrong' }, `GET ${path}`)).status).toBe(401);
    },
  );
});

describe('a snapshot of a sandbox', () => {
  it('answers as the agent has', async () => {
    const folder = repositoryWith({ 'sub/a': '1\n', b: '1\n', gone: '1\n' });
    write(folder, { 'sub/a': '2\n', 'sub/new': '3\n' });
    rmSync(join(folder, 'gone'));
    const takenAt = '2026-01-01T00:00:00Z';
    const taken = await takeSnapshot(files, endpoint, folder, { takenAt });
    const snapshot = workspaceSnapshotSchema.parse(JSON.parse(JSON.stringify(taken)));
    expect(snapshot).toEqual(taken);
    expect(snapshot).toMatchObject({ filesTruncated: false, diffsTruncated: false });
    for (const path of [folder, join(folder, 'sub')]) {
      expect(snapshotFiles(snapshot, path)).toEqual(await namesIn(path));
      expect(snapshotChanges(snapshot, path)).toEqual(await files.changes(endpoint, path, {}));
    }
    for (const name of ['sub/a', 'sub/new', 'gone']) {
      const path = join(folder, name);
      expect(snapshotDiff(snapshot, path)).toEqual(await files.diff(endpoint, path, {}));
    }
    expect(snapshotFile(snapshot, join(folder, 'sub/a'))).toBe('2');
  });
});

describe('a path that readers of a link may see', () => {
  const visible = (folder: string, path: string) => files.isVisibleIn(endpoint, folder, path, {});

  it('is in the folder, and not ignored by git', async () => {
    const folder = repositoryWith({
      'a.txt': 'a',
      'sub/b.txt': 'b',
      '.gitignore': '.env\nbuilt/\n',
    });
    write(folder, { '.env': 'TOKEN=1', 'built/out.txt': 'x', 'new.txt': 'n' });
    const shown = ['', '/a.txt', '/sub', '/sub/b.txt', '/new.txt', '/gone.txt', '/gone/too.txt'];
    const hidden = ['/.env', '/built', '/built/out.txt', '/.git', '/.git/config'];
    for (const name of shown)
      expect({ name, is: await visible(folder, `${folder}${name}`) }).toEqual({ name, is: true });
    for (const name of hidden)
      expect({ name, is: await visible(folder, `${folder}${name}`) }).toEqual({ name, is: false });
    expect(await visible(folder, `${folder}-2`)).toBe(false);
    expect(await visible(folder, '/etc/passwd')).toBe(false);
  });

  it('is not in a repository that lies in an ignored folder of another one', async () => {
    const folder = repositoryWith({ '.gitignore': 'vendor/\n' });
    write(folder, { 'vendor/lib/a/token.txt': 't', 'nested/.gitignore': '.env\n' });
    write(folder, { 'nested/.env': 'TOKEN=1', 'nested/sub/b.txt': 'b' });
    for (const name of ['vendor/lib', 'nested']) git(folder, 'init', '-q', name);
    for (const name of [
      'vendor/lib',
      'vendor/lib/a/token.txt',
      'nested/.env',
      'nested/.git/config',
    ])
      expect({ name, is: await visible(folder, join(folder, name)) }).toEqual({ name, is: false });
    for (const name of ['nested', 'nested/sub/b.txt'])
      expect({ name, is: await visible(folder, join(folder, name)) }).toEqual({ name, is: true });
  });

  it('is not in a repository that git can not read, because it may be ignored there', async () => {
    const folder = repositoryWith({ 'a.txt': 'a', '.gitignore': '.env\n' });
    write(folder, { '.env': 'TOKEN=1' });
    write(folder, { '.git/config': '[core' });
    expect(await visible(folder, join(folder, '.env'))).toBe(false);
    expect(await visible(folder, folder)).toBe(true);
  });

  it('is not a link out of the folder, nor below one', async () => {
    const folder = folderWith({ 'a.txt': 'a' });
    const other = folderWith({ 'b.txt': 'b' });
    symlinkSync('/proc/self/environ', join(folder, 'environ'));
    symlinkSync(other, join(folder, 'other'));
    symlinkSync('a.txt', join(folder, 'inside'));
    symlinkSync('/gone/from/here', join(folder, 'dangling'));
    for (const name of ['environ', 'other', 'other/b.txt', 'other/new/c.txt', 'dangling'])
      expect({ name, is: await visible(folder, join(folder, name)) }).toEqual({ name, is: false });
    expect(await visible(folder, join(folder, 'inside'))).toBe(true);
  });

  it('may be in a folder that is reached by a link itself', async () => {
    const folder = folderWith({ 'a.txt': 'a' });
    symlinkSync(folder, `${folder} by link`);
    expect(await visible(`${folder} by link`, `${folder} by link/a.txt`)).toBe(true);
  });

  it('runs no program of the repository', async () => {
    const folder = repositoryWith({ 'a.txt': 'a' });
    const trace = join(folder, 'trace');
    git(folder, 'config', 'core.fsmonitor', `touch '${trace}' #`);
    expect(await visible(folder, join(folder, 'a.txt'))).toBe(true);
    expect(await visible(folder, trace)).toBe(true);
    expect(await namesIn(folder)).not.toContain('trace');
  });
});
