import fc from 'fast-check';
import {
  snapshotChanges,
  snapshotDiff,
  snapshotFile,
  snapshotFiles,
  workspaceSnapshotSchema,
  type WorkspaceSnapshot,
} from '../../../src/archive/workspace-snapshot.ts';

const snapshot: WorkspaceSnapshot = {
  version: 1,
  workingDir: '/workspace/project',
  takenAt: '2026-01-01T00:00:00Z',
  files: ['README.md', 'src/a.ts', 'src/deep/b.ts', 'src2/c.ts'],
  filesTruncated: false,
  changes: [
    { status: 'UPDATED', path: 'src/a.ts' },
    { status: 'DELETED', path: 'old' },
  ],
  diffs: {
    'src/a.ts': { original: 'old', modified: 'new' },
    old: { original: 'gone', modified: '' },
    none: { original: null, modified: null },
  },
  diffsTruncated: false,
};

describe('a snapshot', () => {
  it.each([
    ['/workspace/project', ['README.md', 'src/a.ts', 'src/deep/b.ts', 'src2/c.ts']],
    ['/workspace/project/', ['README.md', 'src/a.ts', 'src/deep/b.ts', 'src2/c.ts']],
    ['/workspace/project/src', ['a.ts', 'deep/b.ts']],
    ['/workspace/project/src/../src2', ['c.ts']],
    ['/workspace/project/absent', []],
    ['/workspace/project/README.md', []],
    ['/workspace', []],
    ['/workspace/project2', []],
    ['/', []],
  ])('has the files below %s', (path, names) => {
    expect(snapshotFiles(snapshot, path)).toEqual(names);
  });

  it('has the changes below a folder', () => {
    expect(snapshotChanges(snapshot, '/workspace/project')).toEqual(snapshot.changes);
    expect(snapshotChanges(snapshot, '/workspace/project/src')).toEqual([
      { status: 'UPDATED', path: 'a.ts' },
    ]);
    expect(snapshotChanges(snapshot, '/etc')).toEqual([]);
  });

  it.each([
    ['/workspace/project/src/a.ts', { original: 'old', modified: 'new' }, 'new'],
    ['/workspace/project/old', { original: 'gone', modified: '' }, ''],
    ['/workspace/project/none', { original: null, modified: null }, ''],
    ['/workspace/project/README.md', { original: null, modified: null }, ''],
    ['/workspace/project/toString', { original: null, modified: null }, ''],
    ['/workspace/src/a.ts', { original: null, modified: null }, ''],
  ])('has the diff of %s, and the content of its changed version', (path, diff, text) => {
    expect(snapshotDiff(snapshot, path)).toEqual(diff);
    expect(snapshotFile(snapshot, path)).toBe(text);
  });

  it('is the same after it was stored', () => {
    expect(workspaceSnapshotSchema.parse(JSON.parse(JSON.stringify(snapshot)))).toEqual(snapshot);
  });

  it.each([
    { ...snapshot, version: 2 },
    { ...snapshot, workingDir: 'relative' },
    { ...snapshot, takenAt: 'yesterday' },
    { ...snapshot, changes: [{ status: 'OTHER', path: 'a' }] },
    { ...snapshot, diffs: { a: 'text' } },
  ])('is no other object %#', (other) => {
    expect(workspaceSnapshotSchema.safeParse(other).success).toBe(false);
  });

  it('shows nothing outside of its folder, whatever the path', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('..', '.', 'a', 'src', '')), (parts) => {
        const path = `/workspace/project/${parts.join('/')}`;
        for (const name of snapshotFiles(snapshot, path)) expect(name).not.toMatch(/^\.\.|^\//);
      }),
    );
  });
});
