import type { RequestHandler } from 'express';
import type { Services } from '../services.ts';
import { ProblemError } from '../errors/problem-error.ts';

/** RFC 9745: since when the interface has been deprecated, 2025-12-01. */
const deprecation = '@1764547200';
/** RFC 8594: when it was announced to be removed. */
const sunset = 'Wed, 01 Apr 2026 00:00:00 GMT';

const successorPath = '/api/v1/app-conversations';

/**
 * Marks every answer of the legacy interface, whatever its status; where that is switched off there
 * is no other than 410.
 */
export const legacyInterface =
  ({ publicUrl }: Services, isEnabled: boolean): RequestHandler =>
  (_request, response, next) => {
    response.set({
      deprecation,
      sunset,
      link: `<${publicUrl()}${successorPath}>; rel="successor-version"`,
    });
    if (!isEnabled)
      throw new ProblemError(
        'legacy-api-removed',
        `The legacy interface is switched off. Use ${successorPath}.`,
      );
    next();
  };
