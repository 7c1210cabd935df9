import { randomUUID } from 'node:crypto';
import type { RequestHandler } from 'express';
import type { Clock } from '@conversation-operator/kube/clock';
import type { Logger } from '@conversation-operator/kube/logger';
import type { Metrics } from '../../observability/metrics.ts';
import { isWellFormedKey } from '../auth/key.ts';
import type { ClientAddress } from '../limits/client-address.ts';

/** Printable, without anything that a log or a header could take for something else. */
const saneId = /^[A-Za-z0-9._:-]{1,128}$/;

/** The client's own where it is a sane token, else a new one. An API key is none: the id stands in every log line. */
export const requestIdOf = (given: string | string[] | undefined): string =>
  typeof given === 'string' && saneId.test(given) && !isWellFormedKey(given) ? given : randomUUID();

export interface RequestScopeOptions {
  readonly logger: Logger;
  /** One line for each write: who, what, from where, with what outcome. Never a key, nor what a message says. */
  readonly audit: Logger;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly clientAddress: ClientAddress;
}

/** Gives each request its id, and when it is over counts it, logs it, and records a write in the audit. */
export function requestScope({ logger, audit, metrics, clock, clientAddress }: RequestScopeOptions): RequestHandler {
  return (request, response, next) => {
    const began = clock.monotonic();
    // While the connection is there: it may be gone when all is over.
    const client = request.method === 'GET' ? '' : clientAddress(request);
    const requestId = requestIdOf(request.headers['x-request-id']);
    response.locals.requestId = requestId;
    response.setHeader('x-request-id', requestId);
    response.setHeader('x-content-type-options', 'nosniff');
    response.once('close', () => {
      response.locals.leave?.();
      const { route, pattern: label = 'unmatched', principal, target, problem } = response.locals;
      const seconds = (clock.monotonic() - began) / 1000;
      // A client that went away before its answer has no status.
      const status = response.headersSent ? response.statusCode : 0;
      metrics.httpRequests.inc({ method: request.method, route: label, status });
      metrics.httpSeconds.observe({ route: label }, seconds);
      if (logger.enabled('debug')) logger.debug('Request', { requestId, method: request.method, route: label, status, seconds });
      if (route !== undefined && principal !== undefined && route.method !== 'get') {
        audit.info('Write', {
          requestId,
          action: route.operationId,
          owner: principal.owner,
          key: principal.keyName,
          client,
          target,
          status,
          outcome: problem ?? (status === 0 ? 'client-gone' : 'ok'),
        });
      }
    });
    next();
  };
}
