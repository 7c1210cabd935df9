import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isWellFormedKey } from '../auth/key.ts';

/** Printable characters, none of which a log or a header could take for something else. */
const saneId = /^[A-Za-z0-9._:-]{1,128}$/;

/**
 * The client's own request id where it is a sane token, else a new one. An API key is no id, since
 * every log line has the id.
 */
export function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const given = headers['x-request-id'];
  return typeof given === 'string' && saneId.test(given) && !isWellFormedKey(given)
    ? given
    : randomUUID();
}
