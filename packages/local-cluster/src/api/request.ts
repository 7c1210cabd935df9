import type { WatchStream } from '../storage/changes.ts';
import type { ApiResource } from '../registry/api-resource.ts';
import type { Meta } from './api-object.ts';
import { detailsOf, type StatusError } from './status-error.ts';

export interface PlaneRequest {
  readonly method: string;
  readonly path: string;
  readonly query?: URLSearchParams;
  /** Headers by lower-case name. */
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly body?: string;
  /** Aborted when the client no longer waits for the response. */
  readonly signal?: AbortSignal;
}

export interface PlaneResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** A text, or a stream of texts (watch) or bytes (log). Its iterator's `return` ends a stream. */
  readonly body: string | WatchStream | AsyncIterable<Uint8Array>;
}

export interface ResourcePath {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  /** Undefined: all namespaces, or a cluster-scoped kind. */
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  readonly subresource: string | undefined;
}

/** Parses `/api/v1/…` and `/apis/{group}/{version}/…`; undefined for other paths. */
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
  // In `/namespaces/x/status`, the namespace is the object, and `status` its subresource.
  if (
    first === 'namespaces' &&
    namespace !== undefined &&
    plural !== undefined &&
    plural !== 'status' &&
    plural !== 'finalize'
  ) {
    return { group, version, plural, namespace, name, subresource };
  }
  return {
    group,
    version,
    plural: first ?? '',
    namespace: undefined,
    name: rest[1],
    subresource: rest[2],
  };
}

const json = 'application/json';

export const jsonResponse = (status: number, body: unknown, contentType = json): PlaneResponse => ({
  status,
  headers: { 'content-type': contentType },
  body: JSON.stringify(body),
});

export const textResponse = (status: number, body: string): PlaneResponse => ({
  status,
  headers: { 'content-type': 'text/plain; charset=utf-8' },
  body,
});

export function errorResponse(error: StatusError): PlaneResponse {
  const response = jsonResponse(error.code, error.status);
  const retryAfter = error.details?.retryAfterSeconds;
  return retryAfter === undefined
    ? response
    : { ...response, headers: { ...response.headers, 'retry-after': String(retryAfter) } };
}

/** Response to a completed deletion, for kinds whose deleted object is not returned. */
export const deletedStatus = (resource: ApiResource, { name, uid }: Meta) => ({
  kind: 'Status',
  apiVersion: 'v1',
  metadata: {},
  status: 'Success',
  details: { ...detailsOf(resource, name), uid },
});
