import type { Clock } from '@conversation-operator/base/clock';
import type { Outward } from '@conversation-operator/outward/outward';
import { withDeadline } from './call-deadline.ts';
import { sendHttp, type HttpAnswer } from './http-call.ts';
import type { Credentials } from './credentials.ts';
import { StoreError, unreachable, type StoreErrorCode } from './store-error.ts';

export interface CredentialCall {
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
      sendHttp({
        ...{ dispatcher, method, url, headers, body, signal },
        maxBytes: () => maxAnswerBytes,
      }),
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
export interface CredentialFields {
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
