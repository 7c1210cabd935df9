import type { Clock, Timer } from '@conversation-operator/base/clock';
import type { Container, Pod } from '@conversation-operator/kube/core';
import type { ContainerLog } from './container-log.ts';
import { Prober, type ProbeKind, probeError } from './prober.ts';
import type { ProcessExit, ProcessRunner, RunningProcess, NodeSettings } from './options.ts';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import {
  ContainerConfigError,
  expand,
  specifiedEnvironment,
  prepareMounts,
  translateArgument,
  translatePath,
  workingDirOf,
} from './container-environment.ts';
import type { NodeFolder } from './node.ts';

/** The node has no program for the image. */
export class UnknownImageError extends Error {
  override readonly name = 'UnknownImageError';

  constructor(image: string, known: readonly string[]) {
    super(
      `image "${image}" is not known to this node, which pulls no images; known images: ${known.length > 0 ? known.join(', ') : 'none'}`,
    );
  }
}

export interface Launch {
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly workingDir: string;
  readonly claimUids: readonly string[];
}

const inheritedVariables = ['PATH', 'LANG', 'TZ'] as const;

/**
 * Converts a container of a spec into a process of this machine, and creates its folders. The
 * environment consists of a few variables of this process, those of the pod (HOSTNAME, HOME,
 * TMPDIR, POD_IP, HOST), of the image, and of the spec; later ones take precedence. Mount paths are
 * translated in the working directory, arguments and values. Throws `UnknownImageError` and
 * `ContainerConfigError`.
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
  if (container.restartPolicy !== undefined)
    throw new ContainerConfigError(
      'containers with a restartPolicy of their own are not supported',
    );
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

export interface ContainerRunOptions {
  /** Unique id of the run, which every process of the run has in its environment. */
  readonly runId: string;
  readonly container: Container;
  readonly launch: Launch;
  readonly podIP: string;
  readonly graceMs: number;
  readonly runner: ProcessRunner;
  readonly log: ContainerLog;
  readonly clock: Clock;
  readonly onChange: () => void;
  readonly onUnhealthy: (message: string) => void;
}

export class ContainerRun {
  readonly exited: Promise<ProcessExit>;
  readonly #process: RunningProcess;
  readonly #clock: Clock;
  readonly #prober: Prober;
  #over = false;
  #deadline: { readonly atMs: number; readonly timer: Timer } | undefined;

  /** Rejects with the system's error if the program cannot be started. */
  static async start(options: ContainerRunOptions): Promise<ContainerRun> {
    const { runner, runId, launch, log } = options;
    await log.begin();
    try {
      return new ContainerRun(
        options,
        await runner.start({ ...launch, runId, output: (chunk) => log.write(chunk) }),
      );
    } catch (error) {
      await log.end();
      throw error;
    }
  }

  private constructor(options: ContainerRunOptions, process: RunningProcess) {
    const { clock, container, podIP, graceMs, log, onChange, onUnhealthy } = options;
    this.#process = process;
    this.#clock = clock;
    this.#prober = new Prober({
      target: { container, podIP },
      clock,
      onChange,
      onFailure: (kind: ProbeKind, detail) => onUnhealthy(`${kind} probe failed: ${detail}`),
      onDead: ({ terminationGracePeriodSeconds }) =>
        this.terminate(
          terminationGracePeriodSeconds === undefined
            ? graceMs
            : terminationGracePeriodSeconds * 1000,
        ),
    });
    this.exited = process.exited.then(async (exit) => {
      this.#over = true;
      this.#prober.stop();
      this.#deadline?.timer.cancel();
      await log.end();
      return exit;
    });
  }

  get started(): boolean {
    return this.#prober.started;
  }

  get ready(): boolean {
    return this.#prober.ready;
  }

  /** Sends SIGTERM, then SIGKILL after the grace period. Repeated calls only shorten the period. */
  terminate(graceMs: number): void {
    if (this.#over) return;
    const atMs = this.#clock.monotonic() + graceMs;
    if (this.#deadline !== undefined && this.#deadline.atMs <= atMs) return;
    if (this.#deadline === undefined) this.#process.terminate();
    this.#deadline?.timer.cancel();
    this.#deadline = { atMs, timer: this.#clock.after(graceMs, () => this.#process.kill()) };
  }

  kill(): void {
    this.#process.kill();
  }
}
