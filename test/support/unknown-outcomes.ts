import { ApiError, TransportError } from '@conversation-operator/kube/errors';

/** Failures of a write that the API server may have executed. */
export const unknownOutcomes: readonly (readonly [string, () => Error])[] = [
  ['a lost connection', () => new TransportError('socket hang up')],
  ['status 500', () => new ApiError(500, { message: 'etcdserver: request timed out' })],
  ['status 502 of a proxy', () => new ApiError(502, {})],
  ['status 504', () => new ApiError(504, { reason: 'Timeout', message: 'request timed out' })],
];

/** Failures of a write that the API server has not executed. */
export const knownOutcomes: readonly (readonly [string, () => Error])[] = [
  ['no connection', () => new TransportError('connect ECONNREFUSED', { sent: false })],
  ['status 403', () => new ApiError(403, { reason: 'Forbidden' })],
  ['status 422', () => new ApiError(422, { reason: 'Invalid' })],
  ['status 429', () => new ApiError(429, { reason: 'TooManyRequests' })],
];
