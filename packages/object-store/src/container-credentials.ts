import type { Clock } from '@conversation-operator/base/clock';
import type { Outward } from '@conversation-operator/outward/outward';
import {
  callForCredentials,
  codeOfStatus,
  credentialsOfJson,
  isCredential,
} from './credential-call.ts';
import { readCredentialFile } from './credential-files.ts';
import type { CredentialProvider } from './credentials.ts';
import { StoreError } from './store-error.ts';

export interface ContainerCredentialsOptions {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly outward: Outward;
}

const service = 'The credential service of the container';

/** Addresses of ECS and of EKS Pod Identity. */
const linkLocal: ReadonlySet<string> = new Set([
  ...['169.254.170.2', '169.254.170.23', '[fd00:ec2::23]'],
]);

/**
 * Credentials of EKS Pod Identity and of ECS: AWS_CONTAINER_CREDENTIALS_FULL_URI, or
 * AWS_CONTAINER_CREDENTIALS_RELATIVE_URI, with AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE or
 * AWS_CONTAINER_AUTHORIZATION_TOKEN. Undefined: the environment has none of both URIs.
 */
export function containerCredentials({
  environment,
  clock,
  timeoutMs,
  outward,
}: ContainerCredentialsOptions): CredentialProvider | undefined {
  const {
    AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: path = '',
    AWS_CONTAINER_CREDENTIALS_FULL_URI: full = '',
  } = environment;
  const uri = path === '' ? full : `http://169.254.170.2${path.startsWith('/') ? '' : '/'}${path}`;
  if (uri === '') return undefined;
  return async () => {
    const url = URL.parse(uri);
    if (url === null || !isTrusted(url))
      throw new StoreError(
        'invalid',
        'AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https, nor loopback, nor link-local',
      );
    const token = await tokenOf(environment);
    const headers = { accept: 'application/json', ...(token !== '' && { authorization: token }) };
    const { status, body } = await callForCredentials({
      ...{ method: 'GET', url, headers, clock, timeoutMs, service, outward },
    });
    if (status !== 200) throw new StoreError(codeOfStatus(status), `${service} answers ${status}`);
    return credentialsOfJson(body, service);
  };
}

/** The token opens credentials, so that no network may see it. */
function isTrusted({ protocol, hostname }: URL): boolean {
  if (protocol === 'https:') return true;
  const isLoopback =
    /^127\.\d+\.\d+\.\d+$/.test(hostname) || hostname === '[::1]' || hostname === 'localhost';
  return protocol === 'http:' && (isLoopback || linkLocal.has(hostname));
}

async function tokenOf(environment: Readonly<Record<string, string | undefined>>): Promise<string> {
  const {
    AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: file = '',
    AWS_CONTAINER_AUTHORIZATION_TOKEN: value = '',
  } = environment;
  const token = file === '' ? value : ((await readCredentialFile(file)) ?? '');
  const isToken = isCredential(token.replaceAll(' ', '_'));
  if ((file !== '' || token !== '') && !isToken)
    throw new StoreError('denied', 'AWS_CONTAINER_AUTHORIZATION_TOKEN, or its file, has no token');
  return token;
}
