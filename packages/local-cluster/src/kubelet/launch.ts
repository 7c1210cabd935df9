import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Container, Pod } from '@conversation-operator/kube/core';
import { ContainerConfigError, expand, specifiedEnvironment } from './container-environment.ts';
import { prepareMounts, translateArgument, translatePath, workingDirOf } from './mounts.ts';
import type { NodeFolder } from './node-folder.ts';
import type { NodeSettings } from './options.ts';
import { probeError } from './probe.ts';

/** The node has no program for the image. */
export class UnknownImageError extends Error {
  override readonly name = 'UnknownImageError';

  constructor(image: string, known: readonly string[]) {
    super(
      `image "${image}" is not known to this node, which pulls no images; known images: ${known.length > 0 ? known.join(', ') : 'none'}`,
    );
  }
}

/** The part of a container's process that is the same for every run. */
export interface Launch {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly workingDir: string;
  /** Uids of the claims whose volumes the container mounts. */
  readonly claimUids: readonly string[];
}

const inheritedVariables = ['PATH', 'LANG', 'TZ'] as const;

/**
 * Converts a container of a spec into a process of this machine, and creates its folders. The
 * environment consists of a few inherited variables, those of the pod (HOSTNAME, HOME, TMPDIR,
 * POD_IP, HOST), those of the image, and those of the spec; later ones take precedence. Mount paths
 * are translated in the working directory, the arguments and the values. Throws `UnknownImageError`
 * and `ContainerConfigError`.
 */
export async function launchOf(
  pod: Pod,
  container: Container,
  options: {
    readonly settings: NodeSettings;
    readonly folder: NodeFolder;
    readonly podIP: string;
    readonly hostIP: string;
  },
): Promise<Launch> {
  const { settings, folder, podIP, hostIP } = options;
  const { client, images, environment } = settings;
  const imageName = container.image ?? '';
  const image = Object.hasOwn(images, imageName) ? images[imageName] : undefined;
  if (image === undefined) throw new UnknownImageError(imageName, Object.keys(images));
  for (const probe of [container.startupProbe, container.livenessProbe, container.readinessProbe]) {
    const error = probeError(probe, container);
    if (error !== undefined) throw new ContainerConfigError(error);
  }

  const podFolder = folder.pod(pod.metadata.uid);
  const home = join(podFolder, 'home');
  const temporary = join(podFolder, 'tmp');
  const mounts = await prepareMounts(pod, container, { client, folder });
  const workingDir = workingDirOf(container, mounts, podFolder);
  for (const path of [home, temporary, workingDir])
    await mkdir(path, { recursive: true, mode: 0o700 });

  const specified = await specifiedEnvironment(pod, container, { client, podIP, hostIP });
  const inherited = inheritedVariables.flatMap((name) => {
    const value = environment[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  const given = Object.entries({ ...image.env, ...specified }).map(
    ([name, value]) => [name, translatePath(value, mounts)] as const,
  );
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
  const entryPoint =
    container.command === undefined || container.command.length === 0
      ? image.command
      : container.command.map(argument);
  return {
    command: [...entryPoint, ...(container.args ?? []).map(argument)],
    env,
    workingDir,
    claimUids: mounts.flatMap(({ claimUid }) => (claimUid === undefined ? [] : [claimUid])),
  };
}
