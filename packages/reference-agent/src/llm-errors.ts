import type { Classification } from './events.ts';
import { RunFailure } from './program.ts';

interface Failure {
  readonly code: string;
  readonly detail: string;
  readonly classification: Classification;
}

const transient: Classification = { kind: 'transient', retryable: true, user_action: 'retry' };
const settings: Classification = { kind: 'config', retryable: false, user_action: 'settings' };

const authentication: Failure = {
  code: 'LLMAuthenticationError',
  detail: 'The API key of the model appears to be invalid.',
  classification: { kind: 'auth', retryable: false, user_action: 'settings' },
};

const byStatus: Readonly<Record<number, Failure>> = {
  401: authentication,
  403: authentication,
  404: {
    code: 'NotFoundError',
    detail: 'The model or its endpoint does not exist.',
    classification: settings,
  },
  429: {
    code: 'LLMRateLimitError',
    detail: 'The model provider limits the number of requests.',
    classification: { kind: 'rate_limit', retryable: true, user_action: 'retry' },
  },
};

const unavailable: Failure = {
  code: 'LLMServiceUnavailableError',
  detail: 'The model cannot be reached.',
  classification: transient,
};

/**
 * Converts an error of a call to the model. The message of the provider is included only when the
 * provider rejects the request itself.
 */
export function llmFailureOf(error: unknown): RunFailure {
  const { code, detail, classification } = failureOf(error);
  return new RunFailure(code, detail, { classification, cause: error });
}

function failureOf(error: unknown): Failure {
  const status =
    error instanceof Error && 'status' in error && typeof error.status === 'number'
      ? error.status
      : undefined;
  if (status === undefined || status >= 500) return unavailable;
  const reason = error instanceof Error ? error.message.slice(0, 500) : '';
  return (
    byStatus[status] ?? {
      code: 'LLMBadRequestError',
      detail: `The model rejected the request: ${reason}`,
      classification: settings,
    }
  );
}
