/**
 * Every error that a client can get: stable code, HTTP status, title. A published code keeps its
 * meaning.
 */
export const problems = {
  'malformed-json': { status: 400, title: 'The body is not valid JSON' },
  'malformed-request': { status: 400, title: 'The request could not be read' },
  'too-many-ids': { status: 400, title: 'Too many ids' },
  unauthorized: { status: 401, title: 'A valid API key is needed' },
  forbidden: { status: 403, title: 'Not allowed with this key' },
  'clone-ticket-refused': { status: 403, title: 'The ticket does not open this' },
  'repository-access-denied': { status: 403, title: 'No such repository, or no access to it' },
  'not-found': { status: 404, title: 'Not found' },
  'no-device-login': { status: 404, title: 'No login by a code' },
  'route-not-found': { status: 404, title: 'No such endpoint' },
  'method-not-allowed': { status: 405, title: 'Method not allowed' },
  'request-timeout': { status: 408, title: 'The request took too long to arrive' },
  'too-many-keys': { status: 409, title: 'Too many API keys' },
  'key-depth-exceeded': { status: 409, title: 'Too many API keys that follow from each other' },
  'conversation-id-taken': { status: 409, title: 'The conversation id is in use' },
  'wrong-state': { status: 409, title: 'Not possible in the present state' },
  conflict: { status: 409, title: 'Changed by someone else at the same time' },
  'legacy-api-removed': { status: 410, title: 'The legacy interface is switched off' },
  'body-too-large': { status: 413, title: 'The body is too large' },
  'unsupported-media-type': { status: 415, title: 'Unsupported media type' },
  'expectation-failed': { status: 417, title: 'The expectation can not be met' },
  'idempotency-key-reused': {
    status: 422,
    title: 'The idempotency key belongs to another request',
  },
  'branch-not-found': { status: 422, title: 'No such branch or tag' },
  'model-not-allowed': { status: 422, title: 'The sandbox spec does not allow this model' },
  'invalid-request': { status: 422, title: 'The request is not valid' },
  'share-exceeded': { status: 429, title: 'Too much at once of one owner' },
  'rate-limited': { status: 429, title: 'Too many requests' },
  'too-many-attempts': { status: 429, title: 'Too many requests without a valid API key' },
  'message-queue-full': { status: 429, title: 'Too many messages wait for the agent' },
  'conversation-limit-exceeded': { status: 429, title: 'Too many conversations' },
  'stored-bytes-limit-exceeded': { status: 429, title: 'Too much is stored' },
  'sandbox-limit-exceeded': { status: 429, title: 'Too many sandboxes' },
  'quota-exceeded': { status: 429, title: 'No room under the quota' },
  'headers-too-large': { status: 431, title: 'The headers are too large' },
  'sandbox-failed': { status: 502, title: 'The sandbox has failed' },
  'agent-unreachable': { status: 502, title: 'The agent can not be reached' },
  'agent-busy': { status: 503, title: 'Too much at once for one agent' },
  'agent-silent': { status: 503, title: 'The agent has stopped answering' },
  'sandbox-not-running': { status: 503, title: 'The sandbox is not running' },
  'too-many-connections': { status: 503, title: 'Too many connections' },
  'agent-timeout': { status: 504, title: 'The agent did not answer in time' },
  internal: { status: 500, title: 'Internal error' },
  'refused-by-cluster': { status: 503, title: 'The cluster refused it' },
  overloaded: { status: 503, title: 'Too much to do' },
  unavailable: { status: 503, title: 'Temporarily unavailable' },
} as const satisfies Readonly<Record<string, { readonly status: number; readonly title: string }>>;

export type ProblemCode = keyof typeof problems;

export const problemType = (code: ProblemCode): string =>
  `tag:conversation-operator.dev,2026:${code}`;
