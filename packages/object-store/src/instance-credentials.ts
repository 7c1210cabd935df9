import type { Clock } from '@conversation-operator/base/clock';
import { directly } from '@conversation-operator/outward/outward';
import {
  callForCredentials,
  codeOfStatus,
  credentialsOfJson,
  isCredential,
} from './credential-call.ts';
import type { CredentialProvider } from './credentials.ts';
import { StoreError } from './store-error.ts';

export interface InstanceCredentialsOptions {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly metadataUrl?: string | undefined;
  readonly clock: Clock;
  readonly timeoutMs: number;
}

const service = 'The metadata service of the instance';
const defaultUrl = 'http://169.254.169.254';
const tokenLifetimeSeconds = 300;

/**
 * Credentials of the role of an EC2 instance, by version 2 of its metadata service. Undefined:
 * AWS_EC2_METADATA_DISABLED is true. Pods reach the service only where its limit of hops is 2.
 */
export function instanceCredentials({
  environment,
  metadataUrl = environment['AWS_EC2_METADATA_SERVICE_ENDPOINT'] ?? defaultUrl,
  clock,
  timeoutMs,
}: InstanceCredentialsOptions): CredentialProvider | undefined {
  if (environment['AWS_EC2_METADATA_DISABLED']?.toLowerCase() === 'true') return undefined;

  const ask = async (
    method: 'GET' | 'PUT',
    path: string,
    headers: Readonly<Record<string, string>>,
  ): Promise<Buffer | undefined> => {
    const url = URL.parse(`${metadataUrl.replace(/\/$/, '')}/latest/${path}`);
    if (url?.protocol !== 'http:' && url?.protocol !== 'https:')
      throw new StoreError('invalid', 'The URL of the metadata service is none of http or https');
    const { status, body } = await callForCredentials({
      ...{ method, url, headers, clock, timeoutMs, service },
      // The service is the machine's, whatever its address: a proxy would give others its role.
      outward: directly,
    });
    if (status === 404) throw new StoreError('denied', `${service} has no role`);
    if (status !== 200) throw new StoreError(codeOfStatus(status), `${service} answers ${status}`);
    return body;
  };

  return async () => {
    const token = await ask('PUT', 'api/token', {
      'x-aws-ec2-metadata-token-ttl-seconds': String(tokenLifetimeSeconds),
    });
    const value = token?.toString('latin1').trim();
    if (!isCredential(value))
      throw new StoreError('unavailable', `${service} has answered no valid token`);
    const headers = { 'x-aws-ec2-metadata-token': value };
    const roles = await ask('GET', 'meta-data/iam/security-credentials/', headers);
    const role = roles?.toString('latin1').split('\n')[0]?.trim() ?? '';
    if (!/^[\w+=,.@-]{1,64}$/.test(role)) throw new StoreError('denied', `${service} has no role`);
    const found = await ask('GET', `meta-data/iam/security-credentials/${role}`, headers);
    return credentialsOfJson(found, service);
  };
}
