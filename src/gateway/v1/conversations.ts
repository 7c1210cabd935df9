import { isConflict } from '@conversation-operator/kube/errors';
import {
  cachedConversation,
  type CachedConversation,
} from '../../resources/cached-conversation.ts';
import { conversations } from '../../resources/conversation.ts';
import { keyRoute, type Route } from '../http/route.ts';
import type { Services } from '../services.ts';
import { notFound } from '../errors/problem-error.ts';
import type { Reservation } from '../lookup/stored-totals.ts';
import { conversationSchema } from '../presenters/conversation.ts';
import { startTaskSchema } from '../presenters/start-task.ts';
import {
  conversationList,
  conversationPage,
  countSchema,
  startTaskList,
  success,
  successSchema,
} from './response-schemas.ts';
import { compact } from './compact.ts';
import { deleteOne } from './delete-one.ts';
import { refuseTooMany } from './fields.ts';
import { idempotencyHeaders } from './idempotency.ts';
import { ResponseCache } from './response-cache.ts';
import {
  freshlyPresentedConversation,
  startTextsOf,
  presentedStartTask,
} from './conversation-record.ts';
import {
  conversationFilters,
  conversationParams,
  conversationSearch,
  idsQuery,
  startRequestSchema,
  updateRequestSchema,
  type UpdateRequest,
} from './schemas.ts';
import { conversationFilter, type ConversationSearch } from './search.ts';
import { sendMessageRoute } from './send-message.ts';
import { startConversation, startProblems } from './start.ts';
import { streamStart } from './stream-start.ts';

const base = '/api/v1/app-conversations';
const tag = 'conversations';

export const conversationRoutes = (
  services: Services,
  search: ConversationSearch,
): readonly Route[] => {
  const responses = new ResponseCache(services);
  return [
    keyRoute({
      method: 'post',
      path: base,
      operationId: 'startConversation',
      tag,
      summary: 'Start a conversation; answers with the start task to poll',
      headers: idempotencyHeaders,
      body: startRequestSchema,
      responses: { 200: startTaskSchema },
      problems: startProblems,
      handle: async ({ owner, headers, body, about }) => {
        const conversation = await startConversation(
          services,
          owner,
          body,
          headers['idempotency-key'],
        );
        about(`conversation/${conversation.metadata.name}`);
        return { json: await presentedStartTask(services, conversation) };
      },
    }),
    keyRoute({
      method: 'post',
      path: `${base}/stream-start`,
      operationId: 'streamStartConversation',
      tag,
      summary: 'Start a conversation; each change of the start task is sent as it happens',
      headers: idempotencyHeaders,
      body: startRequestSchema,
      responses: { 200: startTaskList },
      problems: [...startProblems, 'share-exceeded'],
      handle: async ({ principal, owner, headers, body, about, response }) => {
        // The stream takes its place first, so that nothing is started for a client that could not
        // follow it.
        response.once('close', services.streams.enter(owner));
        const conversation = await startConversation(
          services,
          owner,
          body,
          headers['idempotency-key'],
        );
        about(`conversation/${conversation.metadata.name}`);
        streamStart(services, response, conversation, {
          texts: await startTextsOf(services, conversation),
          principal,
        });
        return undefined;
      },
    }),
    keyRoute({
      method: 'get',
      path: base,
      operationId: 'getConversations',
      tag,
      summary: 'Conversations by id, in the order asked; unknown ones are left out',
      query: idsQuery,
      responses: { 200: conversationList },
      problems: ['too-many-ids'],
      handle: async ({ owner, query, reader }) => {
        refuseTooMany(query.ids);
        const found = (await services.lookup.conversations(owner, query.ids)).filter(
          (conversation) => conversation !== undefined,
        );
        return { jsonText: await responses.freshConversations(found, reader) };
      },
    }),
    keyRoute({
      method: 'get',
      path: `${base}/search`,
      operationId: 'searchConversations',
      tag,
      summary: 'Conversations page by page, newest first',
      query: conversationSearch,
      responses: { 200: conversationPage },
      handle: ({ owner, query: { sort_order, limit, page_id, ...filters }, reader }) => {
        const wanted = {
          of: 'conversations',
          matches: conversationFilter(filters),
          sort_order,
          limit,
          page_id,
        } as const;
        return {
          jsonText: responses.conversationPage(
            search.page(services.lookup.conversationsOf(owner), wanted),
            reader,
          ),
        };
      },
    }),
    keyRoute({
      method: 'get',
      path: `${base}/count`,
      operationId: 'countConversations',
      tag,
      summary: 'How many conversations a search would find',
      query: conversationFilters,
      responses: { 200: countSchema },
      handle: ({ owner, query }) => {
        const [all, matches] = [services.lookup.conversationsOf(owner), conversationFilter(query)];
        return { json: matches === undefined ? all.length : all.filter(matches).length };
      },
    }),
    keyRoute({
      method: 'patch',
      path: `${base}/{id}`,
      operationId: 'updateConversation',
      tag,
      summary: 'Change the title, the public flag or the tags',
      params: conversationParams,
      body: updateRequestSchema,
      responses: { 200: conversationSchema },
      problems: ['not-found', 'conflict', 'stored-bytes-limit-exceeded'],
      handle: async ({ owner, params, body, about, reader }) => {
        const conversation = await services.lookup.conversation(owner, params.id);
        if (conversation === undefined) throw notFound('conversation');
        about(`conversation/${conversation.metadata.name}`);
        const { updated, reservation } = await update(services, conversation, body);
        await services.feeds.conversations.shows(updated);
        reservation.release();
        return { json: await freshlyPresentedConversation(services, updated, reader) };
      },
    }),
    keyRoute({
      method: 'delete',
      path: `${base}/{id}`,
      operationId: 'deleteConversation',
      tag,
      summary: 'Delete a conversation, and its sandbox when no other conversation uses it',
      params: conversationParams,
      responses: { 200: successSchema },
      problems: ['not-found', 'conflict'],
      handle: async ({ owner, params, about }) => {
        const conversation = await services.lookup.conversation(owner, params.id);
        if (conversation === undefined) throw notFound('conversation');
        about(`conversation/${conversation.metadata.name}`);
        await deleteOne({
          client: services.client,
          resource: conversations,
          feed: services.feeds.conversations,
          object: conversation,
        });
        return success;
      },
    }),
    sendMessageRoute(services),
  ];
};

