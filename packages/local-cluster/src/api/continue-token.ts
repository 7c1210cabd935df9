import { isObject, numberAt, stringAt, type Json } from '../json/json.ts';
import { badRequest } from './status-error.ts';

export interface ContinueToken {
  /**
   * Version of the continued list. Undefined: this version has expired, and the list continues with
   * the current state.
   */
  readonly version: number | undefined;
  /** Key of the last object that the server has sent. */
  readonly after: string;
}

export const encodeContinue = ({ version, after }: ContinueToken): string =>
  Buffer.from(JSON.stringify({ v: version ?? -1, k: after })).toString('base64url');

/** @throws StatusError 400 for a text that is not a continue token of this server */
export function decodeContinue(text: string): ContinueToken {
  try {
    const token = JSON.parse(Buffer.from(text, 'base64url').toString()) as Json;
    const version = numberAt(token, 'v');
    const after = stringAt(token, 'k');
    if (isObject(token) && version !== undefined && after !== undefined)
      return { version: version === -1 ? undefined : version, after };
  } catch {
    // The error follows below.
  }
  throw badRequest(
    'invalid continue token: continue key is not valid: the token does not come from this server',
  );
}
