import type { KubeClient } from '@conversation-operator/kube/client';
import { isNotFound } from '@conversation-operator/kube/errors';
import { configMaps, secrets, type Container, type Pod } from '@conversation-operator/kube/core';

/** The spec of a container cannot be started: CreateContainerConfigError. */
export class ContainerConfigError extends Error {
  override readonly name = 'ContainerConfigError';
}

type Variables = Record<string, string>;
type EnvVar = NonNullable<Container['env']>[number];
type Data = ReadonlyMap<string, Buffer>;

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
  const sources = new DataSources(client, pod.metadata.namespace ?? '');
  const variables: Variables = {};
  for (const { prefix = '', secretRef, configMapRef } of container.envFrom ?? []) {
    const data =
      secretRef !== undefined
        ? await sources.secret(secretRef.name ?? '', secretRef.optional)
        : await sources.configMap(configMapRef?.name ?? '', configMapRef?.optional);
    for (const [key, value] of data) variables[`${prefix}${key}`] = value.toString();
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
  sources: DataSources,
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
    const data = await sources[kind === 'Secret' ? 'secret' : 'configMap'](name, optional);
    const value = data.get(key);
    if (value !== undefined || optional === true) return value?.toString();
    throw new ContainerConfigError(
      `couldn't find key ${key} in ${kind} ${pod.metadata.namespace ?? ''}/${name}`,
    );
  }
  throw new ContainerConfigError(
    `the source of variable ${variable.name} is not supported: fieldRef, secretKeyRef and configMapKeyRef are`,
  );
}

/** Data of Secrets and ConfigMaps, each of which is read once. */
export class DataSources {
  readonly #client: KubeClient;
  readonly #namespace: string;
  readonly #read = new Map<string, Promise<Data | undefined>>();

  constructor(client: KubeClient, namespace: string) {
    this.#client = client;
    this.#namespace = namespace;
  }

  secret(name: string, optional = false): Promise<Data> {
    return this.#once(`secret "${name}"`, optional, 'base64', () =>
      this.#client.get(secrets, this.#namespace, name),
    );
  }

  configMap(name: string, optional = false): Promise<Data> {
    return this.#once(`configmap "${name}"`, optional, 'utf8', () =>
      this.#client.get(configMaps, this.#namespace, name),
    );
  }

  /** Throws `ContainerConfigError` for an object that is required and does not exist. */
  async #once(
    what: string,
    optional: boolean,
    encoding: BufferEncoding,
    read: () => Promise<{ readonly data?: Readonly<Variables> }>,
  ): Promise<Data> {
    const reading =
      this.#read.get(what) ??
      found(async () => {
        const { data = {} } = await read();
        return new Map(
          Object.entries(data).map(([key, value]) => [key, Buffer.from(value, encoding)]),
        );
      });
    this.#read.set(what, reading);
    const data = await reading;
    if (data === undefined && !optional) throw new ContainerConfigError(`${what} not found`);
    return data ?? new Map<string, Buffer>();
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
