import { readFileSync } from 'node:fs';
import { apply, kubectl } from '../../e2e/support/cluster.ts';
import { agentImage } from '../../e2e/support/installation.ts';
import { addresses, publicNames } from './places.ts';

export interface DnsPods {
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly port: number;
}

/** The DNS of most clusters. */
export const usualDns: DnsPods = {
  namespace: 'kube-system',
  labels: { 'k8s-app': 'kube-dns' },
  port: 53,
};
export const openShiftDns: DnsPods = {
  namespace: 'openshift-dns',
  labels: { 'dns.operator.openshift.io/daemonset-dns': 'default' },
  port: 5353,
};

/** Starts the DNS of the cluster; returns what ends it. */
export async function startDns({ namespace, labels, port }: DnsPods): Promise<() => Promise<void>> {
  const name = 'dns';
  const metadata = { name, namespace };
  const { repository, tag } = agentImage();
  const program = readFileSync(new URL('dns-server.ts', import.meta.url), 'utf8');
  await apply(
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } },
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: `${name}-${namespace}` },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'view' },
      subjects: [{ kind: 'ServiceAccount', ...metadata }],
    },
    { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { 'dns-server.ts': program } },
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata,
      spec: {
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: {
            serviceAccountName: name,
            dnsPolicy: 'Default',
            terminationGracePeriodSeconds: 0,
            containers: [
              {
                name,
                image: `${repository}:${tag}`,
                command: [
                  ...['/usr/local/bin/node', '/dns/dns-server.ts', String(port)],
                  ...publicNames,
                ],
                // For ports below 1024.
                securityContext: { runAsUser: 0 },
                readinessProbe: { tcpSocket: { port }, periodSeconds: 1 },
                volumeMounts: [{ name, mountPath: '/dns' }],
              },
            ],
            volumes: [{ name, configMap: { name } }],
          },
        },
      },
    },
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata,
      spec: {
        clusterIP: addresses.dns,
        selector: labels,
        ports: ['UDP', 'TCP'].map((protocol) => ({
          name: protocol.toLowerCase(),
          port: 53,
          targetPort: port,
          protocol,
        })),
      },
    },
  );
  await kubectl(`-n ${namespace} rollout status deployment ${name} --timeout 60s`);
  return async () => {
    await kubectl(`-n ${namespace} delete deployment,service,configmap ${name}`);
  };
}
