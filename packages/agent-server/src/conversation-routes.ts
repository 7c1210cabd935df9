import { randomBytes } from 'node:crypto';
import { resolve } from 'node:path';
import { newUuid, parseUuid } from '@conversation-operator/base/uuid';
import {
  confirmationBody,
  conversationFilter,
  conversationSearch,
  createBody,
  eventFilter,
  eventSearch,
  messageBody,
  parse,
  secretsBody,
  updateBody,
  type CreateBody,
  type EventSearch,
} from './bodies.ts';
import type { Conversation } from './conversation.ts';
import type { Conversations } from './conversations.ts';
import { HttpError, type Call, type Router, type RouteResponse } from './router.ts';
import { mcpServersOf } from './mcp-servers.ts';
import type { Meta } from './meta.ts';
import { type SecretBox, countOf, maxSecrets, withSecrets } from './secrets.ts';
import type { Webhooks } from './webhooks.ts';
import { finalResponseOf, infoOf } from './presenters.ts';
import type { z } from 'zod/mini';
import type { EventLog, LogEntry } from './event-log.ts';
import type { AgentEvent } from './events.ts';

type Filter = z.output<typeof eventFilter>;

/** Filters events. Timestamps have no zone and compare as texts, so the filter's `Z` is removed. */
function matchingEntries(log: EventLog, filter: Filter): readonly LogEntry[] {
  const kind = filter.kind?.split('.').at(-1);
  const from = filter.timestamp__gte?.replace(/Z$/, '').replace(' ', 'T');
  const before = filter.timestamp__lt?.replace(/Z$/, '').replace(' ', 'T');
  return log.entries.filter(
    (entry) =>
      (kind === undefined || entry.kind === kind) &&
      (filter.source === undefined || entry.source === filter.source) &&
      (from === undefined || entry.timestamp >= from) &&
      (before === undefined || entry.timestamp < before),
  );
}

export async function searchEvents(
  log: EventLog,
  search: EventSearch,
): Promise<{ readonly items: readonly AgentEvent[]; readonly next_page_id: string | null }> {
  const found = matchingEntries(log, search);
  const sorted = search.sort_order === 'TIMESTAMP' ? found : found.toReversed();
  const page = pageOf(sorted, search, ({ id }) => id);
  return { ...page, items: await log.read(page.items) };
}

/** Returns a page. `page_id` is the id of its first item; an unknown id selects the first page. */
function pageOf<T>(
  found: readonly T[],
  { limit, page_id }: { readonly limit: number; readonly page_id?: string | undefined },
  idOf: (item: T) => string,
): { readonly items: readonly T[]; readonly next_page_id: string | null } {
  const start = Math.max(
    found.findIndex((item) => idOf(item) === page_id),
    0,
  );
  const next = found[start + limit];
  return {
    items: found.slice(start, start + limit),
    next_page_id: next === undefined ? null : idOf(next),
  };
}

export interface Ready {
  readonly conversations: Conversations;
  readonly secretBox: SecretBox;
  readonly webhooks: Pick<Webhooks, 'notify' | 'unfollow'>;
}

const defaultMaxIterations = 50;
const success: RouteResponse = { body: { success: true } };

