import { apply, kubectl, serviceAddress } from './cluster.ts';

export interface ServerOptions {
  readonly namespace: string;
  readonly name: string;
  /** Fields of the one container, beside its name; it listens at port 8080. */
  readonly container: Readonly<Record<string, unknown>>;
  readonly volumes?: readonly object[];
}

/** A server in the cluster, once it is ready; returns its base URL. */
export async function startServer({
  namespace,
  name,
  container,
  volumes = [],
}: ServerOptions): Promise<string> {
  const labels = { app: name };
  const metadata = { name, namespace, labels };
  await apply(
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata,
      spec: {
        selector: { matchLabels: labels },
        template: {
          metadata: { labels },
          spec: {
            automountServiceAccountToken: false,
            containers: [{ name, ...container }],
            volumes,
          },
        },
      },
    },
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata,
      spec: { selector: labels, ports: [{ port: 8080 }] },
    },
  );
  await kubectl(`--namespace ${namespace} rollout status deployment ${name} --timeout=120s`);
  // By address: a cluster of test/cluster resolves no names.
  return `http://${await serviceAddress(namespace, name)}:8080`;
}
