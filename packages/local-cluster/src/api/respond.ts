import type { ApiResource } from '../registry/api-resource.ts';
import type { Meta } from './api-object.ts';
import type { PlaneResponse } from './request.ts';
import { detailsOf, type StatusError } from './status-error.ts';

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

/** Body of a completed deletion for kinds whose object is not returned. */
export const deletedStatus = (resource: ApiResource, { name, uid }: Meta) => ({
  kind: 'Status',
  apiVersion: 'v1',
  metadata: {},
  status: 'Success',
  details: { ...detailsOf(resource, name), uid },
});
