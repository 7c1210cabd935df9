import type { Clock } from '@conversation-operator/base/clock';
import type { Outward } from '@conversation-operator/outward/outward';
import { withDeadline, sendHttp, type HttpAnswer } from './calls.ts';
import { StoreError, unreachable, type StoreErrorCode } from './object-store.ts';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { systemCodeOf } from '@conversation-operator/base/system-code';

export interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
  /** Milliseconds since 1970; undefined: the credentials do not end by themselves. */
  readonly expiresAtMs?: number | undefined;
}

/**
 * Returns credentials, the same object for as long as they are in use. `rejected`: credentials that
 * the store has rejected, in place of which the source gets others, once for all calls that had
 * these. Rejects with a `StoreError`: `denied` when there are none, `unavailable`, `throttled` or
 * `timeout` when they can not be got now.
 */
export type CredentialSource = (rejected?: Credentials) => Promise<Credentials>;

/** Where credentials come from: a file, or a service. Each call gets them anew. */
export type CredentialProvider = () => Promise<Credentials>;

const maxFileBytes = 16 * 1024;

/**
 * Returns the content of a file without white space around it; undefined: there is no such file.
 * Rejects with a `denied` error for a file that can not be read, or is too large.
 */
export async function readCredentialFile(path: string): Promise<string | undefined> {
  try {
    const handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      const { bytesRead, buffer } = await handle.read(Buffer.alloc(maxFileBytes + 1));
      if (bytesRead > maxFileBytes)
        throw new StoreError('denied', `The file ${path} is larger than ${maxFileBytes} bytes`);
      return buffer.toString('utf8', 0, bytesRead).trim();
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (error instanceof StoreError) throw error;
    const code = systemCodeOf(error) ?? 'an unknown error';
    if (code === 'ENOENT') return undefined;
    throw new StoreError('denied', `The file ${path} can not be read: ${code}`, { cause: error });
  }
}

interface CredentialCall {
  readonly method: 'GET' | 'PUT' | 'POST';
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly clock: Clock;
  readonly timeoutMs: number;
  /** Service that is called, as messages name it. */
  readonly service: string;
  readonly outward: Outward;
}

const maxAnswerBytes = 64 * 1024;

/**
 * Calls a service for credentials, over a connection of its own: there is a call for each hour.
 * Rejects with a `StoreError` when there is no whole answer.
 */
export async function callForCredentials(call: CredentialCall): Promise<HttpAnswer> {
  const { method, url, headers = {}, body, clock, timeoutMs, service, outward } = call;
  const dispatcher = outward.pool({ connections: 1, connectTimeoutMs: timeoutMs });
  try {
    return await withDeadline({ clock, timeoutMs, subject: service }, (signal) =>
      sendHttp({ dispatcher, method, url, headers, body, signal, maxBytes: () => maxAnswerBytes }),
    );
  } catch (error) {
    if (error instanceof StoreError) throw error;
    throw unreachable(service, error);
  } finally {
    await dispatcher.destroy();
  }
}

/** Code of the error for an answer other than a success. */
export function codeOfStatus(status: number): StoreErrorCode {
  if (status === 429) return 'throttled';
  return status >= 500 || status === 408 ? 'unavailable' : 'denied';
}

/** Fields of credentials as services answer them. */
interface CredentialFields {
  readonly accessKeyId: unknown;
  readonly secretAccessKey: unknown;
  readonly sessionToken: unknown;
  /** A time of RFC 3339. */
  readonly expiration: unknown;
}

/** Returns the credentials of an answer, or rejects it with an `unavailable` error. */
export function credentialsOf(fields: CredentialFields, service: string): Credentials {
  const { accessKeyId, secretAccessKey, sessionToken, expiration } = fields;
  const expiresAtMs = typeof expiration === 'string' ? Date.parse(expiration) : NaN;
  const areValid =
    isCredential(accessKeyId) && isCredential(secretAccessKey) && isCredential(sessionToken);
  if (!areValid || Number.isNaN(expiresAtMs))
    throw new StoreError('unavailable', `${service} has answered no valid credentials`);
  return { accessKeyId, secretAccessKey, sessionToken, expiresAtMs };
}

/** Whether a value may be in a header. */
export const isCredential = (value: unknown): value is string =>
  typeof value === 'string' && /^[\x21-\x7e]{1,16384}$/.test(value);

/** The same for an answer in JSON, as containers and instances get it. */
export function credentialsOfJson(body: Buffer | undefined, service: string): Credentials {
  const fields = fieldsOf(body);
  return credentialsOf(
    {
      accessKeyId: fields['AccessKeyId'],
      secretAccessKey: fields['SecretAccessKey'],
      sessionToken: fields['Token'],
      expiration: fields['Expiration'],
    },
    service,
  );
}

/** Returns the fields of a JSON object; none for another text. */
function fieldsOf(body: Buffer | undefined): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(body?.toString('utf8') ?? '');
    return typeof value === 'object' && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}
