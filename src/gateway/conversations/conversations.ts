import type { Shares } from '@conversation-operator/base/shares';
import type { AgentControl } from '../../agent/openhands-api.ts';
import { z } from 'zod';
import {
  cachedConversation,
  type CachedConversation,
} from '../../resources/cached-conversation.ts';
import { conversations } from '../../resources/conversation.ts';
import {
  type Call,
  type Route,
  endpoints,
  success,
  successSchema,
  changeableConversation,
} from '../http/route.ts';
import {
  conversationList,
  conversationPage,
  conversationSchema,
} from '../presenters/conversation.ts';
import { countSchema } from '../presenters/schemas.ts';
import { startTaskList, startTaskRecord, startTaskSchema } from '../presenters/start-task.ts';
import { compact } from '@conversation-operator/base/compact';
import { deleteOwned, refuseMoved, whileOwned, writeOnStored } from '../lookup/stored.ts';
import {
  conversationParams,
  idsQuery,
  label,
  optional,
  refuseTooMany,
  shownName,
} from '../http/fields.ts';
import { maxTitleLength } from '../../resources/conversation-status.ts';
import { idempotencyHeaders } from './idempotency.ts';
import {
  accessTo,
  conversationRecord,
  freshRecord,
  startTextsOf,
} from '../presenters/conversation-records.ts';
import { startRequestSchema, type StartRequest } from '../presenters/start-fields.ts';
import {
  conversationFilter,
  conversationFilters,
  conversationSearch,
  type ConversationSearch,
} from './search.ts';
import { sendMessageRoute } from './messages.ts';
import { startConversation, startProblems, type StartNeeds } from './start.ts';
import { streamStart, type StartTaskNeeds } from './start-tasks.ts';
import { agentProblems, type AgentReads } from '../history/agent-reads.ts';

/** Maximum tags of a conversation; every response about the conversation contains all its tags. */
const maxTags = 64;

export const updateRequestSchema = z.strictObject({
  title: optional(shownName(maxTitleLength)),
  public: optional(z.boolean()),
  tags: optional(
    z
      .record(label(64), label(256))
      .refine((tags) => Object.keys(tags).length <= maxTags, `must have at most ${maxTags} tags`),
  ).describe(`They replace those that are there; at most ${maxTags}.`),
});
type UpdateRequest = z.output<typeof updateRequestSchema>;

const base = '/api/v1/app-conversations';
const { get, patch, post, remove } = endpoints('conversations');

type ConversationNeeds = StartNeeds &
  StartTaskNeeds & { readonly places: { readonly startStreams: Shares } };

export const conversationRoutes = (
  needs: ConversationNeeds,
  search: ConversationSearch,
): readonly Route[] => {
  return [
    post(base, 'startConversation', {
      scope: 'start',
      summary: 'Start a conversation; answers with the start task to poll',
      headers: idempotencyHeaders,
      body: startRequestSchema,
      responses: { 200: startTaskSchema },
      problems: startProblems,
      handle: async (call) => {
        const conversation = await start(needs, call);
        const texts = await startTextsOf(needs.startTexts, conversation);
        const access = accessTo(needs, conversation);
        return { json: startTaskRecord(conversation, texts, access) };
      },
    }),
    post(`${base}/stream-start`, 'streamStartConversation', {
      scope: 'start',
      summary: 'Start a conversation; each change of the start task is sent as it happens',
      headers: idempotencyHeaders,
      body: startRequestSchema,
      responses: { 200: startTaskList },
      problems: [...startProblems, 'share-exceeded'],
      handle: async (call) => {
        const { principal, owner, response } = call;
        // The permit comes first, so that no conversation starts when the stream is refused.
        response.once('close', needs.places.startStreams.take({ owner }));
        const conversation = await start(needs, call);
        const texts = await startTextsOf(needs.startTexts, conversation);
        streamStart(needs, response, conversation, { texts, principal });
        return 'sent' as const;
      },
    }),
    get(base, 'getConversations', {
      summary: 'Conversations by id, in the order asked; unknown ones are left out',
      query: idsQuery,
      responses: { 200: conversationList },
      problems: ['too-many-ids'],
      handle: async ({ owner, query, reader }) => {
        refuseTooMany(query.ids);
        const found = await needs.lookup.conversations(owner, query.ids);
        const present = found.filter((conversation) => conversation !== undefined);
        return { json: await Promise.all(present.map((each) => freshRecord(needs, each, reader))) };
      },
    }),
    get(`${base}/search`, 'searchConversations', {
      summary: 'Conversations page by page, newest first',
      query: conversationSearch,
      responses: { 200: conversationPage },
      handle: ({ owner, query: { sort_order, limit, page_id, ...filters }, reader }) => {
        const matches = conversationFilter(filters);
        const wanted = { of: 'conversations', matches, sort_order, limit, page_id } as const;
        const { items, ...page } = search.page(needs.lookup.conversationsOf(owner), wanted);
        const records = items.map((each) => conversationRecord(needs, each, { reader }));
        return { json: { items: records, ...page } };
      },
    }),
    get(`${base}/count`, 'countConversations', {
      summary: 'How many conversations a search would find',
      query: conversationFilters,
      responses: { 200: countSchema },
      handle: ({ owner, query }) => {
        const [all, matches] = [needs.lookup.conversationsOf(owner), conversationFilter(query)];
        return { json: matches === undefined ? all.length : all.filter(matches).length };
      },
    }),
    patch(`${base}/{id}`, 'updateConversation', {
      summary: 'Change the title, the public flag or the tags',
      params: conversationParams,
      body: updateRequestSchema,
      responses: { 200: conversationSchema },
      problems: ['not-found', 'wrong-state', 'conflict', 'stored-bytes-limit-exceeded'],
      handle: async ({ body, reader, ...call }) => {
        const conversation = await changeableConversation(needs.lookup, call);
        const written = await update(needs, conversation, body);
        return { json: await freshRecord(needs, written, reader) };
      },
    }),
    remove(`${base}/{id}`, 'deleteConversation', {
      summary: 'Delete a conversation, and its sandbox when no other conversation uses it',
      params: conversationParams,
      responses: { 200: successSchema },
      problems: ['not-found', 'wrong-state', 'conflict'],
      handle: async (call) => {
        const { client, feeds } = needs;
        const object = await changeableConversation(needs.lookup, call);
        await deleteOwned(client, conversations, 'conversation', object, feeds.conversations);
        return success;
      },
    }),
    sendMessageRoute(needs),
  ];
};

