import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { ArchiveError } from '../../src/archive/layout.ts';
import type { ArchiveWriter } from '../../src/archive/installation.ts';
import { addArchiveCommand } from '../../src/commands/archive-command.ts';
import { runApiServer, type RunningApiServer } from '../support/api-server.ts';
import { memoryStore } from '../support/archive/memory-store.ts';
import { FakeHistory, headOf, storedEvents } from '../support/gateway/fake-history.ts';
import { kubectl } from '../support/kubectl.ts';
import { unzip } from '../support/unzip.ts';

const conversation = (name: string) => ({
  apiVersion: 'conversation-operator.dev/v1alpha1',
  kind: 'Conversation',
  metadata: { name },
  spec: { owner: 'alice', templateName: 'default', title: `Title of ${name}` },
});

describe('conversation-operator archive', () => {
  let server: RunningApiServer;
  let folder: string;
  let history: FakeHistory;
  let memory: ReturnType<typeof memoryStore>;
  let closed: number;
  const knownKey = 'abcdef012345';
  /** Writers of archives, where this installation is not the one, by UID. */
  const writers = new Map<string, ArchiveWriter>();
  /** UIDs of conversations, and of the namespace. */
  const uids: Record<string, string> = {};
  const ownWriter = (): ArchiveWriter => ({
    kind: 'known',
    keyId: knownKey,
    namespaceUid: uids['default'],
  });

  const kube = async (...args: Parameters<typeof kubectl>) => {
    const { code, stdout, stderr } = await kubectl(...args);
    if (code !== 0) throw new Error(stderr);
    return stdout;
  };
  const store = (uid: string, count: number) => {
    const { head } = history.archived(storedEvents(count));
    memory.objects.set(`default/${uid}/h/${head}`, Buffer.from('x'));
    return head;
  };
  const archive = async (name: string, count: number) => {
    const head = store(uids[name] ?? '', count);
    const status = { archive: { head, events: count, bytes: 10 } };
    await kube(server.kubeconfig, [
      ...['patch', 'conversation', name, '--subresource', 'status'],
      ...['--type', 'merge', '--patch', JSON.stringify({ status })],
    ]);
  };

  beforeAll(async () => {
    server = await runApiServer();
    folder = await mkdtemp(join(tmpdir(), 'archive-command-'));
    const objects = ['one', 'two', 'new'].map((name) => JSON.stringify(conversation(name)));
    await kube(server.kubeconfig, ['create', '-f', '-'], objects.join('\n---\n'));
    for (const name of ['one', 'two', 'new'])
      uids[name] = await kube(server.kubeconfig, [
        ...['get', 'conversation', name, '-o', 'jsonpath={.metadata.uid}'],
      ]);
    uids['default'] = await kube(server.kubeconfig, [
      ...['get', 'namespace', 'default', '-o', 'jsonpath={.metadata.uid}'],
    ]);
  });
  afterAll(async () => {
    await server.close();
    await rm(folder, { recursive: true });
  });
  beforeEach(async () => {
    history = new FakeHistory();
    memory = memoryStore();
    closed = 0;
    process.exitCode = 0;
    await archive('one', 120);
    await archive('two', 2);
    store('00000000-gone', 5);
  });
  afterEach(() => {
    writers.clear();
    process.exitCode = 0;
  });

  /** Runs a command as the program does, and returns its output. */
  async function run(...args: readonly string[]) {
    const output = { stdout: '', stderr: '' };
    const { stdout, stderr } = process;
    const writes = { stdout: stdout.write.bind(stdout), stderr: stderr.write.bind(stderr) };
    const into = (name: keyof typeof output) => (chunk: string | Uint8Array) => {
      output[name] += Buffer.from(chunk as Uint8Array).toString();
      return true;
    };
    const program = new Command('conversation-operator');
    addArchiveCommand(program, {
      inCluster: (command) =>
        command.option('--kubeconfig <file>').option('-n, --namespace <name>'),
      open: () =>
        Promise.resolve({
          store: memory.store,
          reader: history,
          keys: { knows: (keyId) => keyId === knownKey },
          writerOf: ({ uid }) => Promise.resolve(writers.get(uid) ?? ownWriter()),
          [Symbol.asyncDispose]: () => {
            closed += 1;
            return Promise.resolve();
          },
        }),
    });
    stdout.write = into('stdout');
    stderr.write = into('stderr');
    try {
      const cluster = ['--kubeconfig', server.kubeconfig, '--namespace', 'default'];
      await program.parseAsync(['archive', ...args, ...cluster], { from: 'user' });
    } finally {
      stdout.write = writes.stdout;
      stderr.write = writes.stderr;
    }
    return output;
  }
  const columns = (text: string, ...numbers: readonly number[]) =>
    text
      .trim()
      .split('\n')
      .map((line) => numbers.map((number) => line.split(/ {2,}/)[number]).join(' '))
      .sort();

  it('verify reads all archives, and shows orphans', async () => {
    const { stdout } = await run('verify');
    expect(columns(stdout, 0, 2, 3)).toEqual([
      ' orphaned 5',
      'CONVERSATION STATE EVENTS',
      'one intact 120',
      'two intact 2',
    ]);
    expect([process.exitCode, closed]).toEqual([0, 1]);
  });

  it('verify has the exit code 1 where an archive is damaged, or is not there', async () => {
    history.heads.delete(headOf(2));
    const { stdout } = await run('verify', 'two', uids['one'] ?? '');
    expect(columns(stdout, 0, 2, 3)).toEqual([
      'CONVERSATION STATE EVENTS',
      'one intact 120',
      'two damaged 0',
    ]);
    expect(process.exitCode).toBe(1);
    await expect(run('verify', 'none')).rejects.toThrow('there is no archive of none');
  });

  it('verify reads an archive again that has got another head meanwhile', async () => {
    let isFirst = true;
    history.before = async () => {
      if (!isFirst) return;
      isFirst = false;
      await archive('two', 7);
      throw new ArchiveError('gone', 'deleted by the operator');
    };
    expect(columns((await run('verify', 'two')).stdout, 0, 2, 3)).toContain('two intact 7');
    expect(process.exitCode).toBe(0);
  });

  it('export writes lines of JSON', async () => {
    const lines = (await run('export', 'one')).stdout.trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual(storedEvents(120));
    const file = join(folder, 'gone.ndjson');
    await run('export', '00000000-gone', '--output', file);
    expect((await readFile(file, 'utf8')).trimEnd().split('\n')).toHaveLength(5);
  });

  it('export writes a ZIP archive', async () => {
    const file = join(folder, 'one.zip');
    await run('export', 'one', '--output', file);
    const files = await unzip(await readFile(file));
    expect(files).toHaveLength(121);
    expect(JSON.parse(files.at(-1)?.[1] ?? '')).toMatchObject({
      created_by_user_id: 'alice',
      title: 'Title of one',
      event_count: 120,
    });
  });

  it('export leaves no file where the archive is damaged, or there is none', async () => {
    let reads = 0;
    history.before = () => {
      if (++reads === 2) throw new ArchiveError('damaged', 'segment x is not what its name says');
    };
    const file = join(folder, 'damaged.zip');
    await expect(run('export', 'one', '--output', file)).rejects.toThrow(
      'the archive of one is damaged: segment x',
    );
    await expect(run('export', 'new', '--output', file)).rejects.toThrow('nothing is archived');
    await expect(run('export', 'none', '--output', file)).rejects.toThrow('nothing is archived');
    expect((await readdir(folder)).filter((name) => name.startsWith('damaged'))).toEqual([]);
    expect(closed).toBe(3);
  });

  it('prune shows orphans, and deletes them with --delete alone', async () => {
    expect((await run('prune', '--older-than', '100000d')).stderr).toBe(
      "Left out: 1, whose last event is less than 273y ago, or can't be read.\nNo archive is to be deleted.\n",
    );
    const before = memory.objects.size;
    const { stdout, stderr } = await run('prune');
    expect(columns(stdout, 0)).toEqual(['00000000-gone', 'UID']);
    expect(stderr).toBe('Nothing was deleted. With --delete, 1 archive is.\n');
    expect(memory.objects.size).toBe(before);
    expect(columns((await run('prune', '--delete')).stdout, 0, 3)).toEqual([
      '00000000-gone deleted',
      'UID RESULT',
    ]);
    expect([...memory.objects.keys()].some((key) => key.includes('gone'))).toBe(false);
    expect(memory.objects.size).toBe(before - 1);
  });

  it.each<[string, () => ArchiveWriter]>([
    [
      'of another namespace of this name',
      () => ({ kind: 'known', keyId: knownKey, namespaceUid: 'of-another-cluster' }),
    ],
    [
      'of an unknown key, such as a lost one',
      () => ({ kind: 'known', keyId: '0123456789ab', namespaceUid: uids['default'] }),
    ],
    [
      'of a known key and no namespace',
      () => ({ kind: 'known', keyId: knownKey, namespaceUid: undefined }),
    ],
    ['without a name', () => ({ kind: 'known', keyId: '', namespaceUid: undefined })],
    ['whose head can not be read', () => ({ kind: 'unreadable' })],
  ])('prune shows an archive %s, and deletes it with --foreign alone', async (_case, writer) => {
    writers.set('00000000-gone', writer());
    for (const args of [
      ['--delete'],
      ['00000000-gone', '--delete'],
      ['00000000-gone', '--foreign'],
    ]) {
      const { stdout, stderr } = await run('prune', ...args);
      expect(stdout).toContain('00000000-gone');
      expect(stdout).not.toContain('deleted');
      if (!args.includes('--foreign')) {
        expect(stdout).toContain('kept');
        expect(stderr).toContain('Not known as written by this installation: 1.');
        expect(stderr).toContain('No archive is to be deleted.');
      }
      expect(memory.objects.size).toBe(3);
    }
    await expect(run('prune', '--delete', '--foreign')).rejects.toThrow('--foreign needs the UIDs');
    await run('prune', '00000000-gone', '--delete', '--foreign');
    expect(memory.objects.size).toBe(2);
  });

  it('verify and export name a newest head that can not be read', async () => {
    history.heads.delete(headOf(2));
    history.newest = () => Promise.reject(new ArchiveError('damaged', 'no key opens the head'));
    const { stdout } = await run('verify', 'two', 'one');
    expect(columns(stdout, 0, 2, 4)).toContain('two damaged no key opens the head');
    expect(columns(stdout, 0, 2)).toContain('one intact');
    await expect(run('export', 'two')).rejects.toThrow(
      'the archive of two is damaged: no key opens the head',
    );
  });

  it('verify and export read the newest head where that of the Conversation is gone, as after a restore of the cluster', async () => {
    history.heads.delete(headOf(2));
    history.archived(storedEvents(7));
    history.stored.set(uids['two'] ?? '', headOf(7));
    const { stdout } = await run('verify', 'two');
    expect(columns(stdout, 0, 2, 3, 4)[1]).toBe(
      `two intact 7 the Conversation names a head that does not exist; ${headOf(7)} is the newest one`,
    );
    expect(process.exitCode).toBe(0);
    const lines = (await run('export', 'two')).stdout.trimEnd().split('\n');
    expect(lines).toHaveLength(7);
  });

  it('prune deletes no archive of a Conversation, and nothing of a store that knows none', async () => {
    await expect(run('prune', 'one', '--delete')).rejects.toThrow('one exists');
    for (const uid of Object.values(uids))
      for (const key of memory.objects.keys()) if (key.includes(uid)) memory.objects.delete(key);
    await expect(run('prune', '--delete')).rejects.toThrow('name the archives');
    expect(memory.objects.size).toBe(1);
    await run('prune', '00000000-gone', '--delete');
    expect(memory.objects.size).toBe(0);
  });
});
