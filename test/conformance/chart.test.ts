import { randomBytes } from 'node:crypto';
import { helmVersions, type HelmVersion } from '../../helm/tools/binaries.ts';
import { chartFolder, helm } from '../../helm/tools/render.ts';
import { isReal, useServer } from '../../packages/local-cluster/test/conformance/support/server.ts';

// The embedded control plane answers the lookups of Helm too; but Helm asks it for kinds that
// it does not have.
const ofRealServers = isReal ? describe : describe.skip;

ofRealServers(
  'the chart, where an earlier version had the sandboxes in the namespace of the release',
  () => {
    const server = useServer();
    const values = (sandboxes: object) => JSON.stringify({ crds: { install: false }, sandboxes });
    const render = (version: HelmVersion, namespace: string, sandboxes: object) => {
      const kubeconfig = ['--kubeconfig', process.env['CONFORMANCE_KUBECONFIG'] ?? ''];
      const args = [
        'install',
        'conversation-operator',
        chartFolder,
        '--dry-run=server',
        '--namespace',
        namespace,
        '--values',
        '-',
      ];
      return helm(version, [...args, ...kubeconfig], values(sandboxes));
    };
    const make = async (object: object) => {
      const { code, stderr } = await server().kubectl(
        ['create', '-f', '-'],
        JSON.stringify(object),
      );
      if (code !== 0) throw new Error(stderr);
    };
    const leftBy: Readonly<Record<string, object>> = {
      'a release that is installed': {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'Role',
        metadata: { name: 'conversation-operator-operator-lease' },
      },
      'a release that was uninstalled': {
        apiVersion: 'conversation-operator.dev/v1alpha1',
        kind: 'SandboxTemplate',
        metadata: { name: 'default' },
        spec: { podTemplate: {} },
      },
    };

    it.each(helmVersions)(
      'makes a namespace for them where nothing is left, by Helm %i',
      async (version) => {
        const namespace = `fresh-${randomBytes(4).toString('hex')}`;
        expect(await render(version, namespace, {})).toContain(`name: "${namespace}-sandboxes"`);
      },
    );

    it.each(Object.keys(leftBy))(
      'refuses to abandon the resources left by %s, and proceeds when a value allows it',
      async (name) => {
        const { namespace } = server();
        const { kind, metadata } = leftBy[name] as { kind: string; metadata: { name: string } };
        // Annotations by which Helm marks the objects of a release.
        const annotations = {
          'meta.helm.sh/release-name': 'conversation-operator',
          'meta.helm.sh/release-namespace': namespace,
        };
        await make({
          ...leftBy[name],
          metadata: {
            ...metadata,
            labels: { 'app.kubernetes.io/managed-by': 'Helm' },
            annotations,
          },
        });
        try {
          for (const version of helmVersions) {
            await expect(render(version, namespace, {})).rejects.toThrow(
              `set sandboxes.namespace=${namespace} to keep them there`,
            );
            expect(await render(version, namespace, { namespace })).not.toContain(
              `${namespace}-sandboxes`,
            );
          }
        } finally {
          await server().kubectl(['delete', kind, metadata.name]);
        }
      },
    );
  },
);
