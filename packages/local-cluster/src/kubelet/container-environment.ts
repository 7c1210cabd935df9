import type { KubeClient } from '@conversation-operator/kube/client';
import { isNotFound } from '@conversation-operator/kube/errors';
import { configMaps, secrets, type Container, type Pod } from '@conversation-operator/kube/core';

/** The spec of a container cannot be started: CreateContainerConfigError. */
export class ContainerConfigError extends Error {
  override readonly name = 'ContainerConfigError';
}

type Variables = Record<string, string>;
type EnvVar = NonNullable<Container['env']>[number];
type KeySource = { readonly name?: string; readonly key: string; readonly optional?: boolean };

/**
 * Expands `$(NAME)` as Kubernetes does: `$$` is a dollar sign, and unknown references remain
 * unchanged.
 */
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
  const sources = new Sources(client, pod.metadata.namespace ?? '');
  const variables: Variables = {};
  for (const { prefix = '', secretRef, configMapRef } of container.envFrom ?? []) {
    const data =
      secretRef !== undefined
        ? await sources.secret(secretRef.name ?? '', secretRef.optional)
        : await sources.configMap(configMapRef?.name ?? '', configMapRef?.optional);
    for (const [key, value] of Object.entries(data ?? {})) variables[`${prefix}${key}`] = value;
  }
  for (const variable of container.env ?? []) {
    const value = await valueOf(variable, pod, sources, variables, { podIP, hostIP });
    if (value !== undefined) variables[variable.name] = value;
  }
  return variables;
}

async function valueOf(
  variable: EnvVar,
  pod: Pod,
  sources: Sources,
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
  if (valueFrom.secretKeyRef !== undefined) {
    const reference = valueFrom.secretKeyRef;
    return keyOf(
      await sources.secret(reference.name ?? '', reference.optional),
      reference,
      'Secret',
      pod,
    );
  }
  if (valueFrom.configMapKeyRef !== undefined) {
    const reference = valueFrom.configMapKeyRef;
    return keyOf(
      await sources.configMap(reference.name ?? '', reference.optional),
      reference,
      'ConfigMap',
      pod,
    );
  }
  throw new ContainerConfigError(
    `the source of variable ${variable.name} is not supported: fieldRef, secretKeyRef and configMapKeyRef are`,
  );
}

function keyOf(
  data: Readonly<Variables> | undefined,
  reference: KeySource,
  kind: string,
  pod: Pod,
): string | undefined {
  const value = data?.[reference.key];
  if (value !== undefined || reference.optional === true) return value;
  throw new ContainerConfigError(
    `couldn't find key ${reference.key} in ${kind} ${pod.metadata.namespace ?? ''}/${reference.name ?? ''}`,
  );
}

/** Secrets and config maps, each of which is read once per start. */
class Sources {
  readonly #client: KubeClient;
  readonly #namespace: string;
  readonly #read = new Map<string, Promise<Readonly<Variables> | undefined>>();

  constructor(client: KubeClient, namespace: string) {
    this.#client = client;
    this.#namespace = namespace;
  }

  secret(name: string, optional = false): Promise<Readonly<Variables> | undefined> {
    return this.#once(`secret "${name}"`, optional, async () => {
      const { data = {} } = await this.#client.get(secrets, this.#namespace, name);
      return Object.fromEntries(
        Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]),
      );
    });
  }

  configMap(name: string, optional = false): Promise<Readonly<Variables> | undefined> {
    return this.#once(
      `configmap "${name}"`,
      optional,
      async () => (await this.#client.get(configMaps, this.#namespace, name)).data ?? {},
    );
  }

  async #once(
    what: string,
    optional: boolean,
    read: () => Promise<Readonly<Variables>>,
  ): Promise<Readonly<Variables> | undefined> {
    const present = this.#read.get(what) ?? found(read);
    this.#read.set(what, present);
    const data = await present;
    if (data === undefined && !optional) throw new ContainerConfigError(`${what} not found`);
    return data;
  }
}

/** Returns the object that was read; undefined when there is no such object. */
export async function found<T>(read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
