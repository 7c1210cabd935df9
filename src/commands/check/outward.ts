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

const withVariable = (installation: Installation, name: string, value: string): string =>
  withValue(installation, `--set-json 'gateway.env=[{"name":"${name}","value":"${value}"}]'`);

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
        mend: withVariable(installation, 'TRUST_FILE', '/etc/trust/ca.pem'),
      });
    case 'proxy':
      return errorOf(FindingCode.proxyRefused, {
        cause: `A request to ${origin} ends at the proxy ${proxy ?? ''} (${detail}).`,
        breaks,
        mend: withVariable(
          installation,
          'HTTPS_PROXY',
          detail === 'PROXY_AUTHENTICATION'
            ? 'http://USER:PASSWORD@PROXY:3128'
            : 'http://PROXY:3128',
        ),
      });
    case 'name':
    case 'unreachable':
      return errorOf(FindingCode.hostUnreachable, {
        cause: `${origin} of ${what} can not be reached${through} (${detail})${proxy === undefined ? ', and no proxy is set' : ''}.`,
        breaks,
        mend: withVariable(installation, 'HTTPS_PROXY', 'http://PROXY:3128'),
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
    return outcomeOf(outwardFindings(reached, scene), `reached: ${origins.join(', ')}`);
  },
};
