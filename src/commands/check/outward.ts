import { connectFailureOf, type ConnectFailure } from './outward-requests.ts';
import { errorOf, FindingCode, outcomeOf, type Finding } from './finding.ts';
import { withValue, type Check, type Installation } from './scene.ts';

/** One host outside the cluster, and the failure of a request to the host. */
export interface Reached {
  /** Origin of the host. */
  readonly origin: string;
  readonly what: string;
  readonly proxy: string | undefined;
  /** Undefined: the host has answered. */
  readonly failure: ConnectFailure | undefined;
}

const withProxy = (installation: Installation): string =>
  withValue(installation, '--set proxy.https=http://PROXY:3128');

/** `proxy.https` takes no password, since every command of an agent could read it. */
function withSecretProxy(installation: Installation): string {
  const variable =
    '{"name":"HTTPS_PROXY","valueFrom":{"secretKeyRef":{"name":"outward-proxy","key":"url"}}}';
  const settings = ['operator', 'gateway'].map((part) => `--set-json '${part}.env=[${variable}]'`);
  return `${withValue(installation, settings.join(' '))} # the entry url of the Secret outward-proxy has http://USER:PASSWORD@PROXY:3128`;
}

function findingOf(
  { origin, what, proxy, failure }: Reached,
  installation: Installation,
): Finding | undefined {
  if (failure === undefined) return undefined;
  const { kind, detail } = failure;
  const breaks = `Starts, clones, pushes and archives that need ${what} fail.`;
  const through = proxy === undefined ? '' : ` through the proxy ${proxy}`;
  switch (kind) {
    case 'certificate':
      return errorOf(FindingCode.certificateUntrusted, {
        cause: `The certificate of ${origin}${through} is signed by a CA that is not trusted (${detail}).`,
        breaks,
        mend: `${withValue(installation, '--set trust.configMap=company-ca')} # the entry ca.crt of the ConfigMap company-ca, in the namespaces of the release and of the sandboxes, has the CA`,
      });
    case 'proxy':
      return errorOf(FindingCode.proxyRefused, {
        cause: `A request to ${origin} ends at the proxy ${proxy ?? ''} (${detail}).`,
        breaks,
        mend:
          detail === 'PROXY_AUTHENTICATION'
            ? withSecretProxy(installation)
            : withProxy(installation),
      });
    case 'name':
    case 'unreachable':
      return errorOf(FindingCode.hostUnreachable, {
        cause: `${origin} of ${what} can not be reached${through} (${detail})${proxy === undefined ? ', and no proxy is set' : ''}.`,
        breaks,
        mend: withProxy(installation),
      });
  }
}

/** Pure. */
export const outwardFindings = (
  reached: readonly Reached[],
  installation: Installation,
): readonly Finding[] => reached.flatMap((each) => findingOf(each, installation) ?? []);

export const outwardCheck: Check = {
  name: 'outward',
  limitMs: 20_000,
  needsApiServer: false,
  run: async (scene, signal) => {
    const { gitHosts, bucket, outward } = scene;
    const hosts = [
      ...Object.entries(gitHosts).map(([provider, url]) => ({
        ...{ url, what: `the git host ${provider}` },
      })),
      ...(bucket === undefined ? [] : [{ url: bucket.url, what: `the bucket ${bucket.name}` }]),
    ].filter(({ url }) => /^https?:/.test(url));
    const reached = await Promise.all(
      hosts.map(async ({ url, what }): Promise<Reached> => {
        const { origin } = new URL(url);
        const proxy = outward.proxyOf(new URL(url));
        try {
          // Any status is an answer: the base of a store often is one of 403.
          await outward.status(new URL('/', origin), { signal });
          return { origin, what, proxy, failure: undefined };
        } catch (error) {
          signal.throwIfAborted();
          return { origin, what, proxy, failure: connectFailureOf(error) };
        }
      }),
    );
    const origins = reached.map(
      ({ origin, proxy }) => `${origin}${proxy === undefined ? '' : ` by ${proxy}`}`,
    );
    return outcomeOf(
      outwardFindings(reached, scene),
      origins.length === 0 ? 'no host outside is set' : `reached: ${origins.join(', ')}`,
    );
  },
};
