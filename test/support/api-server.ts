import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { PodLogs } from '../../packages/local-cluster/src/api/pod-logs.ts';
import { ControlPlane } from '@conversation-operator/local-cluster/control-plane';
import { writeKubeconfig } from '@conversation-operator/local-cluster/http/credentials';
import { startApiServer, type ApiServer } from '@conversation-operator/local-cluster/http/server';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { Transport } from '@conversation-operator/kube/transport';
import { systemClock } from '@conversation-operator/base/clock';
import { silentLogger } from '@conversation-operator/base/logger';
import { crds } from './crds.ts';

export interface RunningApiServer {
  readonly plane: ControlPlane;
  readonly client: HttpKubeClient;
  readonly server: ApiServer;
  readonly token: string;
  readonly kubeconfig: string;
  readonly folder: string;
  close(): Promise<void>;
}

/** An API server with the product's kinds, in memory, on a free port. */
export async function runApiServer(
  options: {
    readonly podLogs?: PodLogs;
    readonly stalledMs?: number;
    readonly maxWatchBacklog?: number;
  } = {},
): Promise<RunningApiServer> {
  const { podLogs, stalledMs, maxWatchBacklog } = options;
  const folder = mkdtempSync(join(tmpdir(), 'api-server-'));
  const kubeconfig = join(folder, 'kubeconfig');
  const token = 'a-token';
  const plane = new ControlPlane({
    storage: 'memory',
    clock: systemClock,
    random: Math.random,
    logger: silentLogger,
    ...(maxWatchBacklog === undefined ? {} : { maxWatchBacklog }),
  });
  await plane.start();
  await plane.applyCrds(crds());
  const server = await startApiServer({
    plane,
    host: '127.0.0.1',
    port: 0,
    token,
    logger: silentLogger,
    ...(podLogs === undefined ? {} : { podLogs }),
    ...(stalledMs === undefined ? {} : { stalledMs }),
  });
  const transport = new Transport({
    connection: { server: server.url, token },
    clock: systemClock,
    random: Math.random,
    logger: silentLogger,
  });
  writeKubeconfig(kubeconfig, { server: server.secureUrl, token, ca: server.ca });
  return {
    plane,
    client: new HttpKubeClient({ transport }),
    server,
    token,
    kubeconfig,
    folder,
    close: async () => {
      await transport.close();
      await server.close();
      await plane.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
