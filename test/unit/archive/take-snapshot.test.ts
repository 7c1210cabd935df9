import type { AgentEndpoint } from '../../../src/agent/agent.ts';
import { AgentError, type AgentErrorCode } from '../../../src/agent/errors.ts';
import type { GitChange, GitDiff } from '../../../src/agent/workspace-files.ts';
import { takeSnapshot, type SnapshotLimits } from '../../../src/archive/take-snapshot.ts';
import { workspaceSnapshotSchema } from '../../../src/archive/workspace-snapshot.ts';

const endpoint: AgentEndpoint = { baseUrl: 'http://127.0.0.1:1', sessionKey: 'key' };
const failing = (code: AgentErrorCode) => () => Promise.reject(new AgentError(code, code));
const changesNamed = (count: number): readonly GitChange[] =>
  Array.from({ length: count }, (_, index) => ({ status: 'ADDED', path: `f${index}` }));

/** Takes a snapshot of an agent with these answers; counts its calls for diffs. */
async function taken({
  names = [],
  changes = [],
  diff = (path) => Promise.resolve({ original: '', modified: path }),
  ...limits
}: {
  readonly names?: readonly string[] | (() => Promise<never>);
  readonly changes?: readonly GitChange[] | (() => Promise<never>);
  readonly diff?: (path: string) => Promise<GitDiff>;
} & Partial<SnapshotLimits>) {
  const calls = { asked: [] as string[], underWay: 0, most: 0 };
  const files = {
    files: async () =>
      typeof names === 'function' ? names() : { names: [...names], isTruncated: false },
    changes: async () => (typeof changes === 'function' ? changes() : changes),
    diff: async (_endpoint: AgentEndpoint, path: string) => {
      calls.asked.push(path);
      calls.underWay += 1;
      calls.most = Math.max(calls.most, calls.underWay);
      try {
        await Promise.resolve();
        return await diff(path);
      } finally {
        calls.underWay -= 1;
      }
    },
  };
  const takenAt = '2026-01-01T00:00:00Z';
  const snapshot = await takeSnapshot(files, endpoint, '/work', { takenAt, ...limits });
  expect(workspaceSnapshotSchema.parse(snapshot)).toEqual(snapshot);
  return { snapshot, calls };
}

describe('a snapshot', () => {
  it('has what the agent shows, with at most four calls at a time', async () => {
    const changes = changesNamed(10);
    const { snapshot, calls } = await taken({ names: ['a', 'b'], changes });
    expect(snapshot).toMatchObject({
      version: 1,
      workingDir: '/work',
      files: ['a', 'b'],
      changes,
      filesTruncated: false,
      diffsTruncated: false,
    });
    expect(snapshot.diffs['f3']).toEqual({ original: '', modified: '/work/f3' });
    expect(Object.keys(snapshot.diffs)).toHaveLength(10);
    expect(calls.most).toBe(4);
  });

  it.each<AgentErrorCode>(['refused', 'not-found', 'malformed', 'failed'])(
    'goes without a file that is %s',
    async (code) => {
      const { snapshot } = await taken({
        changes: changesNamed(6),
        diff: (path) =>
          path === '/work/f1' ? failing(code)() : Promise.resolve({ original: '', modified: '' }),
      });
      expect(Object.keys(snapshot.diffs)).toEqual(['f0', 'f2', 'f3', 'f4', 'f5']);
      expect(snapshot.diffsTruncated).toBe(true);
    },
  );

  it('asks for nothing more of an agent that has stopped to answer', async () => {
    const { snapshot, calls } = await taken({
      changes: changesNamed(20),
      diff: (path) =>
        path === '/work/f5'
          ? failing('timeout')()
          : Promise.resolve({ original: '', modified: '' }),
    });
    expect(calls.asked).toHaveLength(8);
    expect(Object.keys(snapshot.diffs)).toHaveLength(7);
    expect(snapshot.diffsTruncated).toBe(true);
  });

  it('says which list it lacks', async () => {
    const { snapshot } = await taken({ names: failing('refused'), changes: changesNamed(1) });
    expect(snapshot).toMatchObject({ files: [], filesTruncated: true, diffsTruncated: false });
    const other = await taken({ names: ['a'], changes: failing('refused') });
    expect(other.snapshot).toMatchObject({
      files: ['a'],
      filesTruncated: false,
      changes: [],
      diffs: {},
      diffsTruncated: true,
    });
  });

  it.each<AgentErrorCode>(['unreachable', 'timeout', 'unauthorized', 'aborted'])(
    'is not taken where the agent is %s',
    async (code) => {
      await expect(taken({ names: failing(code) })).rejects.toMatchObject({ code });
      await expect(taken({ changes: failing(code) })).rejects.toMatchObject({ code });
    },
  );

  it('is given up with its caller', async () => {
    await expect(
      taken({ changes: changesNamed(9), diff: failing('aborted') }),
    ).rejects.toMatchObject({ code: 'aborted' });
  });

  it('has no more than it may', async () => {
    const names = Array.from({ length: 30 }, (_, index) => `n${index}`);
    const few = await taken({ names, changes: changesNamed(30), maxFiles: 20, maxDiffs: 3 });
    expect(few.snapshot.files).toHaveLength(20);
    expect(few.snapshot.changes).toHaveLength(20);
    expect(few.calls.asked).toHaveLength(3);
    expect(few.snapshot).toMatchObject({ filesTruncated: true, diffsTruncated: true });
  });

  it('has no diff that is too large', async () => {
    const { snapshot } = await taken({
      changes: changesNamed(2),
      diff: (path) =>
        Promise.resolve({ original: '', modified: path === '/work/f0' ? 'x'.repeat(999) : 'y' }),
      maxDiffBytes: 500,
    });
    expect(Object.keys(snapshot.diffs)).toEqual(['f1']);
  });

  it('has no more bytes than it may, whatever the agent answers', async () => {
    const maxBytes = 64 * 1024;
    const { snapshot, calls } = await taken({
      names: Array.from({ length: 5000 }, (_, index) => `"${'\n'.repeat(50)}${index}`),
      changes: Array.from({ length: 5000 }, (_, index) => ({
        status: 'ADDED',
        path: `${'\u0001'.repeat(20)}${index}`,
      })),
      diff: () =>
        Promise.resolve({ original: '\0'.repeat(300), modified: '\ud83d\udc4d'.repeat(300) }),
      maxBytes,
    });
    expect(Buffer.byteLength(JSON.stringify(snapshot))).toBeLessThanOrEqual(maxBytes);
    expect(snapshot.files.length).toBeGreaterThan(10);
    expect(Object.keys(snapshot.diffs).length).toBeGreaterThan(1);
    expect(calls.asked.length).toBeLessThanOrEqual(100);
  });
});
