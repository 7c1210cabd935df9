import { isObject, numberAt, stringAt, type Json } from '../json/json.ts';
import { badRequest } from './status-error.ts';

export interface ContinueToken {
  /** Of the list that is continued. */
  readonly version: number;
  /** Key of the last object that has been sent. */
  readonly after: string;
}

export const encodeContinue = ({ version, after }: ContinueToken): string =>
  Buffer.from(JSON.stringify({ v: version, k: after })).toString('base64url');

/** @throws StatusError 400 for a text that no list has given out */
export function decodeContinue(text: string): ContinueToken {
  try {
    const token = JSON.parse(Buffer.from(text, 'base64url').toString()) as Json;
    const version = numberAt(token, 'v');
    const after = stringAt(token, 'k');
    if (isObject(token) && version !== undefined && after !== undefined) return { version, after };
  } catch {
    // Said below.
  }
  throw badRequest('continue key is not valid: it was not given out by this server');
}
