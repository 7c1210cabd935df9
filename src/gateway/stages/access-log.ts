import type { TrustedProxies } from '@conversation-operator/http/limits/client-address';
import type { Logger } from '@conversation-operator/base/logger';
import type { Clock } from '@conversation-operator/base/clock';
import type { Metrics } from '../../observability/metrics.ts';
import type { RequestHandler } from 'express';
import { requestIdOf } from '../http/send-bytes.ts';

/**
 * Gives each request its id. When the request is over, the stage counts it, logs it, and records a
 * write in the audit: one line with who, what, from where and the outcome. No line has a key or the
 * text of a message.
 */
export function accessLog({
  logger,
  audit,
  metrics,
  clock,
  proxies,
}: {
  readonly logger: Logger;
  readonly audit: Logger;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly proxies: TrustedProxies;
}): RequestHandler {
  return (request, response, next) => {
    const beganMs = clock.monotonic();
    // Taken while the connection exists, which may end before the request does.
    const client = request.method === 'GET' ? '' : proxies.clientAddress(request);
    const requestId = requestIdOf(request);
    response.locals.requestId = requestId;
    response.setHeader('x-request-id', requestId);
    response.setHeader('x-content-type-options', 'nosniff');
    response.once('close', () => {
      response.locals.leave?.();
      const { route, pattern: label = 'unmatched', principal, target, problem } = response.locals;
      const seconds = (clock.monotonic() - beganMs) / 1000;
      // A client that left before its response has no status.
      const status = response.headersSent ? response.statusCode : 0;
      metrics.httpRequests.inc({ method: request.method, route: label, status: String(status) });
      metrics.httpSeconds.observe({ route: label }, seconds);
      if (logger.enabled('debug'))
        logger.debug('Request', {
          requestId,
          method: request.method,
          route: label,
          status,
          seconds,
        });
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
