import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Container, Pod } from '@conversation-operator/kube/core';
import { ContainerConfigError, expand, specifiedEnvironment } from './container-environment.ts';
import { prepareMounts, translateArgument, translatePath, workingDirOf } from './mounts.ts';
import type { NodeFolder } from './node-folder.ts';
import type { NodeSettings } from './options.ts';
import { refusalOf } from './probe.ts';

/** This node knows of no program for the image. */
export class UnknownImageError extends Error {
  override readonly name = 'UnknownImageError';

  constructor(image: string, known: readonly string[]) {
    super(`image "${image}" is not known to this node: nothing is pulled here, it has ${known.length > 0 ? known.join(', ') : 'none'}`);
  }
}

/** A container's process, as far as it does not differ from run to run. */
export interface Launch {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly workingDir: string;
  /** Uids of the claims whose volumes it sees. */
  readonly claimUids: readonly string[];
}

const alwaysPassed = ['PATH', 'LANG', 'TZ'] as const;

/**
 * Turns a container of a spec into a process of this machine, and makes its folders. The environment is, later ones winning: the few
 * inherited variables, the pod's own (HOSTNAME, HOME, TMPDIR, POD_IP, HOST), the image's, the spec's. What begins with a mount path is
 * translated in the working directory, the arguments and the values. Throws `UnknownImageError` and `ContainerConfigError`.
 */
export async function launchOf(
  pod: Pod,
  container: Container,
  options: { readonly settings: NodeSettings; readonly folder: NodeFolder; readonly podIP: string; readonly hostIP: string },
): Promise<Launch> {
  const { settings, folder, podIP, hostIP } = options;
  const { client, images, environment } = settings;
  const imageName = container.image ?? '';
  const image = Object.hasOwn(images, imageName) ? images[imageName] : undefined;
  if (image === undefined) throw new UnknownImageError(imageName, Object.keys(images));
  for (const probe of [container.startupProbe, container.livenessProbe, container.readinessProbe]) {
    const refusal = refusalOf(probe, container);
    if (refusal !== undefined) throw new ContainerConfigError(refusal);
  }

  const podFolder = folder.pod(pod.metadata.uid);
  const home = join(podFolder, 'home');
  const temporary = join(podFolder, 'tmp');
  const mounts = await prepareMounts(pod, container, { client, folder });
  const workingDir = workingDirOf(container, mounts, podFolder);
  for (const path of [home, temporary, workingDir]) await mkdir(path, { recursive: true, mode: 0o700 });

  const specified = await specifiedEnvironment(pod, container, { client, podIP, hostIP });
  const inherited = alwaysPassed.flatMap((name) => {
    const value = environment[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  const given = Object.entries({ ...image.env, ...specified }).map(([name, value]) => [name, translatePath(value, mounts)] as const);
  const env = {
    ...Object.fromEntries(inherited),
    HOSTNAME: pod.metadata.name,
    HOME: home,
    TMPDIR: temporary,
    POD_IP: podIP,
    HOST: podIP,
    ...Object.fromEntries(given),
  };
  const argument = (text: string) => translateArgument(expand(text, specified), mounts);
  const entryPoint = container.command === undefined || container.command.length === 0 ? image.command : container.command.map(argument);
  return {
    command: [...entryPoint, ...(container.args ?? []).map(argument)],
    env,
    workingDir,
    claimUids: mounts.flatMap(({ claimUid }) => (claimUid === undefined ? [] : [claimUid])),
  };
}
