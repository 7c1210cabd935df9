import { nextPageOf } from './reading.ts';
import { learnTime } from './times.ts';
import type { Problem } from './wire.ts';

/** A request that the gateway has refused, or that has not reached it. The message is for users. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly problem: Partial<Problem>;

  constructor(problem: Partial<Problem>, options?: ErrorOptions) {
    super(problem.detail ?? 'The service has refused the request.', options);
    this.problem = problem;
  }
}

export const messageOf = (error: unknown): string =>
  error instanceof ApiError ? error.message : 'Something in this page has failed. Reload it.';

let isSigningOut = false;
/** After this call, a request without a session does not open the sign-in page. */
export function beginSignOut(): void {
  isSigningOut = true;
}

/**
 * Opens the sign-in page, which returns to the current page. A hidden tab waits until it is
 * visible: of two sign-ins of one browser at once, only the later one can be completed.
 */
export function signIn(): void {
  if (isSigningOut) return;
  if (document.visibilityState === 'hidden') {
    document.body.hidden = true;
    document.addEventListener('visibilitychange', signIn, { once: true });
    return;
  }
  const here = location.pathname + location.search;
  location.assign(`/login?return_to=${encodeURIComponent(here)}`);
}

interface CallOptions {
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  /** Whether the answer is a text, where the request succeeds. */
  readonly isText?: boolean;
}

/** Rejects with an ApiError. Without a session, opens the sign-in page. */
async function respond(
  method: string,
  path: string,
  options: CallOptions = {},
): Promise<{ readonly answer: unknown; readonly headers: Headers }> {
  const { query = {}, body, headers, signal, isText = false } = options;
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== undefined) parameters.set(name, String(value));
  const text = parameters.size === 0 ? path : `${path}?${parameters.toString()}`;
  const response = await fetch(text, {
    method,
    credentials: 'same-origin',
    headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    ...(signal === undefined ? {} : { signal }),
  }).catch((cause: unknown) => {
    throw new ApiError({ detail: 'The service can not be reached.' }, { cause });
  });
  learnTime(response.headers.get('date'));
  const answer: unknown = await (isText && response.ok ? response.text() : response.json()).catch(
    () => undefined,
  );
  if (response.ok) return { answer, headers: response.headers };
  if (response.status === 401) signIn();
  const problem: Partial<Problem> = typeof answer === 'object' && answer !== null ? answer : {};
  throw new ApiError({ status: response.status, ...problem });
}

const call = async (method: string, path: string, options?: CallOptions): Promise<unknown> =>
  (await respond(method, path, options)).answer;

export interface Page<T> {
  readonly items: readonly T[];
  /** The `page_id` of the next page; undefined on the last page. */
  readonly next: string | undefined;
}

/** The gateway validates its responses, so the page does not check them against the types. */
export const api = {
  get: async <T>(path: string, query: CallOptions['query'], signal?: AbortSignal): Promise<T> =>
    (await call('GET', path, {
      ...(query === undefined ? {} : { query }),
      ...(signal === undefined ? {} : { signal }),
    })) as T,
  getCsv: async (path: string, query: NonNullable<CallOptions['query']>): Promise<string> =>
    (await call('GET', path, { query, headers: { accept: 'text/csv' }, isText: true })) as string,
  /** Reads a list whose Link header names the next page. */
  getPage: async <T>(path: string, query: NonNullable<CallOptions['query']>): Promise<Page<T>> => {
    const { answer, headers } = await respond('GET', path, { query });
    return { items: answer as readonly T[], next: nextPageOf(headers.get('link')) };
  },
  post: async <T>(path: string, body: unknown, headers: CallOptions['headers'] = {}): Promise<T> =>
    (await call('POST', path, { body, headers })) as T,
  put: (path: string, body: unknown): Promise<unknown> => call('PUT', path, { body }),
  patch: (path: string, body: unknown): Promise<unknown> => call('PATCH', path, { body }),
  delete: (path: string): Promise<unknown> => call('DELETE', path),
};
