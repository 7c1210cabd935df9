import type { WorkspaceSnapshot } from './workspace-snapshot.ts';
import type { AgentCallOptions, AgentEndpoint } from '../agent/agent.ts';
import { AgentError, isAgentError } from '../agent/errors.ts';
import type { GitChange, GitDiff, WorkspaceFiles } from '../agent/workspace-files.ts';

export interface SnapshotLimits extends AgentCallOptions {
  /** Time of the snapshot in ISO 8601, UTC. */
  readonly takenAt: string;
  /** Maximum names of files, and maximum changes. Default: 10 000 of each. */
  readonly maxFiles?: number;
  /** Maximum files whose two versions are kept. Default: 100. */
  readonly maxDiffs?: number;
  /** Maximum bytes of the JSON of a file's two versions. Default: 256 KiB. */
  readonly maxDiffBytes?: number;
  /** Maximum bytes of the JSON of a snapshot, half of it for names. Default: 2 MiB. */
  readonly maxBytes?: number;
}

const maxCalls = 4;
/** Bytes of a snapshot without files, changes and diffs. */
const frameBytes = 8 * 1024;

/** Errors about one file or repository. After any other error, further calls would fail too. */
const ofOneFile: ReadonlySet<unknown> = new Set(['refused', 'not-found', 'malformed', 'failed']);

/**
 * Takes a snapshot of a folder through the agent. The snapshot omits each file or list that the
 * agent can not show. After a call without an answer, no more diffs are read. `filesTruncated` and
 * `diffsTruncated` report omissions. Throws `AgentError` if no call is answered, or for an abort.
 */
export async function takeSnapshot(
  files: Pick<WorkspaceFiles, 'files' | 'changes' | 'diff'>,
  endpoint: AgentEndpoint,
  workingDir: string,
  {
    takenAt,
    maxFiles = 10_000,
    maxDiffs = 100,
    maxDiffBytes = 256 * 1024,
    maxBytes = 2 * 1024 * 1024,
    signal,
  }: SnapshotLimits,
): Promise<WorkspaceSnapshot> {
  const [list, found] = await Promise.all([
    shown(files.files(endpoint, workingDir, { signal })),
    shown(files.changes(endpoint, workingDir, { signal })),
  ]);
  const nameBytes = Math.floor((maxBytes - frameBytes) / 4);
  const names = fitting(list?.names ?? [], maxFiles, nameBytes);
  const changes = fitting(found ?? [], maxFiles, nameBytes);
  const diffBytes = maxBytes - frameBytes - names.bytes - changes.bytes;
  const read = (change: GitChange) =>
    shown(files.diff(endpoint, pathOf(workingDir, change), { signal }));
  const diffs = await readDiffs(changes.items.slice(0, maxDiffs), read, {
    maxDiffBytes,
    maxBytes: diffBytes,
  });
  return {
    version: 1,
    workingDir,
    takenAt,
    files: [...names.items],
    filesTruncated: list === undefined || list.isTruncated || names.isTruncated,
    changes: [...changes.items],
    diffs: Object.fromEntries(diffs),
    diffsTruncated:
      found === undefined || changes.isTruncated || diffs.length < changes.items.length,
  };
}

/** Returns the answer; undefined if the agent can not show this file or list. */
async function shown<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof AgentError && ofOneFile.has(error.code)) return undefined;
    throw error;
  }
}

const pathOf = (workingDir: string, { path }: GitChange): string =>
  `${workingDir.replace(/\/$/, '')}/${path}`;

/** Bytes of a JSON value and of the comma or colon after it. */
const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value)) + 1;

/** The first items, as many as both limits allow. */
function fitting<T>(
  all: readonly T[],
  maxItems: number,
  maxBytes: number,
): { readonly items: readonly T[]; readonly bytes: number; readonly isTruncated: boolean } {
  let bytes = 0;
  const items: T[] = [];
  for (const item of all) {
    const more = bytesOf(item);
    if (items.length === maxItems || bytes + more > maxBytes) break;
    items.push(item);
    bytes += more;
  }
  return { items, bytes, isTruncated: items.length < all.length };
}

/**
 * Reads the diffs of changes within the limits, in the order of the changes, with `maxCalls` calls
 * at a time. No call starts once the bytes are used up or the agent has failed to answer.
 */
async function readDiffs(
  changes: readonly GitChange[],
  read: (change: GitChange) => Promise<GitDiff | undefined>,
  limits: { readonly maxDiffBytes: number; readonly maxBytes: number },
): Promise<readonly (readonly [path: string, diff: GitDiff])[]> {
  const kept: (readonly [string, GitDiff])[] = [];
  let left = limits.maxBytes;
  for (let start = 0; start < changes.length && left > 0; start += maxCalls) {
    const group = changes.slice(start, start + maxCalls);
    const answers = await Promise.allSettled(group.map(read));
    for (const [index, { path }] of group.entries()) {
      const answer = answers[index];
      if (answer?.status === 'rejected' && isAgentError(answer.reason, 'aborted'))
        throw answer.reason;
      const diff = answer?.status === 'fulfilled' ? answer.value : undefined;
      const bytes = diff === undefined ? Infinity : bytesOf(diff) + bytesOf(path);
      if (diff === undefined || bytes > limits.maxDiffBytes || bytes > left) continue;
      kept.push([path, diff]);
      left -= bytes;
    }
    if (answers.some(({ status }) => status === 'rejected')) break;
  }
  return kept;
}
