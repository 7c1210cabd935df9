import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { constants, deflateRawSync, deflateSync } from 'node:zlib';
import fc from 'fast-check';
import { unprovenUpdates, type ProofLimits } from '../src/pack-head.ts';
import { flush, packet } from '../src/pkt-line.ts';
import { PushBody, readPush } from '../src/receive-pack.ts';

const folder = mkdtempSync(join(tmpdir(), 'pack-head-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const person = 'test <test@localhost>';
const git = (repository: string, args: readonly string[], input: string | Buffer = ''): Buffer =>
  execFileSync('git', ['-C', join(folder, repository), ...args], {
    input,
    env: { PATH: process.env['PATH'], HOME: '/nonexistent', GIT_CONFIG_NOSYSTEM: '1' },
    stdio: ['pipe', 'pipe', 'ignore'],
    maxBuffer: 1024 * 1024 * 1024,
  });
const idAt = (repository: string, revision: string): string =>
  git(repository, ['rev-parse', revision]).toString().trim();

/** The stream of `git fast-import` for a commit that changes one file. */
const commit = (branch: string, mark: number, text: string, parents: string): string => {
  const message = `Change number ${mark} of the file, because a test needs a history\n\n${text}\n`;
  const content = `${text} ${mark}\n`;
  return (
    `commit refs/heads/${branch}\nmark :${mark}\n` +
    `author ${person} ${1_700_000_000 + mark} +0000\n` +
    `committer ${person} ${1_700_000_000 + mark} +0000\n` +
    `data ${message.length}\n${message}${parents}` +
    `M 644 inline file-${mark % 7}\ndata ${content.length}\n${content}\n`
  );
};

/**
 * A repository: `main` has 3,000 commits more than `old`; `merged` merges `side` into `old`;
 * `other` begins at the parent of `old`; `tag` is an annotated tag of `main`.
 */
function newRepository(name: string, format: 'sha1' | 'sha256', length: number): void {
  execFileSync('git', ['init', '--quiet', '--bare', `--object-format=${format}`, name], {
    cwd: folder,
  });
  const text = 'The text is the same in all commits, and long enough for a delta. '.repeat(4);
  const main = Array.from({ length }, (_, index) => commit('main', index + 3, text, ''));
  const marks = length + 10;
  git(
    name,
    ['fast-import', '--quiet'],
    [
      commit('old', 1, text, ''),
      commit('old', 2, text, ''),
      'reset refs/heads/main\nfrom :2\n\n',
      ...main,
      'reset refs/heads/side\nfrom :1\n\n',
      commit('side', marks, text, ''),
      'reset refs/heads/merged\nfrom :2\n\n',
      commit('merged', marks + 1, text, `merge :${marks}\n`),
      'reset refs/heads/other\nfrom :1\n\n',
      commit('other', marks + 2, text, ''),
      `tag tag\nfrom :${length + 2}\ntagger ${person} 1700000000 +0000\ndata 3\ntag\n`,
    ].join(''),
  );
}

beforeAll(() => {
  newRepository('sha1', 'sha1', 3000);
  newRepository('sha256', 'sha256', 20);
});

/**
 * The pack that `git push` sends: the objects of some revisions without those of others. Commits
 * that a user has made are stored one by one, and become deltas in the pack; those of `fast-import`
 * do so with `--no-reuse-delta` only.
 */
const packBetween = (
  repository: string,
  revisions: readonly string[],
  options: readonly string[] = ['--delta-base-offset'],
): Buffer =>
  git(
    repository,
    [
      ...['pack-objects', '--all-progress-implied', '--revs', '--stdout', '--thin', '-q'],
      '--no-reuse-delta',
      ...options,
    ],
    revisions.map((revision) => `${revision}\n`).join(''),
  );

const zero = '0'.repeat(40);
type Command = readonly [ref: string, oldId: string, newId: string];

const listOf = (commands: readonly Command[], shallow: readonly string[] = []): Buffer => {
  const [id = ''] = commands.map(([, , newId]) => newId);
  const capabilities = ` report-status object-format=${id.length === 64 ? 'sha256' : 'sha1'}`;
  const lines = commands.map(([ref, oldId, newId], index) =>
    packet(`${oldId} ${newId} ${ref}${index === 0 ? `\0${capabilities}` : ''}`),
  );
  return Buffer.from(
    `${shallow.map((commit) => packet(`shallow ${commit}`)).join('')}${lines.join('')}${flush}`,
  );
};

// oxlint-disable-next-line @typescript-eslint/require-await -- a body is an asynchronous iterable
async function* pieces(
  body: Buffer,
  sizes: readonly number[],
  seen: { bytes: number } = { bytes: 0 },
): AsyncGenerator<Buffer> {
  for (let [at, index] = [0, 0]; at < body.length; index++) {
    const size = sizes[index % sizes.length] ?? 1;
    yield Buffer.from(body.subarray(at, at + size));
    at += size;
    seen.bytes = Math.min(at, body.length);
  }
}

async function unprovenOf(
  body: Buffer,
  limits: Partial<ProofLimits> = {},
  sizes: readonly number[] = [65_536],
) {
  const seen = { bytes: 0 };
  const pushBody = new PushBody(pieces(body, sizes, seen));
  const push = await readPush(pushBody);
  const unproven = await unprovenUpdates(push, pushBody, limits);
  const readBytes = seen.bytes;
  const forwarded: Buffer[] = [];
  for await (const chunk of pushBody) forwarded.push(Buffer.from(chunk));
  expect(Buffer.concat(forwarded).equals(body)).toBe(true);
  return { unproven, readBytes };
}

const unproven = async (...options: Parameters<typeof unprovenOf>) =>
  (await unprovenOf(...options)).unproven;

const formats = ['sha1', 'sha256'] as const;
const main = 'refs/heads/main';

/** A push of one branch of a repository, from an old revision to a new one. */
const pushOf = (
  repository: string,
  from: string,
  to: string,
  options?: readonly string[],
): Buffer =>
  Buffer.concat([
    listOf([[main, idAt(repository, from), idAt(repository, to)]]),
    packBetween(repository, [to, `^${from}`], options),
  ]);

describe.each(formats)('a pack of git in a repository of %s', (repository) => {
  it.each<[string, string, string, readonly string[]]>([
    ['one commit', 'main~1', 'main', []],
    ['many commits', 'old', 'main', []],
    ['a merge into the old branch', 'old', 'merged', []],
    ['a merge of the old branch', 'side', 'merged', []],
    ['a forced push', 'other', 'main', [main]],
    ['a forced push to an older commit', 'main', 'main~3', [main]],
    ['a forced push that replaces the last commit', 'old', 'other', [main]],
  ])('with %s', async (_name, from, to, expected) => {
    for (const options of [['--delta-base-offset'], [], ['--window=0'], ['--depth=5']])
      expect(await unproven(pushOf(repository, from, to, options))).toEqual(expected);
  });

  it('has commits as deltas, without which this test would show little', async () => {
    const pack = packBetween(repository, ['main', '^old']);
    const path = join(folder, `${repository}.pack`);
    git(repository, ['index-pack', '--stdin', '--fix-thin', path], pack);
    const deltas = git(repository, ['verify-pack', '-v', path])
      .toString()
      .split('\n')
      .filter((line) => /^[0-9a-f]+ commit +\d+ \d+ \d+ [1-9]/.test(line));
    expect(deltas.length).toBeGreaterThan(3);
    expect(await unproven(pushOf(repository, 'old', 'main'))).toEqual([]);
  });

  it('is not proven without the commits that prove it', async () => {
    const ids = [idAt(repository, 'old'), idAt(repository, 'main')] as const;
    const empty = packBetween(repository, ['main', '^main']);
    for (const pack of [Buffer.alloc(0), empty, packBetween(repository, ['main', '^main~1'])])
      expect(await unproven(Buffer.concat([listOf([[main, ...ids]]), pack]))).toEqual([main]);
  });

  it('of several references proves each on its own', async () => {
    const id = (revision: string) => idAt(repository, revision);
    const none = zero.padEnd(id('main').length, '0');
    const body = Buffer.concat([
      listOf([
        ['refs/heads/forward', id('old'), id('main')],
        ['refs/heads/merged', id('side'), id('merged')],
        ['refs/heads/forced', id('other'), id('main')],
        ['refs/heads/short', id('main~2'), id('main~1')],
        ['refs/heads/new', none, id('main')],
        ['refs/heads/gone', id('old'), none],
        ['refs/tags/tag', id('old'), id('tag')],
        ['refs/heads/same', id('old'), id('old')],
      ]),
      packBetween(repository, ['main', 'merged', 'tag', '^side', '^old']),
    ]);
    expect(await unproven(body)).toEqual(['refs/heads/forced', 'refs/tags/tag']);
  });

  it('is not read where no reference is updated', async () => {
    const id = idAt(repository, 'main');
    const none = zero.padEnd(id.length, '0');
    const list = listOf([
      ['refs/heads/new', none, id],
      ['refs/heads/gone', id, none],
    ]);
    const { unproven: refs, readBytes } = await unprovenOf(
      Buffer.concat([list, packBetween(repository, ['main'])]),
      {},
      [list.length],
    );
    expect(refs).toEqual([]);
    expect(readBytes).toBe(0);
  });
});

describe('the beginning of a pack', () => {
  it('is read as far as its commits only', async () => {
    const forward = pushOf('sha1', 'main~1', 'main');
    const noise = Buffer.alloc(1024 * 1024, 7);
    for (const [body, limit] of [
      [Buffer.concat([forward, noise]), 16_384],
      [Buffer.concat([pushOf('sha1', 'other', 'main~2990'), noise]), 32_768],
    ] as const) {
      const { readBytes } = await unprovenOf(body, {}, [1024]);
      expect(readBytes).toBeLessThan(limit);
    }
  });

  it('gives the same result and the same bytes in whatever pieces it arrives', async () => {
    const bodies = [
      pushOf('sha1', 'main~40', 'main'),
      pushOf('sha1', 'other', 'main~2960'),
      pushOf('sha1', 'old', 'merged', []),
    ];
    const expected = await Promise.all(bodies.map((body) => unproven(body)));
    expect(expected).toEqual([[], [main], []]);
    await fc.assert(
      fc.asyncProperty(
        fc.nat(bodies.length - 1),
        fc.array(fc.integer({ min: 1, max: 300 }), { minLength: 1, maxLength: 8 }),
        async (index, sizes) => {
          const body = bodies[index] ?? Buffer.alloc(0);
          expect(await unproven(body, {}, sizes)).toEqual(expected[index]);
        },
      ),
      { numRuns: 50 },
    );
  });

  it('proves nothing once bytes are missing, and never throws for changed ones', async () => {
    const list = listOf([[main, idAt('sha1', 'main~12'), idAt('sha1', 'main')]]);
    const pack = packBetween('sha1', ['main', '^main~12']);
    let needed = pack.length;
    for (let low = 0; low < needed;) {
      const middle = Math.floor((low + needed) / 2);
      const refs = await unproven(Buffer.concat([list, pack.subarray(0, middle)]));
      if (refs.length === 0) needed = middle;
      else low = middle + 1;
    }
    expect(needed).toBeGreaterThan(12);
    await fc.assert(
      fc.asyncProperty(
        fc.nat(needed - 1),
        fc.nat(needed - 1),
        fc.integer({ min: 1, max: 255 }),
        async (length, at, change) => {
          expect(await unproven(Buffer.concat([list, pack.subarray(0, length)]))).toEqual([main]);
          const changed = Buffer.from(pack);
          changed.writeUInt8((changed[at] ?? 0) ^ change, at);
          await unproven(Buffer.concat([list, changed]));
        },
      ),
    );
  });

  it('is not a proof beyond a limit', async () => {
    const body = pushOf('sha1', 'main~200', 'main');
    expect(await unproven(body)).toEqual([]);
    for (const limits of [
      { maxPackBytes: 4000 },
      { maxCommits: 100 },
      { maxObjectBytes: 100 },
      { maxInflatedBytes: 50_000 },
    ])
      expect(await unproven(body, limits)).toEqual([main]);
    const { readBytes } = await unprovenOf(body, { maxPackBytes: 4000 }, [64]);
    expect(readBytes).toBeLessThan(4500);
  });

  it('ends with the error of the source', async () => {
    const list = listOf([[main, idAt('sha1', 'old'), idAt('sha1', 'main')]]);
    // oxlint-disable-next-line @typescript-eslint/require-await -- a body is asynchronous
    const source = async function* () {
      yield list;
      throw new Error('reset');
    };
    const body = new PushBody(source());
    const push = await readPush(body);
    await expect(unprovenUpdates(push, body)).rejects.toThrow('reset');
  });
});

interface Entry {
  readonly type: number;
  readonly data: Buffer;
  /** The base of a delta: the index of an entry, or an id. */
  readonly base?: number | string;
  /** Replaces the deflated data. */
  readonly deflated?: Buffer;
  /** Replaces the size of the data. */
  readonly size?: number;
}

const [commitType, treeType, tagType, offsetDelta, idDelta] = [1, 2, 4, 6, 7] as const;

const sizeBytes = (first: number, size: number): Buffer => {
  const bytes: number[] = [];
  let [byte, rest] = [first | (size % 16), Math.floor(size / 16)];
  for (; rest > 0; rest = Math.floor(rest / 128)) {
    bytes.push(byte | 128);
    byte = rest % 128;
  }
  return Buffer.from([...bytes, byte]);
};

const distanceBytes = (distance: number): Buffer => {
  const bytes = [distance & 127];
  for (let rest = distance >> 7; rest > 0; rest >>= 7) bytes.unshift(128 | (--rest & 127));
  return Buffer.from(bytes);
};

function packOf(entries: readonly Entry[], version = 2, count = entries.length): Buffer {
  const header = Buffer.alloc(12);
  header.write('PACK');
  header.writeUInt32BE(version, 4);
  header.writeUInt32BE(count, 8);
  const offsets: number[] = [];
  const parts = [header];
  let at = header.length;
  for (const { type, data, base, deflated, size } of entries) {
    const baseBytes =
      typeof base === 'string'
        ? Buffer.from(base, 'hex')
        : base === undefined
          ? Buffer.alloc(0)
          : distanceBytes(at - (offsets[base] ?? 0));
    offsets.push(at);
    const part = Buffer.concat([
      sizeBytes(type << 4, size ?? data.length),
      baseBytes,
      deflated ?? deflateSync(data),
    ]);
    parts.push(part);
    at += part.length;
  }
  return Buffer.concat(parts);
}

const hash = (kind: string, data: Buffer): string =>
  createHash('sha1').update(`${kind} ${data.length}\0`).update(data).digest('hex');

const tree = '4b825dc642cb6eb9a060e54bf8d69288fbee4904';
const contentOf = (parents: readonly string[], message = 'x'): Buffer =>
  Buffer.from(
    `tree ${tree}\n${parents.map((id) => `parent ${id}\n`).join('')}` +
      `author ${person} 0 +0000\ncommitter ${person} 0 +0000\n\n${message}\n`,
  );
const commitEntry = (data: Buffer): Entry => ({ type: commitType, data });

const varint = (size: number): Buffer => {
  const bytes: number[] = [];
  for (let rest = size; ; rest = Math.floor(rest / 128)) {
    bytes.push((rest % 128) | (rest >= 128 ? 128 : 0));
    if (rest < 128) return Buffer.from(bytes);
  }
};
const copied = (from: number, length: number): Buffer =>
  Buffer.from(
    [0xff, ...[0, 8, 16, 24].map((bits) => (from >> bits) & 255)].concat([
      length & 255,
      (length >> 8) & 255,
      length >> 16,
    ]),
  );
const inserted = (data: Buffer): Buffer => {
  const parts: Buffer[] = [];
  for (let at = 0; at < data.length; at += 127) {
    const part = data.subarray(at, at + 127);
    parts.push(Buffer.of(part.length), part);
  }
  return Buffer.concat(parts);
};
const deltaOf = (base: Buffer, result: Buffer, ...instructions: readonly Buffer[]): Buffer =>
  Buffer.concat([varint(base.length), varint(result.length), ...instructions]);

const old = '1'.repeat(40);

describe('a pack that is made by hand', () => {
  const root = contentOf([old], 'the first commit');
  const tip = contentOf([hash('commit', root)]);
  const tipId = hash('commit', tip);
  const update = (newId = tipId) => listOf([[main, old, newId]]);
  const refsOf = (entries: readonly Entry[], newId?: string) =>
    unproven(Buffer.concat([update(newId), packOf(entries)]));
  const noise: Entry = { type: tagType, data: Buffer.from('tag x') };
  const delta = (base: number | string, data: Buffer): Entry => ({
    type: typeof base === 'string' ? idDelta : offsetDelta,
    data,
    base,
  });
  // The tip has the same beginning and end as the root.
  const shared = Buffer.byteLength(`tree ${tree}\nparent `);
  const whole = deltaOf(root, tip, copied(0, shared), inserted(tip.subarray(shared)));

  it.each<[string, readonly Entry[]]>([
    ['newest first', [commitEntry(tip), commitEntry(root)]],
    ['oldest first', [commitEntry(root), commitEntry(tip)]],
    ['a tag between', [commitEntry(tip), noise, commitEntry(root)]],
    ['a delta by offset', [commitEntry(root), noise, delta(0, whole)]],
    ['a delta by id', [commitEntry(root), delta(hash('commit', root), whole)]],
    [
      'a delta of a delta of a tag',
      [
        { type: tagType, data: root },
        delta(0, deltaOf(root, root, copied(0, root.length))),
        commitEntry(root),
        delta(2, deltaOf(root, root, inserted(root))),
        delta(3, whole),
      ],
    ],
    [
      'a delta whose head is long',
      [commitEntry(root), ...Array<Entry>(99).fill(noise), delta(0, whole)],
    ],
  ])('proves an update: %s', async (_name, entries) => {
    expect(await refsOf(entries)).toEqual([]);
    expect(await unproven(Buffer.concat([update(), packOf(entries, 3)]), {}, [1, 2, 30])).toEqual(
      [],
    );
  });

  it.each<[string, readonly Entry[]]>([
    ['only the new commit', [commitEntry(tip)]],
    ['only the commit above the old one', [commitEntry(root)]],
    [
      'a tree before the last commit',
      [commitEntry(tip), { type: treeType, data: Buffer.of() }, commitEntry(root)],
    ],
    ['a tag with the content of a commit', [commitEntry(tip), { type: tagType, data: root }]],
    ['a delta without its base', [commitEntry(tip), delta(old, whole), commitEntry(root)]],
    ['a delta before its base', [delta(hash('commit', root), whole), commitEntry(root)]],
    ['a delta of itself', [commitEntry(root), delta(1, whole)]],
    ['a delta of the header', [commitEntry(root), { ...delta(0, whole), base: 5000 }]],
    ['a delta of another size', [commitEntry(root), delta(0, deltaOf(tip, tip, inserted(tip)))]],
    [
      'a delta beyond its base',
      [commitEntry(root), delta(0, deltaOf(root, tip, copied(9, 65_536)))],
    ],
    ['a delta that is too short', [commitEntry(root), delta(0, whole.subarray(0, -1))]],
    [
      'a delta that is too long',
      [commitEntry(root), delta(0, Buffer.concat([whole, Buffer.of(1, 1)]))],
    ],
    [
      'a delta with the reserved command',
      [commitEntry(root), delta(0, Buffer.concat([whole, Buffer.of(0)]))],
    ],
    ['an empty delta', [commitEntry(root), delta(0, Buffer.of())]],
    ['a delta with an endless size', [commitEntry(root), delta(0, Buffer.alloc(500, 128))]],
    [
      'an object with another size',
      [commitEntry(root), { ...commitEntry(tip), size: tip.length - 1 }],
    ],
    ['an object that is not deflated', [commitEntry(root), { ...commitEntry(tip), deflated: tip }]],
    ['a reserved type', [commitEntry(root), { type: 5, data: Buffer.of() }, commitEntry(tip)]],
    ['an empty commit', [commitEntry(Buffer.of()), commitEntry(tip)]],
  ])('does not prove an update: %s', async (_name, entries) => {
    expect(await refsOf(entries)).toEqual([main]);
  });

  it.each([
    ['another signature', Buffer.concat([Buffer.from('JUNK'), packOf([]).subarray(4)])],
    ['another version', packOf([commitEntry(tip), commitEntry(root)], 4)],
    ['fewer objects', packOf([commitEntry(tip), commitEntry(root)], 2, 1)],
    ['a size without end', Buffer.concat([packOf([], 2, 9), Buffer.alloc(1_000_000, 0x90)])],
    ['a distance without end', Buffer.concat([packOf([], 2, 9), Buffer.alloc(1_000_000, 0xe0)])],
  ])('does not prove an update: %s', async (_name, pack) => {
    expect(await unproven(Buffer.concat([update(), pack]))).toEqual([main]);
  });

  it.each([
    ['the message', contentOf([], `\nparent ${old}`)],
    ['a line behind the author', Buffer.from(`${contentOf([]).toString()}parent ${old}\n`)],
    ['a line before the tree', Buffer.from(`parent ${old}\n${contentOf([]).toString()}`)],
    ['a line that is longer', contentOf([`${old}0`])],
    ['a line without an end', Buffer.from(`tree ${tree}\nparent ${old}`)],
  ])('does not take a parent from %s', async (_name, content) => {
    expect(await refsOf([commitEntry(content)], hash('commit', content))).toEqual([main]);
  });

  it('takes any parent of a merge', async () => {
    const merge = contentOf(['2'.repeat(40), hash('commit', root), '3'.repeat(40)]);
    const entries = [commitEntry(merge), commitEntry(root)];
    expect(await refsOf(entries, hash('commit', merge))).toEqual([]);
  });

  it('does not use the parents of a shallow commit, which the host may forget', async () => {
    const pack = packOf([commitEntry(tip), commitEntry(root)]);
    const list = listOf([[main, old, tipId]], [hash('commit', root)]);
    expect(await unproven(Buffer.concat([list, pack]))).toEqual([main]);
    const another = listOf([[main, old, tipId]], ['2'.repeat(40)]);
    expect(await unproven(Buffer.concat([another, pack]))).toEqual([]);
  });

  it('may have a chain of deltas that is longer than what is held', async () => {
    const filler = 'a text that is long '.repeat(5000);
    let parent = old;
    let last: Buffer = Buffer.alloc(0);
    const entries = Array.from({ length: 120 }, (_, index): Entry => {
      const content = contentOf([parent], filler);
      parent = hash('commit', content);
      const entry =
        index === 0
          ? commitEntry(content)
          : delta(
              index - 1,
              deltaOf(
                last,
                content,
                inserted(content.subarray(0, 100)),
                copied(100, 60_000),
                copied(60_100, content.length - 60_100),
              ),
            );
      last = content;
      return entry;
    });
    const middle = contentOf([parent], filler);
    const base = contentOf([old], filler);
    // The base has been replaced by later objects by now.
    const again = delta(
      0,
      deltaOf(
        base,
        middle,
        inserted(middle.subarray(0, 100)),
        copied(100, 65_000),
        inserted(middle.subarray(65_100)),
      ),
    );
    expect(await refsOf([...entries, again], hash('commit', middle))).toEqual([]);
  });

  it('costs a bounded time, of which other work gets its turns', async () => {
    // Each of 100 updates is a walk through all commits, none of which arrives at the old one.
    let parent = '2'.repeat(40);
    const ids: string[] = [];
    const entries = Array.from({ length: 20_000 }, (): Entry => {
      const content = contentOf([parent, ...ids.slice(-3)]);
      parent = hash('commit', content);
      ids.push(parent);
      return commitEntry(content);
    });
    const commands = ids.slice(-100).map((id, index): Command => [`refs/heads/b${index}`, old, id]);
    const side = commitEntry(contentOf([old], 'side'));
    const body = Buffer.concat([listOf(commands), packOf([side, ...entries])]);
    let turns = 0;
    let isOver = false;
    const other = (): void => {
      turns++;
      if (!isOver) setImmediate(other);
    };
    setImmediate(other);
    expect(await unproven(body)).toHaveLength(100);
    isOver = true;
    expect(turns).toBeGreaterThan(150);
  });

  it('is a proof of a bounded number of steps', async () => {
    let parent = old;
    const ids: string[] = [];
    const entries = Array.from({ length: 299 }, (): Entry => {
      const content = contentOf([parent]);
      parent = hash('commit', content);
      ids.push(parent);
      return commitEntry(content);
    });
    const commands = ids.slice(-100).map((id, index): Command => [`refs/heads/b${index}`, old, id]);
    const body = Buffer.concat([listOf(commands), packOf(entries)]);
    expect(await unproven(body)).toEqual([]);
    expect((await unproven(body, { maxCommits: 300 })).length).toBeGreaterThan(50);
  });
});

describe('a bomb', () => {
  const mebibyte = 1024 * 1024;
  const segment = deflateRawSync(Buffer.alloc(mebibyte), {
    level: 9,
    finishFlush: constants.Z_SYNC_FLUSH,
  });
  const gibibyte = Buffer.concat([
    Buffer.of(0x78, 0x9c),
    ...Array<Buffer>(1024).fill(segment),
    Buffer.of(3, 0, 0, 0, 0, 1),
  ]);
  const entry = (size: number, deflated: Buffer): Entry => ({
    type: commitType,
    data: Buffer.of(),
    size,
    deflated,
  });
  const zeros = Buffer.alloc(mebibyte);
  const chain: readonly Entry[] = Array.from({ length: 4000 }, (_, index) =>
    index === 0
      ? commitEntry(zeros)
      : {
          type: offsetDelta,
          base: index - 1,
          data: deltaOf(zeros, zeros, ...Array<Buffer>(16).fill(copied(0, 65_536))),
        },
  );
  const bases = Array.from({ length: 2000 }, (_, index) =>
    commitEntry(contentOf([], `${'x'.repeat(60_000)}${index}`)),
  );
  const parents = Array.from({ length: 130 }, (_, index) =>
    commitEntry(contentOf(Array<string>(20_000).fill(old), `${index}`)),
  );

  // Buffers of several objects are only freed with the next collection of garbage.
  it.each<[string, readonly Entry[], number?]>([
    ['an object of 1 GB', [entry(1024 * mebibyte, gibibyte)]],
    ['an object of 1 GB that claims to be small', [entry(300, gibibyte)]],
    ['an object of 1 GB that claims to be as large as possible', [entry(mebibyte, gibibyte)]],
    [
      'a thousand objects of 1 MB',
      Array<Entry>(1000).fill(entry(mebibyte, deflateSync(zeros))),
      200,
    ],
    ['a chain of 4 GB', chain, 110],
    ['millions of parents', parents],
    ['two thousand different commits', bases, 110],
  ])('costs little memory: %s', (_name, entries, maxMebibytes = 50) => {
    const body = Buffer.concat([listOf([[main, old, '2'.repeat(40)]]), packOf(entries)]);
    const { refs, grownBytes } = inProcess(body);
    expect(refs).toEqual([main]);
    expect(grownBytes).toBeLessThan(maxMebibytes * mebibyte);
  });

  /**
   * Reads the body in a process of its own, whose maximum memory shows the cost. A process starts
   * with the maximum of its parent, so the parent is a small shell.
   */
  function inProcess(body: Buffer): { readonly refs: unknown; readonly grownBytes: number } {
    const urls = ['pack-head', 'receive-pack'].map((name) =>
      JSON.stringify(new URL(`../src/${name}.ts`, import.meta.url).href),
    );
    const program = `
      import { stdin } from 'node:process';
      const [{ unprovenUpdates }, { PushBody, readPush }] =
        await Promise.all([${urls.map((url) => `import(${url})`).join(', ')}]);
      const chunks = await Array.fromAsync(stdin);
      const peakBytes = () => process.resourceUsage().maxRSS * 1024;
      const before = peakBytes();
      const body = new PushBody((async function* () { yield* chunks; })());
      const refs = await unprovenUpdates(await readPush(body), body);
      console.log(JSON.stringify({ refs, grownBytes: peakBytes() - before }));
    `;
    return JSON.parse(
      execFileSync(
        'sh',
        ['-c', '"$0" "$@"; exit $?', process.execPath, '--input-type=module', '--eval', program],
        { input: body },
      ).toString(),
    ) as ReturnType<typeof inProcess>;
  }
});