/** Adds the routes of conversations. `ready` throws until the server has its keys. */
export function conversationRoutes(router: Router, ready: () => Ready): void {
  const find = ({ params }: Call, detail?: string): Conversation => {
    const conversation = ready().conversations.get(parseUuid(params['id'] ?? '') ?? '');
    if (conversation === undefined) throw new HttpError(404, detail ?? 'Not Found');
    return conversation;
  };
  const findForEvents = (call: Call) =>
    find(call, `Conversation not found: ${call.params['id'] ?? ''}`);
  const query = ({ url }: Call) => Object.fromEntries(url.searchParams);
  const withStatus = (call: Call) => {
    const { status } = parse(conversationFilter, query(call), 'query');
    return ready()
      .conversations.list()
      .filter((conversation) => status === undefined || conversation.status === status);
  };

  router.on('POST /api/conversations', async (call) => {
    const body = parse(createBody, await call.body(), 'body');
    const { conversations, secretBox, webhooks } = ready();
    const { conversation, created } = await conversations.create(
      metaOf(body, secretBox),
      body.initial_message ?? undefined,
    );
    if (created) webhooks.notify(conversation);
    return { status: created ? 201 : 200, body: infoOf(conversation) };
  });
  router.on('GET /api/conversations', ({ url }) => ({
    body: url.searchParams.getAll('ids').map((id) => {
      const conversation = ready().conversations.get(parseUuid(id) ?? '');
      return conversation === undefined ? null : infoOf(conversation);
    }),
  }));
  router.on('GET /api/conversations/search', (call) => {
    const search = parse(conversationSearch, query(call), 'query');
    const page = pageOf(withStatus(call), search, ({ meta }) => meta.id);
    return { body: { ...page, items: page.items.map(infoOf) } };
  });
  router.on('GET /api/conversations/count', (call) => ({ body: withStatus(call).length }));
  router.on('GET /api/conversations/:id', (call) => ({ body: infoOf(find(call)) }));
  router.on('PATCH /api/conversations/:id', async (call) => {
    const { title, tags } = parse(updateBody, await call.body(), 'body');
    const conversation = find(call);
    await conversation.update(() => ({
      ...(title == null ? {} : { title }),
      ...(tags == null ? {} : { tags }),
    }));
    ready().webhooks.notify(conversation);
    return success;
  });
  router.on('POST /api/conversations/:id/secrets', async (call) => {
    const { secrets } = parse(secretsBody, await call.body(), 'body');
    const added = Object.fromEntries(
      Object.entries(secrets).map(([name, secret]) => [
        name,
        typeof secret === 'string' ? { value: secret } : secret,
      ]),
    );
    await find(call).update((meta) => {
      const changed = withSecrets(meta, added, ready().secretBox);
      if (countOf(changed) > maxSecrets)
        throw new HttpError(422, `A conversation has at most ${maxSecrets} secrets.`);
      return changed;
    });
    return success;
  });
  router.on('DELETE /api/conversations/:id', async (call) => {
    const { conversations, webhooks } = ready();
    const conversation = find(call);
    await conversations.delete(conversation);
    webhooks.unfollow(conversation);
    webhooks.notify(conversation, { execution_status: 'deleting' });
    return success;
  });

  router.on('POST /api/conversations/:id/events', async (call) => {
    const { run, ...message } = parse(messageBody, await call.body(), 'body');
    const conversation = findForEvents(call);
    const full = run && conversation.status !== 'running' && !ready().conversations.hasRoomForRun();
    await conversation.post(message, { run: run && !full });
    if (full)
      throw new HttpError(
        429,
        'Message saved, but the conversation run limit is reached. Retry the run later.',
      );
    return success;
  });
  router.on('POST /api/conversations/:id/run', async (call) => {
    const conversation = find(call);
    const continues = call.url.searchParams.get('continue') === 'true';
    if (conversation.status !== 'running' && (continues || conversation.status !== 'finished')) {
      ready().conversations.assertRoomForRun(
        'Conversation run limit reached. Retry the request later.',
      );
    }
    if (!(await conversation.run({ continues })))
      throw new HttpError(409, 'Conversation already running. Wait for completion or pause first.');
    return success;
  });
  router.on('POST /api/conversations/:id/events/respond_to_confirmation', async (call) => {
    const body = parse(confirmationBody, await call.body(), 'body');
    const { accept, reason, approval_id: approvalId, option_id: optionId } = body;
    const conversation = findForEvents(call);
    if (accept)
      ready().conversations.assertRoomForRun(
        'Conversation run limit reached. Retry the request later.',
      );
    await conversation.respond({
      accept,
      reason,
      approvalId: approvalId ?? undefined,
      optionId: optionId ?? undefined,
    });
    return success;
  });
  router.on('GET /api/conversations/:id/approval', (call) => ({
    body: { approval: find(call).approval ?? null },
  }));
  router.on('POST /api/conversations/:id/pause', async (call) => {
    const conversation = find(call);
    await conversation.pause();
    ready().webhooks.notify(conversation);
    return success;
  });
  router.on('POST /api/conversations/:id/interrupt', async (call) => {
    const conversation = find(call);
    await conversation.stop('interrupt');
    ready().webhooks.notify(conversation);
    return success;
  });

  router.on('GET /api/conversations/:id/events/search', async (call) => {
    const search = parse(eventSearch, query(call), 'query');
    return { body: await searchEvents(findForEvents(call).log, search) };
  });
  router.on('GET /api/conversations/:id/events/count', (call) => {
    const filter = parse(eventFilter, query(call), 'query');
    return { body: matchingEntries(findForEvents(call).log, filter).length };
  });
  router.on('GET /api/conversations/:id/events/:event', async (call) => {
    const { log } = findForEvents(call);
    const [event] = await log.read(log.entries.filter(({ id }) => id === call.params['event']));
    if (event === undefined) throw new HttpError(404, 'Not Found');
    return { body: event };
  });
  // The OpenHands protocol lacks this route. The route returns texts that no event contains yet.
  router.on('GET /api/conversations/:id/live', ({ url, ...call }) => {
    const { activity, needles, runMs, log } = findForEvents({ url, ...call });
    const after = url.searchParams.get('after') ?? '';
    return {
      body: {
        ...activity.read(after, needles),
        last_event_id: log.entries.at(-1)?.id ?? null,
        run_ms: runMs ?? null,
      },
    };
  });
  router.on('GET /api/conversations/:id/agent_final_response', async (call) => {
    const { log } = find(call);
    const response = log.entries.findLast(
      ({ kind, source, toolName }) =>
        (kind === 'MessageEvent' && source === 'agent') ||
        (kind === 'ObservationEvent' && toolName === 'finish'),
    );
    const [event] = response === undefined ? [] : await log.read([response]);
    return { body: { response: finalResponseOf(event) } };
  });
}

