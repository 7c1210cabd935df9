import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { ControlPlane } from '@conversation-operator/local-cluster/control-plane';
import {
  createCertificate,
  type Certificate,
  writeKubeconfig,
} from '@conversation-operator/local-cluster/http/credentials';
import { startApiServer } from '@conversation-operator/local-cluster/http/server';
import type { ImageProgram } from '@conversation-operator/local-cluster/kubelet/options';
import { LocalKubelet } from '@conversation-operator/local-cluster/kubelet/local-kubelet';
import { StorageError } from '@conversation-operator/local-cluster/storage/object-store';
import type { KubeClient } from '@conversation-operator/kube/client';
import type { Clock } from '@conversation-operator/base/clock';
import { EventRecorder } from '@conversation-operator/kube/events';
import { crdOf, definitions } from '../resources/crd.ts';
import { CommandError, portInUse } from './terminal.ts';
import { type DataFolder, lastPort, localKubeconfig } from './data-folder.ts';
import type { MeasuredRuntime } from '../observability/metrics.ts';
import { connect } from './process.ts';

export interface EmbeddedClusterOptions extends MeasuredRuntime {
  readonly folder: DataFolder;
  /** 0: the port of the last start if it is free, else any port. */
  readonly port: number;
  readonly images: Readonly<Record<string, ImageProgram>>;
}

export interface EmbeddedCluster {
  readonly kubeconfig: string;
  readonly client: KubeClient;
}

const loopback = '127.0.0.1';

const stateFile = 'state.db';

/** Throws if volumes exist without stored state. The node would delete volumes without claims. */
function refuseVolumesWithoutState(folder: DataFolder): void {
  const volumes = folder.file('node/volumes');
  if (
    existsSync(folder.file(stateFile)) ||
    !existsSync(volumes) ||
    readdirSync(volumes).length === 0
  )
    return;
  throw new CommandError(
    `DATA_DIR: ${folder.file(stateFile)} is missing, but ${volumes} holds files of sandboxes; restore it, or move them away`,
  );
}

async function openPlane(runtime: MeasuredRuntime, folder: DataFolder): Promise<ControlPlane> {
  refuseVolumesWithoutState(folder);
  try {
    const plane = new ControlPlane({ storage: { file: folder.file(stateFile) }, ...runtime });
    await plane.start();
    return plane;
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    const problem =
      error.code === 'Locked' ? `${folder.path} is in use by another process` : error.message;
    throw new CommandError(`DATA_DIR: ${problem}`, { cause: error });
  }
}

/** The certificate stays the same over restarts, so that copied kubeconfigs stay valid. */
function certificateOf(folder: DataFolder, clock: Clock): Certificate {
  const text = folder.remember('certificate', () => {
    const { cert, key } = createCertificate({ nowMs: clock.now() });
    return `${cert}${key}`;
  });
  const [cert, key] = text.split(/(?=-----BEGIN PRIVATE KEY-----)/);
  if (cert === undefined || key === undefined)
    throw new CommandError(`DATA_DIR: ${folder.file('certificate')} is damaged; remove it`);
  return { cert, key };
}

/** Starts a control plane and a node on this machine. The stack stops both in reverse order. */
export async function startEmbeddedCluster(
  options: EmbeddedClusterOptions,
  stack: AsyncDisposableStack,
): Promise<EmbeddedCluster> {
  const { folder, images, port: wantedPort, ...runtime } = options;
  const { clock, logger } = runtime;
  const apiLogger = logger.child({ component: 'api-server' });
  // The control plane starts first, because it locks the folder against other processes.
  const plane = await openPlane({ ...runtime, logger: apiLogger }, folder);
  stack.defer(() => plane.close());
  await plane.applyCrds(definitions.map(crdOf));
  const token = folder.remember('api-token', () => randomBytes(32).toString('base64url'));
  // The port stays the same, because copied kubeconfigs contain the port.
  const port = wantedPort === 0 ? await lastPort(folder, 'api-port') : wantedPort;
  const server = await startApiServer({
    plane,
    host: loopback,
    port,
    token,
    certificate: certificateOf(folder, clock),
    logger: apiLogger,
  }).catch(portInUse('API_PORT', port));
  stack.defer(() => server.close());
  folder.write('api-port', new URL(server.url).port);
  const kubeconfig = folder.file(localKubeconfig);
  writeKubeconfig(kubeconfig, { server: server.secureUrl, token, ca: server.ca });

  const { client, transport } = connect({ server: server.url, token }, runtime);
  stack.defer(() => transport.close());
  const events = new EventRecorder({ client, component: 'local-kubelet', ...runtime });
  stack.defer(() => events.close());
  const node = new LocalKubelet({
    client,
    dataDir: folder.file('node'),
    images,
    events,
    ...runtime,
    logger: logger.child({ component: 'node' }),
  });
  plane.setPodLogs(node);
  stack.defer(() => node.stop());
  await node.start();
  return { kubeconfig, client };
}
