import { ModelApi } from './model-api.ts';

/** Reasons for which the relay answers in place of the provider. */
export const refusalKinds = [
  ...['budget', 'bad-request', 'unauthorized', 'not-allowed', 'not-found', 'too-large'],
  ...['busy', 'upstream'],
] as const;
export type RefusalKind = (typeof refusalKinds)[number];

export interface Refusal {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

interface Shape {
  readonly status: number;
  readonly openai: readonly [type: string, code: string | null];
  readonly anthropic: string;
  readonly gemini: string;
}

/** Statuses and names as each provider uses them, so that clients retry what passes and no more. */
const shapes: Readonly<Record<RefusalKind, Shape>> = {
  // Clients retry 429, which providers send for the end of a budget, and not 402 (see `statusOf`).
  budget: {
    status: 402,
    openai: ['insufficient_quota', 'budget_exhausted'],
    anthropic: 'invalid_request_error',
    gemini: 'FAILED_PRECONDITION',
  },
  'bad-request': {
    status: 400,
    openai: ['invalid_request_error', null],
    anthropic: 'invalid_request_error',
    gemini: 'INVALID_ARGUMENT',
  },
  unauthorized: {
    status: 401,
    openai: ['invalid_request_error', 'invalid_api_key'],
    anthropic: 'authentication_error',
    gemini: 'UNAUTHENTICATED',
  },
  'not-allowed': {
    status: 403,
    openai: ['invalid_request_error', 'permission_denied'],
    anthropic: 'permission_error',
    gemini: 'PERMISSION_DENIED',
  },
  'not-found': {
    status: 404,
    openai: ['invalid_request_error', 'not_found'],
    anthropic: 'not_found_error',
    gemini: 'NOT_FOUND',
  },
  'too-large': {
    status: 413,
    openai: ['invalid_request_error', 'request_too_large'],
    anthropic: 'request_too_large',
    gemini: 'INVALID_ARGUMENT',
  },
  busy: {
    status: 429,
    openai: ['rate_limit_error', 'rate_limit_exceeded'],
    anthropic: 'rate_limit_error',
    gemini: 'RESOURCE_EXHAUSTED',
  },
  // As clients know it of a provider that is away: they try again.
  upstream: {
    status: 503,
    openai: ['server_error', 'upstream_error'],
    anthropic: 'api_error',
    gemini: 'UNAVAILABLE',
  },
};

/** The relay's answer to a request of `api`, as the provider itself would refuse it. */
export function refusalOf(api: ModelApi, kind: RefusalKind, message: string): Refusal {
  return {
    status: statusOf(api, kind),
    headers: {
      'content-type': 'application/json',
      // The official clients of OpenAI and Anthropic obey this before they look at the status.
      ...(kind === 'budget' ? { 'x-should-retry': 'false' } : {}),
    },
    body: JSON.stringify(errorOf(api, kind, message)),
  };
}

/** Codex, which speaks Responses, tries 402 five times more, and 400 never. */
const statusOf = (api: ModelApi, kind: RefusalKind): number =>
  kind === 'budget' && api === ModelApi.OpenAiResponses ? 400 : shapes[kind].status;

function errorOf(api: ModelApi, kind: RefusalKind, message: string): object {
  const { status, openai, anthropic, gemini } = shapes[kind];
  switch (api) {
    case ModelApi.OpenAiChat:
    case ModelApi.OpenAiResponses: {
      const [type, code] = openai;
      return { error: { message, type, code, param: null } };
    }
    case ModelApi.AnthropicMessages:
      return { type: 'error', error: { type: anthropic, message } };
    case ModelApi.Gemini:
      return { error: { code: status, status: gemini, message } };
  }
}

/**
 * The events that tell a client of an error in a stream of events that has begun. They may follow
 * only between two events.
 */
export function streamErrorOf(api: ModelApi, kind: RefusalKind, message: string): string {
  switch (api) {
    case ModelApi.OpenAiChat:
    case ModelApi.Gemini:
      return `data: ${JSON.stringify(errorOf(api, kind, message))}\n\n`;
    case ModelApi.AnthropicMessages:
      return `event: error\ndata: ${JSON.stringify(errorOf(api, kind, message))}\n\n`;
    case ModelApi.OpenAiResponses: {
      const code = shapes[kind].openai[1] ?? 'invalid_request';
      const error = { type: 'error', code, message, param: null };
      const failed = {
        type: 'response.failed',
        response: { object: 'response', status: 'failed', error: { code, message }, output: [] },
      };
      // Some clients know the first event alone, others the second alone.
      return [error, failed]
        .map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
        .join('');
    }
  }
}