function metaOf(body: CreateBody, secretBox: SecretBox): Meta {
  const id =
    body.conversation_id == null
      ? newUuid(Date.now(), randomBytes)
      : parseUuid(body.conversation_id);
  if (id === undefined)
    throw new HttpError(422, [
      {
        type: 'uuid_parsing',
        loc: ['body', 'conversation_id'],
        msg: 'Input should be a valid UUID',
      },
    ]);
  const { llm, agent_context, mcp_config } = body.agent_settings ?? body.agent ?? {};
  const mcpServers = mcpServersOf(mcp_config ?? {});
  return {
    id,
    createdAt: new Date().toISOString().replace('Z', '000Z'),
    workingDir: resolve(body.workspace.working_dir),
    maxIterations: body.max_iterations ?? defaultMaxIterations,
    confirmationPolicy: body.confirmation_policy?.kind,
    tags: body.tags ?? {},
    systemMessageSuffix: agent_context?.system_message_suffix ?? undefined,
    loadProjectSkills: agent_context?.load_project_skills ?? false,
    hookConfig: body.hook_config ?? undefined,
    llm:
      llm == null
        ? undefined
        : {
            model: llm.model ?? undefined,
            baseUrl: llm.base_url ?? undefined,
            sealedApiKey: llm.api_key == null ? undefined : secretBox.seal(llm.api_key),
            retries: llm.num_retries ?? undefined,
          },
    ...withSecrets({ sealedSecrets: {} }, body.secrets ?? {}, secretBox),
    sealedMcpServers:
      mcpServers.length === 0 ? undefined : secretBox.seal(JSON.stringify(mcpServers)),
  };
}
