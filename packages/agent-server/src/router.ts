import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';

/** A response other than success. Clients receive `detail` unchanged. */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  readonly status: number;
  readonly detail: unknown;

  constructor(status: number, detail: unknown) {
    super(typeof detail === 'string' ? detail : `status ${status}`);
    this.status = status;
    this.detail = detail;
  }
}

export interface Call {
  readonly request: IncomingMessage;
  readonly url: URL;
  /** Decoded path parameters by name. */
  readonly params: Readonly<Record<string, string>>;
  /** Returns the JSON body; undefined when there is none. */
  body(): Promise<unknown>;
}

/** Content of a file, with the length that the file had when it was opened. */
export interface Download {
  readonly name: string;
  readonly bytes: number;
  /** Closes the file at its end, and when destroyed. */
  readonly content: Readable;
}

export type RouteResponse =
  | { readonly status?: number; readonly body: unknown }
  | { readonly status?: number; readonly download: Download };

export type Handler = (call: Call) => RouteResponse | Promise<RouteResponse>;

interface Route {
  readonly method: string;
  readonly segments: readonly string[];
  readonly handler: Handler;
}

/** Routes by method and path with `:parameters`, as in `GET /api/conversations/:id`. */
export class Router {
  readonly #routes: Route[] = [];

  on(route: `${'GET' | 'POST' | 'PATCH' | 'DELETE'} /${string}`, handler: Handler): void {
    const [method = '', path = ''] = route.split(' ');
    this.#routes.push({ method, segments: segmentsOf(path), handler });
  }

  /** Finds the first registered route. `other-method`: the path exists with another method. */
  find(
    method: string,
    path: string,
  ):
    | { readonly handler: Handler; readonly params: Record<string, string> }
    | 'other-method'
    | undefined {
    const segments = segmentsOf(path);
    let known = false;
    for (const route of this.#routes) {
      const params = match(route.segments, segments);
      if (params === undefined) continue;
      if (route.method === method) return { handler: route.handler, params };
      known = true;
    }
    return known ? 'other-method' : undefined;
  }
}

const segmentsOf = (path: string): readonly string[] =>
  path.split('/').filter((segment) => segment !== '');

function match(
  pattern: readonly string[],
  segments: readonly string[],
): Record<string, string> | undefined {
  if (pattern.length !== segments.length) return undefined;
  const params: Record<string, string> = {};
  for (const [index, part] of pattern.entries()) {
    const segment = segments[index] ?? '';
    if (part.startsWith(':')) params[part.slice(1)] = segment;
    else if (part !== segment) return undefined;
  }
  return params;
}
