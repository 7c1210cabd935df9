import type { Clock } from '@conversation-operator/base/clock';
import { type Outward, directly } from '@conversation-operator/outward/outward';
import {
  callForCredentials,
  codeOfStatus,
  credentialsOfJson,
  isCredential,
  readCredentialFile,
  type CredentialProvider,
  credentialsOf,
} from './credentials.ts';
import { StoreError, type StoreErrorCode } from './object-store.ts';
import { oneLine, withoutSecrets } from './s3-errors.ts';
import { readXml, textAt, type XmlElement } from './xml.ts';

export interface ContainerCredentialsOptions {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly outward: Outward;
}

const containerService = 'The credential service of the container';

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
      method: 'GET',
      url,
      headers,
      clock,
      timeoutMs,
      service: containerService,
      outward,
    });
    if (status !== 200)
      throw new StoreError(codeOfStatus(status), `${containerService} answers ${status}`);
    return credentialsOfJson(body, containerService);
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

interface InstanceCredentialsOptions {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly metadataUrl?: string | undefined;
  readonly clock: Clock;
  readonly timeoutMs: number;
}

const metadataService = 'The metadata service of the instance';
const defaultMetadataUrl = 'http://169.254.169.254';
const tokenLifetimeSeconds = 300;

/**
 * Credentials of the role of an EC2 instance, by version 2 of its metadata service. Undefined:
 * AWS_EC2_METADATA_DISABLED is true. Pods reach the service only where its limit of hops is 2.
 */
export function instanceCredentials({
  environment,
  metadataUrl = environment['AWS_EC2_METADATA_SERVICE_ENDPOINT'] ?? defaultMetadataUrl,
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
      method,
      url,
      headers,
      clock,
      timeoutMs,
      service: metadataService,
      // The service is the machine's, whatever its address: a proxy would give others its role.
      outward: directly,
    });
    if (status === 404) throw new StoreError('denied', `${metadataService} has no role`);
    if (status !== 200)
      throw new StoreError(codeOfStatus(status), `${metadataService} answers ${status}`);
    return body;
  };

  return async () => {
    const token = await ask('PUT', 'api/token', {
      'x-aws-ec2-metadata-token-ttl-seconds': String(tokenLifetimeSeconds),
    });
    const value = token?.toString('latin1').trim();
    if (!isCredential(value))
      throw new StoreError('unavailable', `${metadataService} has answered no valid token`);
    const headers = { 'x-aws-ec2-metadata-token': value };
    const roles = await ask('GET', 'meta-data/iam/security-credentials/', headers);
    const role = roles?.toString('latin1').split('\n')[0]?.trim() ?? '';
    if (!/^[\w+=,.@-]{1,64}$/.test(role))
      throw new StoreError('denied', `${metadataService} has no role`);
    const found = await ask('GET', `meta-data/iam/security-credentials/${role}`, headers);
    return credentialsOfJson(found, metadataService);
  };
}

interface WebIdentityOptions {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly region?: string | undefined;
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly outward: Outward;
}

const service = 'The security token service';
const sessionName = 'conversation-operator';
const lifetimeSeconds = 3600;

/**
 * Credentials of a role, for the token of a service account (IAM roles for service accounts):
 * AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE. Undefined: the environment has no such role. The
 * file is read for each request, because the kubelet renews the token.
 */
export function webIdentityCredentials(
  options: WebIdentityOptions,
): CredentialProvider | undefined {
  const { environment, clock, timeoutMs, outward } = options;
  const { AWS_ROLE_ARN: roleArn = '', AWS_WEB_IDENTITY_TOKEN_FILE: file = '' } = environment;
  if (roleArn === '' || file === '') return undefined;
  return async () => {
    const url = stsUrl(options);
    const token = (await readCredentialFile(file)) ?? '';
    if (token === '')
      throw new StoreError(
        'denied',
        `The file ${file} of AWS_WEB_IDENTITY_TOKEN_FILE has no token`,
      );
    const body = new URLSearchParams({
      Action: 'AssumeRoleWithWebIdentity',
      Version: '2011-06-15',
      RoleArn: roleArn,
      RoleSessionName: environment['AWS_ROLE_SESSION_NAME'] ?? sessionName,
      WebIdentityToken: token,
      DurationSeconds: String(lifetimeSeconds),
    }).toString();
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const answer = await callForCredentials({
      method: 'POST',
      url,
      headers,
      body,
      clock,
      timeoutMs,
      service,
      outward,
    });
    const root = readXml(answer.body?.toString('utf8') ?? '');
    if (answer.status !== 200) throw errorOf(answer.status, root, token);
    const at = (name: string) =>
      root && textAt(root, 'AssumeRoleWithWebIdentityResult', 'Credentials', name)?.trim();
    return credentialsOf(
      {
        accessKeyId: at('AccessKeyId'),
        secretAccessKey: at('SecretAccessKey'),
        sessionToken: at('SessionToken'),
        expiration: at('Expiration'),
      },
      service,
    );
  };
}

/** The endpoint of the region, as all newer SDKs have it, unless the environment names another. */
export function stsUrl({
  environment,
  region: given,
}: Pick<WebIdentityOptions, 'environment' | 'region'>): URL {
  const region = given ?? environment['AWS_REGION'] ?? environment['AWS_DEFAULT_REGION'] ?? '';
  const isGlobal = region === '' || environment['AWS_STS_REGIONAL_ENDPOINTS'] === 'legacy';
  const regional = `https://sts.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`;
  const ordinary = isGlobal ? 'https://sts.amazonaws.com' : regional;
  const url = URL.parse(environment['AWS_ENDPOINT_URL_STS'] ?? ordinary);
  if (url === null || !['http:', 'https:'].includes(url.protocol))
    throw new StoreError('invalid', 'AWS_ENDPOINT_URL_STS is no URL of http or https');
  return url;
}

/** STS answers 400 also for what passes. */
const codes: ReadonlyMap<string, StoreErrorCode> = new Map([
  ['IDPCommunicationError', 'unavailable'],
  ['Throttling', 'throttled'],
  ['ThrottlingException', 'throttled'],
  ['RequestLimitExceeded', 'throttled'],
]);

function errorOf(status: number, root: XmlElement | undefined, token: string): StoreError {
  const stsCode = oneLine((root && textAt(root, 'Error', 'Code')) ?? '');
  const message = (root && textAt(root, 'Error', 'Message')) ?? '';
  const detail = [stsCode, oneLine(withoutSecrets(message, [token]))].filter((text) => text !== '');
  return new StoreError(
    codes.get(stsCode) ?? codeOfStatus(status),
    [`${service} answers ${status}`, ...detail].join(': '),
  );
}
