import type { KubeClient } from '@conversation-operator/kube/client';
import { found } from '@conversation-operator/kube/errors';
import {
  configMaps,
  secrets,
  type ConfigMap,
  type Container,
  type Pod,
  type Secret,
  persistentVolumeClaims,
} from '@conversation-operator/kube/core';
import type { ResourceDefinition } from '@conversation-operator/kube/object';
import { mkdir, writeFile } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { pathSegment, type NodeFolder } from './node.ts';

/** The container can't be started because of its spec; reported as CreateContainerConfigError. */
export class ContainerConfigError extends Error {
  override readonly name = 'ContainerConfigError';
}

type Variables = Record<string, string>;
type EnvVar = NonNullable<Container['env']>[number];
type DataReader = (
  kind: 'Secret' | 'ConfigMap',
  reference: { readonly name?: string; readonly optional?: boolean },
) => Promise<ReadonlyMap<string, Buffer>>;

/** Expands `$(NAME)` as Kubernetes does: `$$` becomes `$`, and unknown names remain as they are. */
export const expand = (text: string, variables: Readonly<Variables>): string =>
  text.replace(/\$(?:\$|\(([^()]*)\))/g, (written: string, name: string | undefined) =>
    name === undefined
      ? '$'
      : Object.hasOwn(variables, name)
        ? (variables[name] ?? written)
        : written,
  );

/** Returns the value of a fieldRef; undefined for a field that is not supported. */
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

/** Returns the variables in the spec of a container: envFrom, then env, which takes precedence. */
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

/** Returns decoded `data`. Throws `ContainerConfigError` if a required object does not exist. */
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

interface Source {
  readonly folder: string;
  /** Uid of the claim that the folder belongs to, if any. */
  readonly claimUid?: string;
}

interface Mount extends Source {
  readonly mountPath: string;
}

type Volume = NonNullable<NonNullable<Pod['spec']>['volumes']>[number];

const trimmed = (path: string): string => posix.normalize(path).replace(/(?<=.)\/+$/, '');

/**
 * Translates a path below a mount into a path of this machine; other values remain unchanged.
 * Containers have no mount namespace here, so `/workspace/x` in the spec of a pod has to become a
 * path in the folder of the volume. The longest mount path takes precedence, and only whole path
 * segments match.
 */
export function translatePath(value: string, mounts: readonly Mount[]): string {
  const mount = mounts
    .filter(
      ({ mountPath }) =>
        value === mountPath || value.startsWith(mountPath === '/' ? '/' : `${mountPath}/`),
    )
    .toSorted((a, b) => b.mountPath.length - a.mountPath.length)[0];
  return mount === undefined
    ? value
    : `${mount.folder}${value.slice(mount.mountPath === '/' ? 0 : mount.mountPath.length)}`;
}

/** Applies `translatePath` to an argument or, as in `--data=/workspace`, to an option's value. */
export function translateArgument(value: string, mounts: readonly Mount[]): string {
  const option = /^--?[A-Za-z0-9][\w.-]*=/.exec(value)?.[0] ?? '';
  return option + translatePath(value.slice(option.length), mounts);
}

/** Returns the working directory, which is in the folder of a volume or of the pod. */
export function workingDirOf(
  container: Container,
  mounts: readonly Mount[],
  podFolder: string,
): string {
  const { workingDir } = container;
  if (workingDir === undefined || workingDir === '') return join(podFolder, 'home');
  const absolute = trimmed(posix.join('/', workingDir));
  const translated = translatePath(absolute, mounts);
  return translated === absolute ? join(podFolder, 'root', absolute) : translated;
}

/** Creates volume folders. Throws `ContainerConfigError` for a missing or unsupported volume. */
export async function prepareMounts(
  pod: Pod,
  container: Container,
  { client, folder }: { readonly client: KubeClient; readonly folder: NodeFolder },
): Promise<readonly Mount[]> {
  const volumes = new Map((pod.spec?.volumes ?? []).map((volume) => [volume.name, volume]));
  const mounts: Mount[] = [];
  for (const { name, mountPath, subPath = '' } of container.volumeMounts ?? []) {
    const volume = volumes.get(name);
    if (volume === undefined)
      throw new ContainerConfigError(
        `volume "${name}" of the container is not a volume of the pod`,
      );
    if (subPath !== '') throw new ContainerConfigError('a subPath is not supported');
    const source = await sourceOf(pod, volume, client, folder);
    mounts.push({ mountPath: trimmed(posix.join('/', mountPath)), ...source });
  }
  return mounts;
}

async function sourceOf(
  pod: Pod,
  volume: Volume,
  client: KubeClient,
  nodeFolder: NodeFolder,
): Promise<Source> {
  const namespace = pod.metadata.namespace ?? '';
  const own = join(nodeFolder.pod(pod.metadata.uid), 'volumes', pathSegment(volume.name));
  if (volume.persistentVolumeClaim !== undefined) {
    const { claimName } = volume.persistentVolumeClaim;
    const claim = await found(client.get(persistentVolumeClaims, namespace, claimName));
    if (claim === undefined)
      throw new ContainerConfigError(`persistentvolumeclaim "${claimName}" not found`);
    if (claim.status?.phase !== 'Bound')
      throw new ContainerConfigError(`persistentvolumeclaim "${claimName}" is not bound yet`);
    return { folder: nodeFolder.volume(claim.metadata.uid), claimUid: claim.metadata.uid };
  }
  if (volume.emptyDir !== undefined) {
    await mkdir(own, { recursive: true, mode: 0o700 });
    return { folder: own };
  }
  const { secret, configMap } = volume;
  if (secret?.secretName !== undefined) {
    const { secretName: name, optional = false, items } = secret;
    await writeFiles(own, await dataOf(client, namespace, 'Secret', { name, optional }), items);
    return { folder: own };
  }
  if (configMap?.name !== undefined) {
    await writeFiles(own, await dataOf(client, namespace, 'ConfigMap', configMap), configMap.items);
    return { folder: own };
  }
  throw new ContainerConfigError(
    `volume "${volume.name}": the local kubelet supports only persistentVolumeClaim, emptyDir, secret and configMap volumes`,
  );
}

async function writeFiles(
  path: string,
  files: ReadonlyMap<string, Buffer>,
  items: readonly { readonly key: string; readonly path: string }[] | undefined,
): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  for (const [key, content] of files) {
    const names =
      items === undefined
        ? [key]
        : items.filter((item) => item.key === key).map((item) => item.path);
    for (const name of names) {
      if (!/^[-._A-Za-z0-9]+$/.test(name) || /^\.\.?$/.test(name))
        throw new ContainerConfigError('a key of a volume is not usable as a file name');
      await writeFile(join(path, name), content, { mode: 0o600 });
    }
  }
}
