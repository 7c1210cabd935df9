import type { WatchStream } from '../storage/watch-stream.ts';

/** A request as the control plane sees it, however it came. */
export interface PlaneRequest {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly query?: URLSearchParams;
  /** Names in lower case. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly body?: string;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal?: AbortSignal;
}

export interface PlaneResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** A text, or a stream of texts (watch) or bytes (log) until it ends or its iterator's `return` is called. */
  readonly body: string | WatchStream | AsyncIterable<Uint8Array>;
}

/** What a path of the resource API means. */
export interface ResourcePath {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  /** undefined: of all namespaces, or the kind has none. */
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  readonly subresource: string | undefined;
}

/** `/api/v1/…` and `/apis/{group}/{version}/…`; undefined for any other path, and for those of discovery. */
export function parseResourcePath(path: string): ResourcePath | undefined {
  const parts = path
    .split('/')
    .filter((part) => part !== '')
    .map(decodeURIComponent);
  const core = parts[0] === 'api';
  if (!core && parts[0] !== 'apis') return undefined;
  const [group = '', version = '', ...rest] = core ? ['', ...parts.slice(1)] : parts.slice(1);
  if (rest.length === 0) return undefined;
  const [first, namespace, plural, name, subresource] = rest;
  // A namespace is an object itself, with subresources of its own.
  if (first === 'namespaces' && namespace !== undefined && plural !== undefined && plural !== 'status' && plural !== 'finalize') {
    return { group, version, plural, namespace, name, subresource };
  }
  return { group, version, plural: first ?? '', namespace: undefined, name: rest[1], subresource: rest[2] };
}
