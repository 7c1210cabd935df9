import { isIP } from 'node:net';
import { systemCodeOf } from '@conversation-operator/base/system-code';
import {
  errorOf,
  FindingCode,
  outcomeOf,
  type Finding,
  withValue,
  type Check,
  type Installation,
  type Scene,
} from './check.ts';

/** A DNS name. `code` is the error code of its resolution; undefined if the name was resolved. */
export interface Resolution {
  readonly name: string;
  readonly code: string | undefined;
  /** The host's purpose within a sentence, for example "the git host github". */
  readonly what: string;
  /** Whether only the DNS of the cluster knows the name. */
  readonly isOfCluster?: boolean;
}

export const dnsFindings = (
  resolutions: readonly Resolution[],
  installation: Installation,
): readonly Finding[] =>
  resolutions.flatMap(({ name, code, what, isOfCluster = false }) =>
    code === undefined
      ? []
      : [
          errorOf(FindingCode.nameNotResolved, {
            cause: `The name ${name} of ${what} can not be resolved (${code}).`,
            breaks: isOfCluster
              ? 'Agents do not reach the Service of the gateway by its name.'
              : `Nothing reaches ${what}.`,
            remedy:
              code !== 'ENOTFOUND'
                ? withValue(installation, "--set-json 'networkPolicies.dns=[]'")
                : isOfCluster
                  ? `kubectl -n kube-system get pods -l k8s-app=kube-dns # the kubelets need the address of a DNS that knows ${name}`
                  : `kubectl -n kube-system get configmap coredns -o yaml # ${name} needs a record, or a server that has one`,
          }),
        ],
  );

/** The hosts that this process resolves itself. A proxy resolves the names of other hosts. */
export function hostsOf(scene: Scene): readonly Omit<Resolution, 'code'>[] {
  const { connection, gitHosts, bucket, outward } = scene;
  const urls = [
    ...Object.entries(gitHosts).map(([provider, url]) => ({
      url,
      what: `the git host ${provider}`,
    })),
    ...(bucket === undefined ? [] : [{ url: bucket.url, what: `the bucket ${bucket.name}` }]),
  ].filter(({ url }) => /^https?:/.test(url) && outward.proxyOf(new URL(url)) === undefined);
  const hosts = [{ url: connection.server, what: 'the API server' }, ...urls].map(
    ({ url, what }) => ({ name: new URL(url).hostname.replace(/^\[|\]$/g, ''), what }),
  );
  const inCluster = process.env['KUBERNETES_SERVICE_HOST'] !== undefined;
  return [
    ...hosts.filter(({ name }) => isIP(name) === 0),
    // A pod finds the API server by its environment. Only this name tests the cluster's DNS.
    ...(inCluster
      ? [{ name: 'kubernetes.default.svc', what: 'the API server', isOfCluster: true }]
      : []),
  ];
}

export const dnsCheck: Check = {
  name: 'dns',
  limitMs: 20_000,
  needsApiServer: false,
  run: async (scene) => {
    const hosts = hostsOf(scene);
    if (hosts.length === 0) return outcomeOf([], 'no host is called by a name');
    const resolutions = await Promise.all(
      hosts.map(async (host) => {
        try {
          await scene.resolve(host.name);
          return { ...host, code: undefined };
        } catch (error) {
          const code = systemCodeOf(error);
          if (code === undefined) throw error;
          return { ...host, code };
        }
      }),
    );
    return outcomeOf(
      dnsFindings(resolutions, scene),
      `resolved: ${hosts.map(({ name }) => name).join(', ')}`,
    );
  },
};
