import type { Exposure } from '../presenters/sandbox.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { type Route, endpoints, ownConversation } from '../http/route.ts';
import { z } from 'zod';
import type { CachedConversation } from '../../resources/cached-conversation.ts';
import type { SandboxStatus } from '../../resources/conversation-status.ts';
import { conversationIdOf } from '../../resources/ids.ts';
import { type StartRequest, startRequestSchema } from '../presenters/start-fields.ts';
import { presentConversation, conversationSchema } from '../presenters/conversation.ts';
import { sourcesOf } from '../presenters/conversation-records.ts';
import type { ConversationSearch } from './search.ts';
import { capProblems } from '../lookup/storage-caps.ts';
import { startConversation, type StartNeeds } from './start.ts';
import { ProblemError } from '../errors/problem-error.ts';
import { maxMessageBytes } from '../../resources/conversation.ts';
import { optional, conversationParams, pageQuery } from '../http/fields.ts';
import type { RequestHandler } from 'express';

const request = startRequestSchema.shape;

export const legacyStartSchema = z.strictObject({
  initial_user_msg: optional(
    z
      .string()
      .refine(
        (text) => Buffer.byteLength(text) <= maxMessageBytes,
        `must have at most ${maxMessageBytes} bytes`,
      )
      .overwrite((text) => text.toWellFormed()),
  ),
  repository: request.selected_repository,
  selected_branch: request.selected_branch,
  git_provider: request.git_provider,
  image_urls: optional(z.array(z.string().min(1).max(maxMessageBytes)).max(20)),
  conversation_instructions: request.system_message_suffix,
});
export type LegacyStart = z.output<typeof legacyStartSchema>;

export const legacyStartAnswer = z.object({
  status: z.literal('ok'),
  conversation_id: z.string(),
  message: z.null(),
  conversation_status: z.literal('STARTING'),
});

const { title, selected_repository, selected_branch, git_provider, trigger } =
  conversationSchema.shape;
const sameFields = z.object({ title, selected_repository, selected_branch, git_provider, trigger });
export const legacyConversationSchema = sameFields.extend({
  conversation_id: z.string(),
  status: z.enum(['STARTING', 'RUNNING', 'STOPPED', 'ERROR', 'ARCHIVED']),
  created_at: z.string(),
  last_updated_at: z.string(),
});
export const legacyPage = z.object({
  results: z.array(legacyConversationSchema),
  next_page_id: z.string().nullable(),
});

/** Deprecation date of the legacy interface, 2025-12-01, in the form of RFC 9745. */
const deprecation = '@1764547200';
/** Announced removal date of the legacy interface, in the form of RFC 8594. */
const sunset = 'Wed, 01 Apr 2026 00:00:00 GMT';

const successorPath = '/api/v1/app-conversations';

/** Marks each response of the legacy interface as deprecated; each is a 410 unless `isEnabled`. */
export const legacyInterface =
  ({ publicUrl }: { readonly publicUrl: () => string }, isEnabled: boolean): RequestHandler =>
  (_request, response, next) => {
    response.set({
      deprecation,
      sunset,
      link: `<${publicUrl()}${successorPath}>; rel="successor-version"`,
    });
    if (!isEnabled)
      throw new ProblemError(
        'legacy-api-removed',
        `The legacy interface is switched off. Use ${successorPath}.`,
      );
    next();
  };

const { get, post } = endpoints('legacy');

type LegacyStatus = z.output<typeof legacyConversationSchema>['status'];

const statuses: Readonly<Record<SandboxStatus, LegacyStatus>> = {
  STARTING: 'STARTING',
  RUNNING: 'RUNNING',
  PAUSED: 'STOPPED',
  ERROR: 'ERROR',
  MISSING: 'ARCHIVED',
};

interface RecordNeeds {
  readonly lookup: ResourceLookup;
  readonly exposure: Exposure;
}

function present(
  { lookup, exposure }: RecordNeeds,
  conversation: CachedConversation,
): z.output<typeof legacyConversationSchema> {
  const record = presentConversation(sourcesOf(lookup, conversation), exposure);
  return {
    ...sameFields.parse(record),
    conversation_id: record.id,
    status: statuses[record.sandbox_status],
    created_at: record.created_at,
    last_updated_at: record.updated_at,
  };
}

function successorOf(legacy: LegacyStart): StartRequest {
  const { initial_user_msg: text, image_urls: images } = legacy;
  const content = [
    ...(text === undefined || text === '' ? [] : [{ type: 'text' as const, text }]),
    ...(images === undefined || images.length === 0
      ? []
      : [{ type: 'image' as const, image_urls: images }]),
  ];
  return {
    initial_message: content.length > 0 ? { role: 'user', content, run: true } : null,
    selected_repository: legacy.repository,
    selected_branch: legacy.selected_branch,
    git_provider: legacy.git_provider,
    system_message_suffix: legacy.conversation_instructions,
  };
}

/** The legacy interface responds to a rejected repository with 401 instead of 403. */
function rethrow(error: unknown): never {
  if (!(error instanceof ProblemError) || error.code !== 'repository-access-denied') throw error;
  throw new ProblemError(error.code, error.message, {
    status: 401,
    headers: { 'www-authenticate': 'Bearer' },
    cause: error,
  });
}

export const legacyRoutes = (
  needs: StartNeeds & RecordNeeds,
  search: ConversationSearch,
): readonly Route[] => [
  post('/api/conversations', 'startLegacyConversation', {
    scope: 'start',
    summary: 'Start a conversation and get its id at once',
    deprecated: true,
    body: legacyStartSchema,
    responses: { 200: legacyStartAnswer },
    problems: ['branch-not-found', 'template-not-allowed', 'quota-exceeded', ...capProblems],
    handle: async ({ principal: { chain }, owner, body, about }) => {
      const request = successorOf(body);
      const conversation = await startConversation(needs, owner, request, { chain }).catch(rethrow);
      about(`conversation/${conversation.metadata.name}`);
      return {
        json: {
          status: 'ok',
          conversation_id: conversationIdOf(conversation),
          message: null,
          conversation_status: 'STARTING',
        },
      };
    },
  }),
  get('/api/conversations', 'searchLegacyConversations', {
    summary: 'Conversations page by page, newest first',
    deprecated: true,
    query: pageQuery,
    responses: { 200: legacyPage },
    handle: ({ owner, query }) => {
      const page = search.page(needs.lookup.conversationsOf(owner), {
        of: 'conversations',
        sort_order: 'CREATED_AT_DESC',
        ...query,
      });
      const results = page.items.map((conversation) => present(needs, conversation));
      return { json: { results, next_page_id: page.next_page_id } };
    },
  }),
  get('/api/conversations/{id}', 'getLegacyConversation', {
    summary: 'One conversation',
    deprecated: true,
    params: conversationParams,
    responses: { 200: legacyConversationSchema },
    problems: ['not-found'],
    handle: async (call) => {
      const conversation = await ownConversation(needs.lookup, call);
      return { json: present(needs, conversation) };
    },
  }),
];
