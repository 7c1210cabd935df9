import { parseAllDocuments, stringify } from 'yaml';
import { z } from 'zod';
import { renderChart } from './render.ts';

const name = 'conversation-operator';
const notice =
  '# Rendered from helm/conversation-operator by `make manifests`. Do not edit; docs/install.md says how to apply.\n';

/**
 * Plain YAML has no generated Secrets: users create them by hand, and the first key by
 * `conversation-operator keys create`.
 */
const values = {
  // Only Helm runs tests.
  check: { enabled: false },
  masterKey: { existingSecret: `${name}-master-key` },
  firstKey: { create: false },
  policies: { enabled: true },
};

const fileOf = (kind: string): string => {
  switch (kind) {
    case 'CustomResourceDefinition':
    case 'Namespace':
      return '1-definitions.yaml';
    case 'ValidatingAdmissionPolicy':
    case 'ValidatingAdmissionPolicyBinding':
    case 'ResourceQuota':
      return '3-guards.yaml';
    default:
      return '2-install.yaml';
  }
};

const textMap = z.record(z.string(), z.string()).optional();
const renderedSchema = z.looseObject({
  kind: z.string(),
  metadata: z.looseObject({ name: z.string(), labels: textMap, annotations: textMap }),
});

/** The map under its name, without what belongs to Helm; nothing when nothing is left. */
function without(field: string, map: Readonly<Record<string, string>>, ...names: string[]): object {
  const left = Object.entries(map).filter(([name]) => !names.includes(name));
  return left.length === 0 ? {} : { [field]: Object.fromEntries(left) };
}

/**
 * The namespace that `helm install --create-namespace` creates; the chart itself creates that of
 * the sandboxes.
 */
const ownNamespace = {
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: {
    name,
    labels: {
      'pod-security.kubernetes.io/enforce': 'restricted',
      'pod-security.kubernetes.io/warn': 'restricted',
    },
  },
};

const documentOf = (resource: object): string =>
  `---\n${stringify(resource, { lineWidth: 0, aliasDuplicateObjects: false })}`;

/** File name → YAML: the chart with its defaults for `kubectl apply`, in the order of the names. */
export async function manifests(): Promise<ReadonlyMap<string, string>> {
  const rendered = await renderChart(4, {
    release: name,
    namespace: name,
    values,
    apiVersions: ['conversation-operator.dev/v1alpha1'],
  });
  const files = new Map<string, string>([
    [fileOf(ownNamespace.kind), `${notice}${documentOf(ownNamespace)}`],
  ]);
  for (const document of parseAllDocuments(rendered)) {
    const resource = renderedSchema.nullable().parse(document.toJS());
    if (resource === null || resource.kind === 'Pod') continue;
    const { labels = {}, annotations = {}, ...metadata } = resource.metadata;
    const plain = {
      ...resource,
      metadata: {
        ...metadata,
        ...without('labels', labels, 'app.kubernetes.io/managed-by', 'helm.sh/chart'),
        ...without('annotations', annotations, 'helm.sh/resource-policy'),
      },
    };
    const file = fileOf(resource.kind);
    files.set(file, `${files.get(file) ?? notice}${documentOf(plain)}`);
  }
  return files;
}
