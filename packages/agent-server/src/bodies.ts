import en from 'zod/v4/locales/en.js';
import * as z from 'zod/mini';
import { HttpError } from './router.ts';
import { httpHeaders, mcpConfig } from './mcp-servers.ts';
import { confirmationPolicies } from './meta.ts';
import { maxSecrets } from './secrets.ts';

// zod/mini has no error messages of its own, so the English ones are configured.
z.config(en());

const maybe = <T extends z.ZodMiniType>(type: T) => z.nullish(type);

const content = z.union([
  z.object({ type: z._default(z.literal('text'), 'text'), text: z.string() }),
  z.object({ type: z.literal('image'), image_urls: z.array(z.string()) }),
]);

const message = {
  role: z._default(z.enum(['user', 'system', 'assistant']), 'user'),
  content: z._default(z.array(content), []),
};

const agent = z.object({
  llm: maybe(
    z.object({
      model: maybe(z.string()),
      base_url: maybe(z.string()),
      api_key: maybe(z.string()),
      num_retries: maybe(z.number().check(z.minimum(0), z.maximum(10))),
    }),
  ),
  agent_context: maybe(
    z.object({ load_project_skills: maybe(z.boolean()), system_message_suffix: maybe(z.string()) }),
  ),
  mcp_config: maybe(mcpConfig),
});

const secret = z.union([
  z.object({ kind: maybe(z.literal('StaticSecret')), value: z.string() }),
  z.object({
    kind: z.literal('LookupSecret'),
    url: z.string().check(z.regex(/^https?:\/\//)),
    headers: maybe(httpHeaders),
  }),
]);
/** Secrets by name. A secret may be a plain text in `secretsBody`, but not in `createBody`. */
const secretsOf = <T extends z.ZodMiniType>(type: T) =>
  z
    .record(z.string().check(z.maxLength(200)), type)
    .check(
      z.refine((secrets) => Object.keys(secrets).length <= maxSecrets, {
        error: `at most ${maxSecrets} secrets are allowed`,
      }),
    );

const tags = z.record(z.string().check(z.regex(/^[a-z0-9]+$/)), z.string());

export const createBody = z
  .object({
    conversation_id: maybe(z.string()),
    workspace: z.object({ working_dir: z.string().check(z.minLength(1)) }),
    agent_settings: maybe(agent),
    agent: maybe(agent),
    initial_message: maybe(z.object(message)),
    max_iterations: maybe(z.number().check(z.int(), z.minimum(1), z.maximum(10_000))),
    confirmation_policy: maybe(z.object({ kind: z.enum(confirmationPolicies) })),
    tags: maybe(tags),
    secrets: maybe(secretsOf(secret)),
    hook_config: maybe(z.record(z.string(), z.unknown())),
  })
  .check(
    z.refine((body) => (body.agent_settings ?? body.agent) != null, {
      error: 'agent_settings or agent is required',
    }),
  );
export type CreateBody = z.output<typeof createBody>;

export const secretsBody = z.object({ secrets: secretsOf(z.union([z.string(), secret])) });

export const messageBody = z.object({ ...message, run: z._default(z.boolean(), false) });

export const confirmationBody = z.object({
  accept: z.boolean(),
  reason: z._default(z.string(), 'User rejected the action.'),
  approval_id: maybe(z.string().check(z.maxLength(200))),
  option_id: maybe(z.string().check(z.maxLength(200))),
});

export const updateBody = z.object({
  title: maybe(z.string().check(z.minLength(1), z.maxLength(200))),
  tags: maybe(tags),
});

export const commandBody = z.object({
  command: z.string(),
  cwd: maybe(z.string()),
  timeout: z._default(z.number().check(z.minimum(1), z.maximum(86_400)), 300),
});

const minimum = (min: number, fallback: number) =>
  z._default(z.number().check(z.minimum(min)), fallback);

const webhook = z.object({
  base_url: z.string().check(z.regex(/^https?:\/\//)),
  headers: z._default(z.record(z.string(), z.string()), {}),
  event_buffer_size: minimum(1, 5),
  flush_delay: minimum(0.001, 30),
  num_retries: minimum(0, 3),
  retry_delay: minimum(0, 5),
  max_queue_size: minimum(1, 1000),
  max_batch_bytes: minimum(1, 5 * 1024 * 1024),
  max_queue_bytes: minimum(1, 50 * 1024 * 1024),
});
export type WebhookBody = z.output<typeof webhook>;

export const initBody = z.strictObject({
  session_api_keys: z.array(z.string().check(z.minLength(1))).check(z.minLength(1)),
  secret_key: maybe(z.string()),
  conversations_path: maybe(z.string()),
  bash_events_dir: maybe(z.string()),
  env: maybe(z.record(z.string(), z.string())),
  webhooks: maybe(z.array(webhook).check(z.maxLength(8))),
});

export const skillsBody = z.object({
  load_project: z._default(z.boolean(), true),
  project_dir: maybe(z.string()),
});

export const hooksBody = z.object({ project_dir: maybe(z.string()) });

export const eventFilter = z.object({
  kind: z.optional(z.string()),
  source: z.optional(z.string()),
  timestamp__gte: z.optional(z.string()),
  timestamp__lt: z.optional(z.string()),
});

const pageLimit = z._default(z.coerce.number().check(z.int(), z.minimum(1), z.maximum(100)), 100);

export const eventSearch = z.extend(eventFilter, {
  limit: pageLimit,
  page_id: z.optional(z.string()),
  sort_order: z._default(z.enum(['TIMESTAMP', 'TIMESTAMP_DESC']), 'TIMESTAMP'),
});
export type EventSearch = z.output<typeof eventSearch>;

export const conversationFilter = z.object({
  status: z.optional(
    z.enum([
      'idle',
      'running',
      'paused',
      'waiting_for_confirmation',
      'finished',
      'error',
      'stuck',
      'deleting',
    ]),
  ),
});

export const conversationSearch = z.extend(conversationFilter, {
  limit: pageLimit,
  page_id: z.optional(z.string()),
});

/** Throws HttpError 422 for an invalid value. The error omits the value, which may be a secret. */
export function parse<T>(type: z.ZodMiniType<T>, value: unknown, place: 'body' | 'query'): T {
  const result = type.safeParse(value);
  if (result.success) return result.data;
  throw new HttpError(
    422,
    result.error.issues.map(({ code, path, message: msg }) => ({
      type: code,
      loc: [place, ...path.map(String)],
      msg,
    })),
  );
}
