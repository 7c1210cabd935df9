import type { KubeClient } from '@conversation-operator/kube/client';
import { found } from '@conversation-operator/kube/errors';
import {
  configMaps,
  secrets,
  type ConfigMap,
  type Container,
  type Pod,
  type Secret,
} from '@conversation-operator/kube/core';
import type { ResourceDefinition } from '@conversation-operator/kube/object';

/** The spec of a container cannot be started: CreateContainerConfigError. */
export class ContainerConfigError extends Error {
  override readonly name = 'ContainerConfigError';
}

type Variables = Record<string, string>;
type EnvVar = NonNullable<Container['env']>[number];
type DataReader = (
  kind: 'Secret' | 'ConfigMap',
  reference: { readonly name?: string; readonly optional?: boolean },
) => Promise<ReadonlyMap<string, Buffer>>;

/** Expands `$(NAME)` as Kubernetes does: `$$` is a dollar sign, unknown names stay. */
export const expand = (text: string, variables: Readonly<Variables>): string =>
  text.replace(/\$(?:\$|\(([^()]*)\))/g, (written: string, name: string | undefined) =>
    name === undefined
      ? '$'
      : Object.hasOwn(variables, name)
        ? (variables[name] ?? written)
        : written,
  );

/** Returns the value of a fieldRef; undefined for fields that the downward API does not have. */
export function fieldOf(
  pod: Pod,
  path: string,
  addresses: { readonly podIP: string; readonly hostIP: string },
): string | undefined {
  const { metadata, spec } = pod;
  const entry = /^metadata\.(labels|annotations)\['([^']+)'\]$/.exec(path);
  if (entry !== null)
    return (entry[1] === 'labels' ? metadata.labels : metadata.annotations)?.[entry[2] ?? ''] ?? '';
  switch (path) {
    case 'metadata.name':
      return metadata.name;
    case 'metadata.namespace':
      return metadata.namespace ?? '';
    case 'metadata.uid':
      return metadata.uid;
    case 'spec.nodeName':
      return spec?.nodeName ?? '';
    case 'spec.serviceAccountName':
      return spec?.serviceAccountName ?? 'default';
    case 'status.podIP':
    case 'status.podIPs':
      return addresses.podIP;
    case 'status.hostIP':
    case 'status.hostIPs':
      return addresses.hostIP;
    default:
      return undefined;
  }
}

/**
 * Returns the environment that the spec of a container defines, in the order of a kubelet: envFrom,
 * then env, and later entries take precedence.
 */
export async function specifiedEnvironment(
  pod: Pod,
  container: Container,
  {
    client,
    podIP,
    hostIP,
  }: { readonly client: KubeClient; readonly podIP: string; readonly hostIP: string },
): Promise<Readonly<Variables>> {
  const namespace = pod.metadata.namespace ?? '';
  const read: DataReader = (kind, reference) => dataOf(client, namespace, kind, reference);
  const variables: Variables = {};
  for (const { prefix = '', secretRef, configMapRef } of container.envFrom ?? []) {
    const data = await (secretRef === undefined
      ? read('ConfigMap', configMapRef ?? {})
      : read('Secret', secretRef));
    for (const [key, value] of data) variables[`${prefix}${key}`] = value.toString();
  }
  for (const variable of container.env ?? []) {
    const value = await valueOf(variable, pod, read, variables, { podIP, hostIP });
    if (value !== undefined) variables[variable.name] = value;
  }
  return variables;
}

async function valueOf(
  variable: EnvVar,
  pod: Pod,
  read: DataReader,
  before: Readonly<Variables>,
  addresses: { readonly podIP: string; readonly hostIP: string },
): Promise<string | undefined> {
  const { valueFrom } = variable;
  if (valueFrom === undefined) return expand(variable.value ?? '', before);
  if (valueFrom.fieldRef !== undefined) {
    const { fieldPath } = valueFrom.fieldRef;
    const value = fieldOf(pod, fieldPath, addresses);
    if (value === undefined)
      throw new ContainerConfigError(`fieldRef ${fieldPath} is not supported`);
    return value;
  }
  const { secretKeyRef, configMapKeyRef } = valueFrom;
  const reference = secretKeyRef ?? configMapKeyRef;
  if (reference !== undefined) {
    const { key, name = '', optional } = reference;
    const kind = secretKeyRef === undefined ? 'ConfigMap' : 'Secret';
    const value = (await read(kind, reference)).get(key);
    if (value !== undefined || optional === true) return value?.toString();
    throw new ContainerConfigError(
      `couldn't find key ${key} in ${kind} ${pod.metadata.namespace ?? ''}/${name}`,
    );
  }
  throw new ContainerConfigError(
    `the source of variable ${variable.name} is not supported: fieldRef, secretKeyRef and configMapKeyRef are`,
  );
}

/** Throws `ContainerConfigError` for an object that is required and does not exist. */
export async function dataOf(
  client: KubeClient,
  namespace: string,
  kind: 'Secret' | 'ConfigMap',
  { name = '', optional = false }: { readonly name?: string; readonly optional?: boolean },
): Promise<ReadonlyMap<string, Buffer>> {
  const resource: ResourceDefinition<Secret | ConfigMap> = kind === 'Secret' ? secrets : configMaps;
  const object = await found(client.get(resource, namespace, name));
  if (object === undefined && !optional)
    throw new ContainerConfigError(`${kind.toLowerCase()} "${name}" not found`);
  const encoding = kind === 'Secret' ? 'base64' : 'utf8';
  return new Map(
    Object.entries(object?.data ?? {}).map(([key, value]) => [key, Buffer.from(value, encoding)]),
  );
}
