import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { systemClock } from '@conversation-operator/base/clock';
import { loadConnection } from '@conversation-operator/kube/kubeconfig';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { Transport, type Connection } from '@conversation-operator/kube/transport';
import { silentLogger } from '@conversation-operator/base/logger';
import { namespaces } from '@conversation-operator/kube/core';
import { findCondition, type Condition } from '../../src/resources/conditions.ts';
import { crdOf, definitions } from '../../src/resources/crd.ts';
import { startChild } from './child.ts';

const token = 'a-token';

/** Namespace of the objects of benches, which exists once the API server runs. */
export const namespace = 'conversation-operator-bench';

export interface ApiServer {
  /** The name of the server in the report. */
  readonly name: string;
  readonly connection: Connection;
  readonly kubeconfig: string;
  readonly client: HttpKubeClient;
  close(): Promise<void>;
}

const transportTo = (connection: Connection): Transport =>
  new Transport({
    connection,
    clock: systemClock,
    random: Math.random,
    logger: silentLogger,
    deadlineMs: 60_000,
  });

export function connectTo(connection: Connection): Omit<ApiServer, 'kubeconfig' | 'name'> {
  const transport = transportTo(connection);
  return { connection, client: new HttpKubeClient({ transport }), close: () => transport.close() };
}

/** Starts the embedded API server in a process; with 'file', every commit goes to disk. */
export async function startApiServer(storage: 'memory' | 'file'): Promise<ApiServer> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-'));
  const kubeconfig = join(folder, 'kubeconfig');
  const state = storage === 'memory' ? storage : join(folder, 'state.db');
  const child = startChild('./embedded-api-server.ts', [state, '0', token, kubeconfig]);
  const connected = connectTo({ server: `http://127.0.0.1:${await child.line()}`, token });
  await createNamespace(connected.client);
  return {
    ...connected,
    name: 'the embedded API server',
    kubeconfig,
    close: async () => {
      await connected.close();
      await child.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const createNamespace = (client: HttpKubeClient) =>
  client.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });

/** Installs the CRDs of the product, and waits until their resources are served. */
async function installCrds(connection: Connection): Promise<void> {
  const transport = transportTo(connection);
  const folder = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
  const common = { resource: 'customresourcedefinitions' } as const;
  for (const definition of definitions) {
    const body = crdOf(definition);
    const path = `${folder}/${body.metadata.name}`;
    await transport.call({
      ...common,
      verb: 'patch',
      method: 'PATCH',
      path: `${path}?fieldManager=test&force=true`,
      body,
      contentType: 'application/apply-patch+yaml',
    });
    for (let tries = 0; ; tries++) {
      const { status } = (await transport.call({
        ...common,
        verb: 'get',
        method: 'GET',
        path,
      })) as { readonly status?: { readonly conditions?: readonly Condition[] } };
      if (findCondition(status?.conditions, 'Established')?.status === 'True') break;
      if (tries === 100) throw new Error(`${body.metadata.name} was not established`);
      await wait(100);
    }
  }
  await transport.close();
}

/** The API server of KUBECONFIG; without one the embedded one, in memory. */
export async function openApiServer(): Promise<ApiServer> {
  const kubeconfig = process.env['KUBECONFIG'] ?? '';
  if (kubeconfig === '') return startApiServer('memory');
  const { connection } = await loadConnection({ kubeconfig });
  const connected = connectTo(connection);
  await installCrds(connection);
  await createNamespace(connected.client);
  return {
    ...connected,
    name: 'a real API server',
    kubeconfig,
    close: async () => {
      await connected.client.delete(namespaces, '', namespace);
      await connected.close();
    },
  };
}

export async function inParallel(
  count: number,
  atOnce: number,
  work: (index: number) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}