const maxAttempts = 5;

interface Update {
  readonly updated: CachedConversation;
  /** The caller releases it when the caches show the update. */
  readonly reservation: Reservation;
}

/**
 * A patch of the tags depends on the present ones, so an update with tags is made on the stored
 * version.
 */
async function update(
  services: Services,
  conversation: CachedConversation,
  change: UpdateRequest,
): Promise<Update> {
  if (change.tags === undefined) return store(services, conversation, change);
  const { namespace, name } = conversation.metadata;
  for (let attempt = 1; ; attempt++) {
    const stored = await services.client.get(conversations, namespace, name);
    const { resourceVersion } = stored.metadata;
    try {
      return await store(services, stored, change, { resourceVersion });
    } catch (error) {
      if (!isConflict(error) || attempt === maxAttempts) throw error;
    }
  }
}

async function store(
  { client, caps }: Services,
  conversation: Pick<CachedConversation, 'metadata' | 'spec'>,
  change: UpdateRequest,
  precondition: { readonly resourceVersion?: string } = {},
): Promise<Update> {
  const { metadata, spec } = conversation;
  const before = changeable(spec);
  const storedBytes = bytesOf({ ...before, ...changeable(change) }) - bytesOf(before);
  const reservation = caps.reserve(spec.owner, { storedBytes });
  try {
    const patch = { metadata: precondition, spec: changesTo(conversation, change) };
    return {
      updated: cachedConversation(
        await client.mergePatch(conversations, metadata.namespace, metadata.name, patch),
      ),
      reservation,
    };
  } catch (error) {
    reservation.release();
    throw error;
  }
}

/** The fields that an update may change. */
const changeable = ({ title, public: isPublic, tags }: UpdateRequest) =>
  compact({ title, public: isPublic, tags });
const bytesOf = (value: object): number => Buffer.byteLength(JSON.stringify(value));

/**
 * A merge patch of the spec. The given tags replace the present ones, so the patch removes the
 * others.
 */
function changesTo(
  { spec }: Pick<CachedConversation, 'spec'>,
  { title, public: isPublic, tags }: UpdateRequest,
) {
  const dropped = Object.fromEntries(Object.keys(spec.tags ?? {}).map((tag) => [tag, null]));
  return compact({
    title,
    public: isPublic,
    tags: tags === undefined ? undefined : { ...dropped, ...tags },
  });
}
