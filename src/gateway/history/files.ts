import { conversationParams } from '../http/fields.ts';
import type { Response } from 'express';
import { z } from 'zod';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import { isAgentError } from '../../agent/errors.ts';
import {
  gitChangeSchema,
  gitDiffSchema,
  maxPathLength,
  type GitChange,
  type GitDiff,
  type WorkspaceFiles,
} from '../../agent/workspace-files.ts';
import {
  snapshotChanges,
  snapshotDiff,
  snapshotFile,
  snapshotFiles,
  type WorkspaceSnapshot,
} from '../../archive/workspace-snapshot.ts';
import { sandboxViewOf } from '../presenters/conversation.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { notFound } from '../errors/common-problems.ts';
import { type Route, endpoints, ownConversation } from '../http/route.ts';
import { sendBytes } from '../http/send-bytes.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import {
  isAgentLost,
  isStopping,
  untilLeft,
  type Agent,
  type AgentCall,
  type AgentReads,
} from './agent-reads.ts';
import { historyProblems, type HistoryReads, noHistory } from './history-reads.ts';

const base = '/api/v1/app-conversations/{id}';
const { get } = endpoints('files');

const absolutePath = z
  .string()
  .max(maxPathLength)
  .regex(/^\/[^\0]*$/, 'must be an absolute path without NUL');
export const folderQuery = z.object({
  path: absolutePath.describe('The folder: workspace.working_dir of the record, or another one.'),
});
export const diffQuery = z.object({ path: absolutePath.describe('The file.') });
export const fileQuery = z.object({ file_path: absolutePath.describe('The file.') });

const maxDownloadBytes = 5 * 1024 * 1024;

/** First bytes of the images that a page may show; none of these formats can contain scripts. */
const imageTypes: readonly (readonly [type: string, begin: RegExp])[] = [
  ['image/png', /^\x89PNG\r\n/],
  ['image/jpeg', /^\xff\xd8\xff/],
  ['image/gif', /^GIF8[79]a/],
  ['image/webp', /^RIFF[^]{4}WEBP/],
];

/**
 * Response headers for a file of a sandbox. The file must never open as a document of this origin:
 * browsers save it, and pages may show it as an image.
 */
