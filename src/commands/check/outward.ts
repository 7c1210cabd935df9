import {
  outcomeOf,
  errorOf,
  FindingCode,
  type Finding,
  type Check,
  withValue,
  type Installation,
} from './check.ts';
import { connectFailureOf, type ConnectFailure } from './outward-requests.ts';
import { trustFileFindings } from './trust.ts';

/** The answer may be that of the proxy or that of the host. */
interface Doubt {
  readonly kind: 'doubt';
  readonly status: number;
}

interface Reached {
  readonly origin: string;
  readonly what: string;
  readonly proxy: string | undefined;
  /** Undefined: the host has answered. */
  readonly failure: ConnectFailure | Doubt | undefined;
}

const isSecure = (origin: string): boolean => origin.startsWith('https:');

function authorityOf(url: string): string {
  const { hostname, port, protocol } = new URL(url);
  return `${hostname}:${port || (protocol === 'https:' ? '443' : '80')}`;
}

const withProxy = (origin: string, installation: Installation): string =>
  withValue(installation, `--set proxy.${isSecure(origin) ? 'https' : 'http'}=http://PROXY:3128`);

/** The value `proxy` takes no password, because all commands of an agent could read the value. */
function withSecretProxy(origin: string, installation: Installation): string {
  const name = isSecure(origin) ? 'HTTPS_PROXY' : 'HTTP_PROXY';
  const variable = `{"name":"${name}","valueFrom":{"secretKeyRef":{"name":"outward-proxy","key":"url"}}}`;
  const settings = ['operator', 'gateway'].map((part) => `--set-json '${part}.env=[${variable}]'`);
  return `${withValue(installation, settings.join(' '))} # the entry url of the Secret outward-proxy has http://USER:PASSWORD@PROXY:3128`;
}

function withoutProxy(origin: string, installation: Installation): string {
  const name = new URL(origin).hostname.replace(/^\[|\]$/g, '');
  return `${withValue(installation, `--set-json 'proxy.noProxy=["${name}"]'`)} # where the host is reached directly; else the proxy has to permit and to reach ${authorityOf(origin)}`;
}

/** Faults of the certificate itself. With any other code, the issuer is not trusted. */
const certificateFaults: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: 'has expired',
  CERT_NOT_YET_VALID: 'is not valid yet',
  ERR_TLS_CERT_ALTNAME_INVALID: 'is for another name',
};

interface Context {
  readonly breaks: string;
  readonly installation: Installation;
}

function certificateFinding(
  { origin, proxy }: Reached,
  { detail, of }: Extract<ConnectFailure, { readonly kind: 'certificate' }>,
  { breaks, installation }: Context,
): Finding {
  const isOfProxy = of === 'proxy' && proxy !== undefined;
  const server = isOfProxy ? proxy : origin;
  const way = isOfProxy ? undefined : proxy;
  const owner = `${isOfProxy ? 'the proxy ' : ''}${server}${way === undefined ? '' : ` through the proxy ${way}`}`;
  const fault = certificateFaults[detail];
  const option = way === undefined ? '' : ` -proxy ${authorityOf(way)}`;
  return errorOf(FindingCode.certificateUntrusted, {
    cause: `The certificate of ${owner} ${fault ?? 'is signed by a CA that is not trusted'} (${detail}).`,
    breaks,
    remedy:
      fault === undefined
        ? `${withValue(installation, '--set trust.configMap=company-ca')} # the entry ca.crt of the ConfigMap company-ca, in the namespaces of the release and of the sandboxes, has the CA`
        : `openssl s_client -connect ${authorityOf(server)}${option} </dev/null | openssl x509 -noout -dates -ext subjectAltName # the server needs one that is valid now, and for this name`,
  });
}

