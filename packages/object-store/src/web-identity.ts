import type { Clock } from '@conversation-operator/base/clock';
import type { Outward } from '@conversation-operator/outward/outward';
import {
  callForCredentials,
  codeOfStatus,
  credentialsOf,
  readCredentialFile,
  type CredentialProvider,
} from './credentials.ts';
import { oneLine, withoutSecrets } from './s3-errors.ts';
import { StoreError, type StoreErrorCode } from './store-error.ts';
import { readXml, textAt, type XmlElement } from './xml.ts';

export interface WebIdentityOptions {
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
      ...{ Action: 'AssumeRoleWithWebIdentity', Version: '2011-06-15', RoleArn: roleArn },
      RoleSessionName: environment['AWS_ROLE_SESSION_NAME'] ?? sessionName,
      WebIdentityToken: token,
      DurationSeconds: String(lifetimeSeconds),
    }).toString();
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const answer = await callForCredentials({
      ...{ method: 'POST', url, headers, body, clock, timeoutMs, service, outward },
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
