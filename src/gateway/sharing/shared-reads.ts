import type { AsyncLocalStorage } from 'node:async_hooks';
import { posix } from 'node:path';
import type { Readable } from 'node:stream';
import type { Response } from 'express';
import { z } from 'zod';
import { listPieces } from '@conversation-operator/http/body/send-chunks';
import type { FairScheduler } from '@conversation-operator/http/limits/fair-scheduler';
import type { Shares } from '@conversation-operator/base/shares';
import { AgentError } from '../../agent/errors.ts';
import { gitChangeSchema, gitDiffSchema } from '../../agent/workspace-files.ts';
import { type LifeNeeds, readTimeline } from '../conversations/life.ts';
import { timelineSchema } from '../conversations/timeline.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { invalidField, validate } from '../errors/validation.ts';
import {
  agentQueryOf,
  archiveQueryOf,
  countingWays,
  eventFilters,
  eventPage,
  eventSearch,
  type EventNeeds,
} from '../history/events.ts';
import {
  askingSource,
  diffQuery,
  fileProblems,
  fileQuery,
  folderQuery,
  type FileNeeds,
  type FileSource,
} from '../history/files.ts';
import { historyProblems } from '../history/history-reads.ts';
import { untilLeft } from '../history/agent-reads.ts';
import { endpoints, type HandlerResult, type Route } from '../http/route.ts';
import { countSchema, pageFrame } from '../presenters/schemas.ts';
import type { OpenShares } from './open-shares.ts';
import {
  presentShared,
  sharedConversationSchema,
  sharedEvent,
  sharedTimeline,
  type OpenedShare,
} from './shared-record.ts';

const base = '/api/v1/shared/{token}';
const { getOpen } = endpoints('sharing');
const tokenParams = z.object({ token: z.string() });
const tokenOf = ({ params }: { readonly params: Readonly<Record<string, unknown>> }): string =>
  String(params['token']);

interface SharedReadsNeeds extends EventNeeds, FileNeeds, LifeNeeds {
  readonly openShares: OpenShares;
  readonly scheduler: FairScheduler;
  readonly currentOwner: AsyncLocalStorage<string>;
  readonly places: { readonly sharedReads: Shares };
}

interface SharedRead<Q> {
  readonly summary: string;
  readonly query?: z.ZodType<Q>;
  readonly responses: Route['responses'];
  readonly problems?: Route['problems'];
  /** Whether the read asks an agent, an archive or the API server, which needs a permit. */
  readonly isRemote: boolean;
  readonly read: (
    opened: OpenedShare,
    query: Q,
    response: Response,
  ) => HandlerResult | Promise<HandlerResult>;
}

/** Name that the limits of owners have for the readers of an owner's shares. No owner has it. */
const readersOf = (owner: string): string => `/shared/${owner}`;
/** The same for those who have not opened a share yet. */
const anyReader = '/shared';

/**
 * The reads of a shared conversation. They are those of its owner, without what is not part of the
 * work. No read resumes a sandbox, and none counts as an activity of the conversation. The time and
 * the calls of readers are charged to them, never to the owner.
 */
