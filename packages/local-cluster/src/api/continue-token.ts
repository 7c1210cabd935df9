import { isObject, numberAt, stringAt, type Json } from '../json/json.ts';
import { badRequest } from './status-error.ts';

export interface ContinueToken {
  /** Of the list that is continued; undefined: the list has expired, and goes on with the present state. */
  readonly version: number | undefined;
  /** Key of the last object that has been sent. */
  readonly after: string;
}

export const encodeContinue = ({ version, after }: ContinueToken): string =>
  Buffer.from(JSON.stringify({ v: version ?? -1, k: after })).toString('base64url');

/** @throws StatusError 400 for a text that no list has given out */
export function decodeContinue(text: string): ContinueToken {
  try {
    const token = JSON.parse(Buffer.from(text, 'base64url').toString()) as Json;
    const version = numberAt(token, 'v');
    const after = stringAt(token, 'k');
    if (isObject(token) && version !== undefined && after !== undefined) return { version: version === -1 ? undefined : version, after };
  } catch {
    // Said below.
  }
  throw badRequest('invalid continue token: continue key is not valid: it was not given out by this server');
}
