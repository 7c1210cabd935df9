import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { GitServer } from '../support/git-server.ts';
import { runClone, type CloneWish } from '../support/run-clone.ts';

const noise = (length: number, seed: string): string =>
  Array.from({ length }, (_, at) => `${seed} ${at * 7919}\n`).join('');

/** A repository with a commit, its mirror, and a host with all of it and with what came later. */
class Scene {
  readonly folder = mkdtempSync(join(tmpdir(), 'clone-mirror-'));
  readonly source = join(this.folder, 'source');
  readonly mirrors = join(this.folder, 'mirrors');
  mirror = join(this.folder, 'mirror');
  readonly #hosts: GitServer[] = [];

  constructor() {
    this.git(this.folder, 'init', '--quiet', '--initial-branch', 'main', this.source);
    this.commit('README.md', noise(5_000, 'first'));
    this.refresh();
  }

  git(at: string, ...args: readonly string[]): string {
    const author = ['-c', 'user.name=test', '-c', 'user.email=test@localhost'];
    return execFileSync('git', ['-C', at, ...author, ...args], {
      env: { PATH: process.env['PATH'], HOME: '/nonexistent', GIT_CONFIG_NOSYSTEM: '1' },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
      .toString()
      .trim();
  }

  commit(file: string, content: string): string {
    writeFileSync(join(this.source, file), content);
    this.git(this.source, 'add', '.');
    this.git(this.source, 'commit', '--quiet', '--message', file);
    return this.git(this.source, 'rev-parse', 'HEAD');
  }

  refresh(...options: readonly string[]): void {
    rmSync(this.mirror, { recursive: true, force: true });
    const args = ['clone', '--quiet', '--mirror', ...options];
    this.git(this.folder, ...args, `file://${this.source}`, this.mirror);
  }

  /** Clones what the source has now, with the mirror as it is. */
  async clone(wish: Partial<CloneWish> = {}) {
    const host = await GitServer.start({ repositories: { 'acme/shop': { from: this.source } } });
    this.#hosts.push(host);
    const place = join(this.mirrors, new URL(host.url).host, 'acme', 'shop.git');
    mkdirSync(dirname(place), { recursive: true });
    if (existsSync(this.mirror)) renameSync(this.mirror, place);
    this.mirror = place;
    return runClone(this.folder, { from: host.url, mirrors: this.mirrors, ...wish });
  }

  async close(): Promise<void> {
    await Promise.all(this.#hosts.map((host) => host.stop()));
    rmSync(this.folder, { recursive: true, force: true });
  }
}

let scene: Scene;
beforeEach(() => {
  scene = new Scene();
});
afterEach(() => scene.close());

/** That the clone is whole without its mirror, and that it is at `head` of the host. */
function expectWhole(project: string, head: string): void {
  rmSync(scene.mirror, { recursive: true, force: true });
  expect(existsSync(join(project, '.git/objects/info/alternates'))).toBe(false);
  expect(scene.git(project, 'fsck', '--full', '--strict')).not.toMatch(/missing|broken/);
  expect(scene.git(project, 'rev-parse', 'HEAD')).toBe(head);
  expect(scene.git(project, 'status', '--porcelain')).toBe('');
}

const received = /Receiving objects: 100% \((\d+)/;
const copied = 'The clone has the objects of';

it('a clone copies the objects of the mirror, and fetches none of them', async () => {
  const head = scene.git(scene.source, 'rev-parse', 'HEAD');
  const { code, output, project, left } = await scene.clone();
  expect({ code, left }).toEqual({ code: 0, left: ['steps'] });
  expect(output).toContain(copied);
  expect(output).not.toMatch(received);
  expectWhole(project, head);
});

it('commits that the mirror lacks come from the host, and branches that only the mirror has do not come', async () => {
  scene.git(scene.source, 'branch', 'gone');
  scene.refresh();
  scene.git(scene.source, 'branch', '--delete', 'gone');
  const head = scene.commit('second', 'second\n');
  const { code, output, project } = await scene.clone();
  expect(code).toBe(0);
  expect(output).toContain(copied);
  expect(received.exec(output)?.[1]).toBe('3');
  expect(scene.git(project, 'branch', '--remotes')).not.toContain('gone');
  expectWhole(project, head);
});

it('a history that was written anew comes from the host', async () => {
  scene.git(scene.source, 'checkout', '--quiet', '--orphan', 'other');
  const head = scene.commit('other', 'other\n');
  scene.git(scene.source, 'branch', '--force', '--move', 'other', 'main');
  const { code, project } = await scene.clone();
  expect(code).toBe(0);
  expectWhole(project, head);
});

const withoutMirror: readonly (readonly [string, () => void])[] = [
  ['that is empty', () => rmSync(join(scene.mirror, 'objects'), { recursive: true })],
  [
    'that takes its own objects from another repository',
    () => {
      const other = join(scene.folder, 'other.git');
      renameSync(scene.mirror, other);
      scene.git(scene.folder, 'clone', '--quiet', '--mirror', '--shared', other, scene.mirror);
    },
  ],
  [
    'that is shallow',
    () => {
      scene.commit('second', 'second\n');
      scene.refresh('--depth', '1');
    },
  ],
  [
    'that is partial',
    () => {
      scene.git(scene.source, 'config', 'uploadpack.allowFilter', 'true');
      scene.refresh('--filter=blob:none');
    },
  ],
  [
    'whose objects are larger than the clone may be',
    () => {
      const random = randomBytes(5_000_000).toString('base64');
      scene.git(scene.source, 'checkout', '--quiet', '-b', 'large');
      scene.commit('large', random);
      scene.refresh();
      scene.git(scene.source, 'checkout', '--quiet', 'main');
      scene.git(scene.source, 'branch', '--quiet', '--delete', '--force', 'large');
      scene.git(scene.source, 'reflog', 'expire', '--expire=now', '--all');
      scene.git(scene.source, 'gc', '--quiet', '--prune=now');
    },
  ],
  [
    'with a damaged pack',
    () => {
      for (const file of readdirSync(join(scene.mirror, 'objects/pack')))
        if (file.endsWith('.pack')) truncateSync(join(scene.mirror, 'objects/pack', file), 20);
    },
  ],
];
it.each(withoutMirror)('a clone does not use a mirror %s', async (_what, damage) => {
  damage();
  const head = scene.git(scene.source, 'rev-parse', 'HEAD');
  const { code, output, project, left } = await scene.clone({ maxMebibytes: 4 });
  expect({ code, left }).toEqual({ code: 0, left: ['steps'] });
  expect(output).toMatch(received);
  expectWhole(project, head);
});

it('a mirror without the files of a commit is given up once the checkout misses them', async () => {
  const { mirror } = scene;
  const pack = readdirSync(join(mirror, 'objects/pack')).find((file) => file.endsWith('.pack'));
  const content = readFileSync(join(mirror, 'objects/pack', pack ?? ''));
  rmSync(join(mirror, 'objects/pack'), { recursive: true });
  execFileSync('git', ['-C', mirror, 'unpack-objects', '-q'], { input: content });
  const blob = scene.git(mirror, 'rev-parse', 'main:README.md');
  rmSync(join(mirror, 'objects', blob.slice(0, 2), blob.slice(2)));
  const head = scene.git(scene.source, 'rev-parse', 'HEAD');
  const { code, output, project, left } = await scene.clone();
  expect({ code, left }).toEqual({ code: 0, left: ['steps'] });
  expect(output).toContain('The objects of the mirror are not complete. Cloning without it.');
  expectWhole(project, head);
});

it('a mirror may belong to another user', async () => {
  // Only root can give files away. For any other user this is the first case again.
  if (process.getuid?.() === 0)
    for (const file of ['', ...readdirSync(scene.mirror, { recursive: true, encoding: 'utf8' })])
      chownSync(join(scene.mirror, file), 12_345, 12_345);
  const head = scene.git(scene.source, 'rev-parse', 'HEAD');
  const { code, output, project } = await scene.clone();
  expect(code).toBe(0);
  expect(output).toContain(copied);
  expectWhole(project, head);
});