function downloadHeaders(path: string, bytes: Buffer): Readonly<Record<string, string>> {
  const begin = bytes.toString('latin1', 0, 16);
  const name = encodeURIComponent(path.slice(path.lastIndexOf('/') + 1).toWellFormed());
  return {
    'content-type':
      imageTypes.find(([, pattern]) => pattern.test(begin))?.[0] ?? 'application/octet-stream',
    'content-disposition': `attachment; filename*=UTF-8''${name.replace(/['()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16)}`)}`,
    'content-security-policy': "default-src 'none'; sandbox",
    'cross-origin-resource-policy': 'same-origin',
    'cache-control': 'no-store',
  };
}

/** Reads the files of one conversation, by absolute paths. */
export interface FileSource {
  /** Paths of the files below the folder, relative to the folder. */
  files(path: string): Promise<readonly string[]>;
  /** Bytes of a file, up to `maxDownloadBytes`; undefined if the snapshot does not contain them. */
  bytes(path: string): Promise<Buffer | undefined>;
  /** The text of the file; undefined if there is no such file. */
  file(path: string): Promise<string | undefined>;
  changes(path: string): Promise<readonly GitChange[]>;
  diff(path: string): Promise<GitDiff>;
  /**
   * Whether the file or folder at a path is in the folder, also where symbolic links lead
   * elsewhere, and git neither ignores it nor has it for its own.
   */
  isVisibleIn(folder: string, path: string): Promise<boolean>;
}

export const fileProblems = [...historyProblems, 'workspace-unreadable'] as const;

export interface FileNeeds {
  readonly agentReads: AgentReads;
  readonly history: HistoryReads;
  readonly lookup: ResourceLookup;
  readonly files: WorkspaceFiles;
}

export function fileRoutes(needs: FileNeeds): readonly Route[] {
  const askOf = askingSource(needs);
  const ask = async <T>(call: AgentCall, question: (source: FileSource) => Promise<T>) =>
    askOf(await ownConversation(needs.lookup, call), call.response, question);
  const common = { params: conversationParams, problems: fileProblems };
  return [
    get(`${base}/files`, 'listFiles', {
      ...common,
      summary:
        'Paths of the files below a folder, relative to it: at most 10000, without those that git ignores. Of a sandbox that does not run, as they were at its last pause',
      query: folderQuery,
      responses: { 200: z.array(z.string()) },
      handle: async ({ query: { path }, ...call }) => ({
        json: await ask(call, (source) => source.files(path)),
      }),
    }),
    get(`${base}/file`, 'readFile', {
      ...common,
      summary:
        'The content of a text file of at most 1 MiB; empty where there is no such file. Of a sandbox that does not run, only changed files are kept',
      query: fileQuery,
      responses: { 200: z.string() },
      handle: async ({ query: { file_path: path }, ...call }) => ({
        json: (await ask(call, (source) => source.file(path))) ?? '',
      }),
    }),
    get(`${base}/file/content`, 'downloadFile', {
      ...common,
      summary:
        'The bytes of a file of at most 5 MiB, as a download. Of a sandbox that does not run, only changed text files are kept',
      query: fileQuery,
      responses: { 200: z.string().meta({ format: 'binary' }) },
      mediaType: 'application/octet-stream',
      handle: async ({ query: { file_path: path }, ...call }) => {
        const bytes = await ask(call, (source) => source.bytes(path));
        if (bytes === undefined) throw notFound('file');
        return sendBytes(call.response, downloadHeaders(path, bytes), bytes);
      },
    }),
    get(`${base}/git/changes`, 'listChanges', {
      ...common,
      summary:
        'The files below a folder that differ from the base of its repository; empty without one',
      query: folderQuery,
      responses: { 200: z.array(gitChangeSchema) },
      handle: async ({ query: { path }, ...call }) => ({
        json: await ask(call, (source) => source.changes(path)),
      }),
    }),
    get(`${base}/git/diff`, 'getDiff', {
      ...common,
      summary: 'A file as it is, and as it is at the base; null in both without a repository',
      query: diffQuery,
      responses: { 200: gitDiffSchema },
      handle: async ({ query: { path }, ...call }) => ({
        json: await ask(call, (source) => source.diff(path)),
      }),
    }),
  ];
}

/**
 * Answers a question about files from the agent while the sandbox is RUNNING, and until a pause has
 * stored the snapshot; otherwise from the snapshot of the last pause.
 */
export function askingSource({ agentReads, history, lookup, files }: FileNeeds) {
  return async <T>(
    conversation: CachedConversation,
    response: Response,
    question: (source: FileSource) => Promise<T>,
  ): Promise<T> => {
    const sandbox = await lookup.sandboxOf(conversation);
    const { phase } = sandboxViewOf(conversation, sandbox);
    const stops = isStopping(phase, sandbox);
    const hasSnapshot = conversation.status?.archive?.files !== undefined;
    const fromAgent = (left: AbortSignal) =>
      agentReads.ask(
        agentReads.agentOf(conversation, sandbox, { mayStop: true }),
        left,
        (agent, signal) => shown(question(agentSource(files, agent, signal))),
        (answer) => answer,
      );
    const fromSnapshot = (left: AbortSignal) =>
      history.archive(conversation, left, async (reader, state, signal) => {
        const snapshot = await reader.files(state, signal);
        if (snapshot === undefined) throw noHistory('archive-empty');
        return question(snapshotSource(snapshot));
      });
    return untilLeft(response, async (left) => {
      if (phase !== 'RUNNING' && !stops && hasSnapshot) return fromSnapshot(left);
      try {
        return await fromAgent(left);
      } catch (error) {
        if (!stops || !hasSnapshot || !isAgentLost(error)) throw error;
        return fromSnapshot(left);
      }
    });
  };
}

const snapshotSource = (snapshot: WorkspaceSnapshot): FileSource => ({
  files: (path) => Promise.resolve(snapshotFiles(snapshot, path)),
  bytes: (path) => {
    const text = snapshotDiff(snapshot, path).modified;
    // An empty text may mean a binary file, whose bytes the snapshot does not contain.
    return Promise.resolve(text === null || text === '' ? undefined : Buffer.from(text));
  },
  file: (path) => Promise.resolve(snapshotFile(snapshot, path)),
  changes: (path) => Promise.resolve(snapshotChanges(snapshot, path)),
  diff: (path) => Promise.resolve(snapshotDiff(snapshot, path)),
  // A snapshot has files that git does not ignore, and no other ones.
  isVisibleIn: () => Promise.resolve(true),
});

const agentSource = (
  files: WorkspaceFiles,
  { endpoint }: Agent,
  signal: AbortSignal,
): FileSource => ({
  files: async (path) => (await files.files(endpoint, path, { signal })).names,
  bytes: (path) => files.bytes(endpoint, path, { signal, maxBytes: maxDownloadBytes }),
  file: (path) => files.file(endpoint, path, { signal }),
  changes: (path) => files.changes(endpoint, path, { signal }),
  diff: (path) => files.diff(endpoint, path, { signal }),
  isVisibleIn: (folder, path) => files.isVisibleIn(endpoint, folder, path, { signal }),
});

/** Converts a rejection by the agent into a problem that shows the agent's message to clients. */
async function shown<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw isAgentError(error, 'refused') && error.status !== 422
      ? new ProblemError('workspace-unreadable', error.message, { cause: error })
      : error;
  }
}
