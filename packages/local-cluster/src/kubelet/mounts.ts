import { mkdir, realpath, writeFile } from 'node:fs/promises';
import { join, posix } from 'node:path';
import type { KubeClient } from '@conversation-operator/kube/client';
import { configMaps, persistentVolumeClaims, secrets, type Container, type Pod } from '@conversation-operator/kube/core';
import { ContainerConfigError, found } from './container-environment.ts';
import { pathSegment, type NodeFolder } from './node-folder.ts';

/** A mount path as the pod knows it and the folder that is there in truth. */
export interface Mount {
  readonly mountPath: string;
  readonly folder: string;
  /** Of the claim that the folder belongs to, when it does to one. */
  readonly claimUid?: string;
}

interface Source {
  readonly path: string;
  readonly claimUid?: string;
}

type Volume = NonNullable<NonNullable<Pod['spec']>['volumes']>[number];

const trimmed = (path: string): string => posix.normalize(path).replace(/(?<=.)\/+$/, '');

/**
 * A path below a mount as a path of this machine; anything else stays as it is. A process has no mount namespace here, so this is
 * how `/workspace/x` in a pod's spec leads to the volume. The longest mount path wins; only whole path segments count.
 */
export function translatePath(value: string, mounts: readonly Mount[]): string {
  const mount = mounts
    .filter(({ mountPath }) => value === mountPath || value.startsWith(mountPath === '/' ? '/' : `${mountPath}/`))
    .toSorted((a, b) => b.mountPath.length - a.mountPath.length)[0];
  return mount === undefined ? value : `${mount.folder}${value.slice(mount.mountPath === '/' ? 0 : mount.mountPath.length)}`;
}

/** As `translatePath`, also behind the equals sign of an option: `--data=/workspace`. */
export function translateArgument(value: string, mounts: readonly Mount[]): string {
  const option = /^--?[A-Za-z0-9][\w.-]*=/.exec(value)?.[0] ?? '';
  return option + translatePath(value.slice(option.length), mounts);
}

/** Where the process starts: a mounted folder, or a folder of the pod that stands for a path of the image. */
export function workingDirOf(container: Container, mounts: readonly Mount[], podFolder: string): string {
  const { workingDir } = container;
  if (workingDir === undefined || workingDir === '') return join(podFolder, 'home');
  const absolute = trimmed(posix.join('/', workingDir));
  const translated = translatePath(absolute, mounts);
  return translated === absolute ? join(podFolder, 'root', absolute) : translated;
}

/** Makes the folders of a container's volumes. Throws `ContainerConfigError` for what can't be had. */
export async function prepareMounts(
  pod: Pod,
  container: Container,
  { client, folder }: { readonly client: KubeClient; readonly folder: NodeFolder },
): Promise<readonly Mount[]> {
  const volumes = new Map((pod.spec?.volumes ?? []).map((volume) => [volume.name, volume]));
  const mounts: Mount[] = [];
  for (const { name, mountPath, subPath = '' } of container.volumeMounts ?? []) {
    const volume = volumes.get(name);
    if (volume === undefined) throw new ContainerConfigError(`volume "${name}" of the container is not a volume of the pod`);
    const { path, ...claim } = await sourceOf(pod, volume, client, folder);
    mounts.push({ mountPath: trimmed(posix.join('/', mountPath)), folder: subPath === '' ? path : await below(path, subPath), ...claim });
  }
  return mounts;
}

async function below(root: string, subPath: string): Promise<string> {
  const path = posix.normalize(subPath);
  if (posix.isAbsolute(path) || path.split('/').includes('..')) throw new ContainerConfigError('subPath must be relative and without ".."');
  const folder = join(root, path);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const [realRoot, real] = await Promise.all([realpath(root), realpath(folder)]);
  if (!`${real}/`.startsWith(`${realRoot}/`)) throw new ContainerConfigError('subPath leads out of its volume');
  return folder;
}

async function sourceOf(pod: Pod, volume: Volume, client: KubeClient, folder: NodeFolder): Promise<Source> {
  const namespace = pod.metadata.namespace ?? '';
  const own = join(folder.pod(pod.metadata.uid), 'volumes', pathSegment(volume.name));
  if (volume.persistentVolumeClaim !== undefined) {
    const { claimName } = volume.persistentVolumeClaim;
    const claim = await required(() => client.get(persistentVolumeClaims, namespace, claimName), `persistentvolumeclaim "${claimName}"`);
    if (claim.status?.phase !== 'Bound') throw new ContainerConfigError(`persistentvolumeclaim "${claimName}" is not bound yet`);
    return { path: folder.volume(claim.metadata.uid), claimUid: claim.metadata.uid };
  }
  if (volume.emptyDir !== undefined) {
    await mkdir(own, { recursive: true, mode: 0o700 });
    return { path: own };
  }
  if (volume.secret?.secretName !== undefined) {
    const { secretName, items, optional } = volume.secret;
    const read = () => client.get(secrets, namespace, secretName);
    const secret = await (optional === true ? found(read) : required(read, `secret "${secretName}"`));
    const files = Object.entries(secret?.data ?? {}).map(([key, value]): File => [key, Buffer.from(value, 'base64')]);
    await writeFiles(own, files, items);
    return { path: own };
  }
  if (volume.configMap?.name !== undefined) {
    const { name, items, optional } = volume.configMap;
    const read = () => client.get(configMaps, namespace, name);
    const map = await (optional === true ? found(read) : required(read, `configmap "${name}"`));
    const files = Object.entries(map?.data ?? {}).map(([key, value]): File => [key, Buffer.from(value)]);
    await writeFiles(own, files, items);
    return { path: own };
  }
  throw new ContainerConfigError(
    `volume "${volume.name}": a process node has persistentVolumeClaim, emptyDir, secret and configMap volumes only`,
  );
}

type File = readonly [key: string, content: Buffer];

async function writeFiles(
  path: string,
  files: readonly File[],
  items: readonly { readonly key: string; readonly path: string }[] | undefined,
): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  for (const [key, content] of files) {
    const names = items === undefined ? [key] : items.filter((item) => item.key === key).map((item) => item.path);
    for (const name of names) {
      if (!/^[-._A-Za-z0-9]+$/.test(name) || /^\.\.?$/.test(name))
        throw new ContainerConfigError('a key of a volume is not usable as a file name');
      await writeFile(join(path, name), content, { mode: 0o600 });
    }
  }
}

/** Throws for an object that is not there. */
async function required<T>(read: () => Promise<T>, what: string): Promise<T> {
  const object = await found(read);
  if (object === undefined) throw new ContainerConfigError(`${what} not found`);
  return object;
}