function proxyFinding(
  { origin, what, proxy = '' }: Reached,
  { detail, message }: Extract<ConnectFailure, { readonly kind: 'proxy' }>,
  { breaks, installation }: Context,
): Finding {
  const cause = `A request to ${origin} of ${what} ends at the proxy ${proxy}. ${message}.`;
  switch (detail) {
    case 'PROXY_AUTHENTICATION':
      return errorOf(FindingCode.proxyRefused, {
        cause,
        breaks,
        remedy: withSecretProxy(origin, installation),
      });
    case 'PROXY_REFUSED':
      return errorOf(FindingCode.proxyRefused, {
        cause,
        breaks,
        remedy: withoutProxy(origin, installation),
      });
    case 'PROXY_GATEWAY':
      return errorOf(FindingCode.hostUnreachable, {
        cause,
        breaks,
        remedy: withoutProxy(origin, installation),
      });
    case 'PROXY_UNREACHABLE':
    case 'PROXY_TIMEOUT':
      return errorOf(FindingCode.proxyUnreachable, {
        cause,
        breaks,
        remedy: withProxy(origin, installation),
      });
  }
}

function findingOf(reached: Reached, installation: Installation): Finding | undefined {
  const { origin, what, proxy, failure } = reached;
  if (failure === undefined) return undefined;
  const breaks = `Starts, clones, pushes and archives that need ${what} fail.`;
  switch (failure.kind) {
    case 'certificate':
      return certificateFinding(reached, failure, { breaks, installation });
    case 'proxy':
      return proxyFinding(reached, failure, { breaks, installation });
    case 'doubt':
      // A host that answers 403 is reachable.
      return failure.status < 500
        ? undefined
        : errorOf(FindingCode.hostUnreachable, {
            cause: `The answer to a request to ${origin} of ${what} through the proxy ${proxy ?? ''} is ${failure.status}. A proxy that does not reach the host answers so, and so does a host that fails; the answer does not say which of the two.`,
            breaks,
            remedy: withoutProxy(origin, installation),
          });
    case 'name':
    case 'unreachable':
      return errorOf(FindingCode.hostUnreachable, {
        cause: `${origin} of ${what} can not be reached${proxy === undefined ? '' : ` through the proxy ${proxy}`} (${failure.detail})${proxy === undefined ? ', and no proxy is set' : ''}.`,
        breaks,
        remedy: withProxy(origin, installation),
      });
  }
}

export const outwardFindings = (
  reached: readonly Reached[],
  installation: Installation,
): readonly Finding[] => reached.flatMap((each) => findingOf(each, installation) ?? []);

/** The hosts whose answer does not show whether the request reached them. Pure function. */
export const outwardDoubts = (reached: readonly Reached[]): readonly string[] =>
  reached.flatMap(({ origin, proxy, failure }) =>
    failure?.kind === 'doubt' && failure.status < 500
      ? [
          `${origin} or the proxy ${proxy ?? ''} answers ${failure.status}: the host, or a proxy that forbids the host; curl -v -x ${proxy ?? ''} ${origin}/ shows whose text the answer has`,
        ]
      : [],
  );

export const outwardCheck: Check = {
  name: 'outward',
  limitMs: 20_000,
  needsApiServer: false,
  run: async (scene, signal) => {
    const { gitHosts, bucket, outward } = scene;
    const hosts = [
      ...Object.entries(gitHosts).map(([provider, url]) => ({
        url,
        what: `the git host ${provider}`,
      })),
      ...(bucket === undefined ? [] : [{ url: bucket.url, what: `the bucket ${bucket.name}` }]),
    ].filter(({ url }) => /^https?:/.test(url));
    const reached = await Promise.all(
      hosts.map(async ({ url, what }): Promise<Reached> => {
        const { origin } = new URL(url);
        const proxy = outward.proxyOf(new URL(url));
        try {
          // Any status of the host proves that the host is reachable. Stores often answer 403 here.
          const { status, sender } = await outward.ask(new URL('/', origin), { signal });
          const failure = sender === 'host' ? undefined : ({ kind: 'doubt', status } as const);
          return { origin, what, proxy, failure };
        } catch (error) {
          signal.throwIfAborted();
          return { origin, what, proxy, failure: connectFailureOf(error) };
        }
      }),
    );
    const findings = [...trustFileFindings(scene), ...outwardFindings(reached, scene)];
    if (reached.length === 0) return outcomeOf(findings, 'no host outside is set');
    const origins = reached.flatMap(({ origin, proxy, failure }) =>
      failure === undefined ? [`${origin}${proxy === undefined ? '' : ` by ${proxy}`}`] : [],
    );
    const observed = origins.length === 0 ? '' : `reached: ${origins.join(', ')}`;
    return outcomeOf(findings, observed, outwardDoubts(reached));
  },
};
