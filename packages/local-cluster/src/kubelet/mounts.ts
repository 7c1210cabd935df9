import { mkdir, realpath, writeFile } from 'node:fs/promises';
import { join, posix } from 'node:path';
import type { KubeClient } from '@conversation-operator/kube/client';
import { persistentVolumeClaims, type Container, type Pod } from '@conversation-operator/kube/core';
import { found } from '@conversation-operator/kube/errors';
import { ContainerConfigError, dataOf } from './container-environment.ts';
import { pathSegment, type NodeFolder } from './node.ts';

/** A mount path of the pod and the folder of this machine that it refers to. */
export interface Mount {
  readonly mountPath: string;
  readonly folder: string;
  /** Uid of the claim that the folder belongs to, if any. */
  readonly claimUid?: string;
}

interface Source {
  readonly path: string;
  readonly claimUid?: string;
}

type Volume = NonNullable<NonNullable<Pod['spec']>['volumes']>[number];

const trimmed = (path: string): string => posix.normalize(path).replace(/(?<=.)\/+$/, '');

/**
 * Translates a path below a mount into a path of this machine; other values remain unchanged.
 * Processes have no mount namespace here, so this translation makes `/workspace/x` in the spec of a
 * pod refer to the volume. The longest mount path takes precedence, and only whole path segments
 * match.
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

/** Translates like `translatePath`, and also the value of an option: `--data=/workspace`. */
export function translateArgument(value: string, mounts: readonly Mount[]): string {
  const option = /^--?[A-Za-z0-9][\w.-]*=/.exec(value)?.[0] ?? '';
  return option + translatePath(value.slice(option.length), mounts);
}

/** Working directory of a process: a mounted folder, or one of the pod for that of the image. */
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

/** Creates the folders of volumes. Throws `ContainerConfigError` for an unsupported volume. */
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
    const { path, ...claim } = await sourceOf(pod, volume, client, folder);
    mounts.push({
      mountPath: trimmed(posix.join('/', mountPath)),
      folder: subPath === '' ? path : await below(path, subPath),
      ...claim,
    });
  }
  return mounts;
}

async function below(root: string, subPath: string): Promise<string> {
  const path = posix.normalize(subPath);
  if (posix.isAbsolute(path) || path.split('/').includes('..'))
    throw new ContainerConfigError('subPath must be relative and without ".."');
  const folder = join(root, path);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const [realRoot, real] = await Promise.all([realpath(root), realpath(folder)]);
  if (!`${real}/`.startsWith(`${realRoot}/`))
    throw new ContainerConfigError('subPath leads out of its volume');
  return folder;
}

async function sourceOf(
  pod: Pod,
  volume: Volume,
  client: KubeClient,
  folder: NodeFolder,
): Promise<Source> {
  const namespace = pod.metadata.namespace ?? '';
  const own = join(folder.pod(pod.metadata.uid), 'volumes', pathSegment(volume.name));
  if (volume.persistentVolumeClaim !== undefined) {
    const { claimName } = volume.persistentVolumeClaim;
    const claim = await found(client.get(persistentVolumeClaims, namespace, claimName));
    if (claim === undefined)
      throw new ContainerConfigError(`persistentvolumeclaim "${claimName}" not found`);
    if (claim.status?.phase !== 'Bound')
      throw new ContainerConfigError(`persistentvolumeclaim "${claimName}" is not bound yet`);
    return { path: folder.volume(claim.metadata.uid), claimUid: claim.metadata.uid };
  }
  if (volume.emptyDir !== undefined) {
    await mkdir(own, { recursive: true, mode: 0o700 });
    return { path: own };
  }
  const { secret, configMap } = volume;
  if (secret?.secretName !== undefined) {
    const { secretName: name, optional = false, items } = secret;
    await writeFiles(own, await dataOf(client, namespace, 'Secret', { name, optional }), items);
    return { path: own };
  }
  if (configMap?.name !== undefined) {
    await writeFiles(own, await dataOf(client, namespace, 'ConfigMap', configMap), configMap.items);
    return { path: own };
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