type StartCall = Pick<
  Call<undefined, undefined, StartRequest, z.output<typeof idempotencyHeaders>>,
  'principal' | 'owner' | 'headers' | 'body' | 'about'
>;

async function start(needs: StartNeeds, { principal, owner, headers, body, about }: StartCall) {
  const conversation = await startConversation(needs, owner, body, {
    chain: principal.chain,
    idempotencyKey: headers['idempotency-key'],
  });
  about(`conversation/${conversation.metadata.name}`);
  return conversation;
}

/** If `change` has tags, reads the stored conversation first: the patch removes its other tags. */
async function update(
  needs: StartNeeds,
  conversation: CachedConversation,
  change: UpdateRequest,
): ReturnType<typeof store> {
  if (change.tags === undefined) return store(needs, conversation, change);
  const { namespace, name } = conversation.metadata;
  return writeOnStored(
    () => needs.client.get(conversations, namespace, name),
    (stored) => {
      refuseMoved('conversation', stored, conversation);
      const { resourceVersion } = stored.metadata;
      return store(needs, stored, change, { resourceVersion });
    },
  );
}

async function store(
  { client, caps, feeds }: StartNeeds,
  conversation: Pick<CachedConversation, 'metadata' | 'spec'>,
  change: UpdateRequest,
  precondition: { readonly resourceVersion?: string } = {},
) {
  const { metadata, spec } = conversation;
  const before = changeable(spec);
  const storedBytes = bytesOf({ ...before, ...changeable(change) }) - bytesOf(before);
  // UID and owner keep the patch from changing another conversation of the name, or one that has
  // moved to another owner.
  const patch = {
    metadata: { ...precondition, uid: metadata.uid },
    spec: { ...changesTo(conversation, change), owner: spec.owner },
  };
  return caps.during(spec.owner, { storedBytes }, async () => {
    const { namespace, name } = metadata;
    const written = cachedConversation(
      await whileOwned('conversation', client.mergePatch(conversations, namespace, name, patch)),
    );
    await feeds.conversations.shows(written);
    return written;
  });
}

const changeable = ({ title, public: isPublic, tags }: UpdateRequest) =>
  compact({ title, public: isPublic, tags });
const bytesOf = (value: object): number => Buffer.byteLength(JSON.stringify(value));

/** A merge patch of the spec, which removes all tags that are not given. */
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

export function interruptRoute({
  agentReads,
  control,
}: {
  readonly agentReads: AgentReads;
  readonly control: AgentControl;
}): Route {
  return post('/api/v1/app-conversations/{id}/interrupt', 'interruptConversation', {
    summary: 'Stop what the agent does; its sandbox keeps running, and a message continues the run',
    params: conversationParams,
    responses: { 200: successSchema },
    problems: agentProblems,
    handle: (call) =>
      agentReads.askOwn(
        call,
        ({ endpoint, id }, signal) => control.interrupt(endpoint, id, signal),
        () => success,
      ),
  });
}