export function sharedRoutes(needs: SharedReadsNeeds): readonly Route[] {
  const { openShares, scheduler, currentOwner, places } = needs;
  const get = <Q = undefined>(
    path: string,
    operationId: string,
    { isRemote, read, ...definition }: SharedRead<Q>,
  ): Route =>
    getOpen(`${base}${path}`, operationId, {
      ...definition,
      params: tokenParams,
      problems: [
        'not-found',
        'rate-limited',
        'too-many-attempts',
        'overloaded',
        'unavailable',
        'invalid-request',
        ...(definition.problems ?? []),
      ],
      handle: async ({ request, response, query }) => {
        response.set({ 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' });
        const token = tokenOf(request);
        const opened = await currentOwner.run(anyReader, () => openShares.open(token, response));
        const valid = validate<undefined, Q, undefined, undefined>(
          definition.query === undefined ? {} : { query: definition.query },
          { params: {}, query, headers: {}, body: {} },
        );
        const { owner } = opened.share.spec;
        const work = () =>
          scheduler.run(readersOf(owner), () =>
            // The query is undefined only if it has no schema.
            currentOwner.run(readersOf(owner), () => read(opened, valid.query as Q, response)),
          );
        if (!isRemote) return work();
        return untilLeft(response, async (signal) => {
          const holder = { owner, sandbox: opened.conversation.metadata.uid };
          const release = await places.sharedReads.wait(holder, { signal });
          try {
            const result = await work();
            await currentOwner.run(anyReader, () => openShares.confirm(token, opened, response));
            return result;
          } finally {
            release();
          }
        });
      },
    });
  return [
    get('/conversation', 'getSharedConversation', {
      summary: 'The conversation that is shared by a link',
      responses: { 200: sharedConversationSchema },
      isRemote: false,
      read: (opened) => ({
        json: presentShared(opened, needs.lookup.sandboxIn(opened.conversation)),
      }),
    }),
    ...eventReads(needs, get),
    ...fileReads(needs, get),
    get('/timeline', 'getSharedTimeline', {
      summary: 'What has happened to a shared conversation, oldest first, without the details',
      responses: { 200: timelineSchema },
      isRemote: true,
      read: async ({ conversation }) => ({
        json: sharedTimeline(await readTimeline(needs, conversation)),
      }),
    }),
  ];
}

type Get = <Q = undefined>(path: string, operationId: string, read: SharedRead<Q>) => Route;

/** Maximum bytes of an agent's page of events, which is parsed to leave out what is withheld. */
const maxPageBytes = 8 * 1024 * 1024;

function eventReads(needs: EventNeeds, get: Get): readonly Route[] {
  const { agentReads, history, events } = needs;
  return [
    get('/events/search', 'searchSharedEvents', {
      summary:
        'What has happened in a shared conversation, page by page; system prompts and settings are withheld',
      query: eventSearch,
      responses: { 200: eventPage },
      problems: [...historyProblems, 'history-too-large'],
      isRemote: true,
      read: ({ conversation }, query, response) =>
        history.of<HandlerResult>(conversation, response, {
          agent: (agent, left) =>
            agentReads.ask(
              agent,
              left,
              ({ endpoint, id }, signal) =>
                events.search(endpoint, id, agentQueryOf(query), signal),
              async (page) => sharedPage(await pageIn(page)),
            ),
          archive: async (known, left) => {
            const wanted = archiveQueryOf(query);
            const page = await history.archive(known, left, (reader, state, signal) =>
              reader.search(state, wanted, signal),
            );
            const items = page.events.map(({ json }): unknown => JSON.parse(json.toString()));
            return sharedPage({ items, next: page.nextPageId });
          },
          starting: sharedPage({ items: [], next: null }),
        }),
    }),
    get('/events/count', 'countSharedEvents', {
      summary: 'How many events of a shared conversation a search would find',
      query: eventFilters,
      responses: { 200: countSchema },
      problems: historyProblems,
      isRemote: true,
      read: async ({ conversation }, query, response) => ({
        json: await history.of<number>(conversation, response, countingWays(needs, query)),
      }),
    }),
  ];
}

interface EventPage {
  readonly items: readonly unknown[];
  readonly next: string | null;
}

const sharedPage = ({ items, next }: EventPage): HandlerResult => ({
  jsonText: listPieces(
    pageFrame(next),
    items.map((item) => Buffer.from(JSON.stringify(sharedEvent(item)))),
  ),
});

const answerSchema = z.object({ items: z.array(z.unknown()), next_page_id: z.string().nullish() });

/** The page that an agent sends. Throws `history-too-large`, and AgentError for what is no page. */
async function pageIn(stream: Readable): Promise<EventPage> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxPageBytes)
      throw new ProblemError(
        'history-too-large',
        `These events have more than ${maxPageBytes} bytes. Ask for fewer at once.`,
      );
    chunks.push(chunk);
  }
  try {
    const { items, next_page_id: next } = answerSchema.parse(
      JSON.parse(Buffer.concat(chunks).toString()),
    );
    return { items, next: next ?? null };
  } catch (error) {
    throw new AgentError('malformed', 'The answer of the agent is no page of events.', {
      cause: error,
    });
  }
}

function fileReads(needs: FileNeeds, get: Get): readonly Route[] {
  const ask = askingSource(needs);
  /** Reads a path of the working folder. Throws 422 for every other path. */
  const within = async <T>(
    { conversation }: OpenedShare,
    { field, path }: { readonly field: string; readonly path: string },
    response: Response,
    question: (source: FileSource, path: string) => Promise<T>,
  ): Promise<{ readonly json: T }> => {
    const folder = conversation.status?.workingDir;
    const named = posix.normalize(path);
    const refusal = invalidField(
      `query.${field}`,
      'must be in the working folder of the conversation, and not ignored by git',
    );
    if (folder === undefined || !isIn(folder, named)) throw refusal;
    const json = await ask(conversation, response, async (source) => {
      if (!(await source.isVisibleIn(posix.normalize(folder), named))) throw refusal;
      return question(source, named);
    });
    return { json };
  };
  const common = { problems: fileProblems, isRemote: true };
  return [
    get('/files', 'listSharedFiles', {
      ...common,
      summary: 'Paths of the files of a shared conversation below a folder, relative to it',
      query: folderQuery,
      responses: { 200: z.array(z.string()) },
      read: (opened, { path }, response) =>
        within(opened, { field: 'path', path }, response, (source, named) => source.files(named)),
    }),
    get('/file', 'readSharedFile', {
      ...common,
      summary: 'The content of a text file of a shared conversation; empty where there is none',
      query: fileQuery,
      responses: { 200: z.string() },
      read: (opened, { file_path: path }, response) =>
        within(
          opened,
          { field: 'file_path', path },
          response,
          async (source, named) => (await source.file(named)) ?? '',
        ),
    }),
    get('/git/changes', 'listSharedChanges', {
      ...common,
      summary: 'The files of a shared conversation that differ from the base of their repository',
      query: folderQuery,
      responses: { 200: z.array(gitChangeSchema) },
      read: (opened, { path }, response) =>
        within(opened, { field: 'path', path }, response, (source, named) => source.changes(named)),
    }),
    get('/git/diff', 'getSharedDiff', {
      ...common,
      summary: 'A file of a shared conversation as it is, and as it is at the base',
      query: diffQuery,
      responses: { 200: gitDiffSchema },
      read: (opened, { path }, response) =>
        within(opened, { field: 'path', path }, response, (source, named) => source.diff(named)),
    }),
  ];
}

/** Whether a path without `.` and `..` is in a folder, and not in a folder of git's own. */
export function isIn(folder: string, path: string): boolean {
  const name = posix.relative(folder, path);
  return name !== '..' && !name.startsWith('../') && !name.split('/').includes('.git');
}
