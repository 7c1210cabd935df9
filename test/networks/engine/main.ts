import { spawnSync } from 'node:child_process';
import { networkInterfaces } from 'node:os';
import { systemClock } from '@conversation-operator/base/clock';
import { silentLogger } from '@conversation-operator/base/logger';
import { namespaces, pods } from '@conversation-operator/kube/core';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { loadConnection } from '@conversation-operator/kube/kubeconfig';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import { Reflector } from '@conversation-operator/kube/reflector';
import { Transport } from '@conversation-operator/kube/transport';
import { policyTable, type PolicedPod, type Policy } from './policy-table.ts';

/**
 * Enforces NetworkPolicies on a cluster of one node whose network plugin ignores them: follows
 * pods, namespaces and policies, and replaces a table of nftables after each change. Runs as root
 * in the network namespace of the node. A new pod is open until its address is known.
 *
 * usage: node main.ts KUBECONFIG [--ranges-never-match-cluster]
 */
const [kubeconfig = '', view] = process.argv.slice(2);
/** Changes that come together make one table. */
const gatherMs = 50;

const networkPolicies: ResourceDefinition<KubeObject & Policy> = {
  group: 'networking.k8s.io',
  version: 'v1',
  kind: 'NetworkPolicy',
  plural: 'networkpolicies',
  namespaced: true,
};

const runtime = { clock: systemClock, random: Math.random, logger: silentLogger };
const { connection } = await loadConnection({ kubeconfig });
const client = new HttpKubeClient({ transport: new Transport({ ...runtime, connection }) });
const reflectors = {
  pods: new Reflector({ ...runtime, client, resource: pods }),
  namespaces: new Reflector({ ...runtime, client, resource: namespaces }),
  policies: new Reflector({ ...runtime, client, resource: networkPolicies }),
};
const all = Object.values(reflectors);

const nodeAddresses = () =>
  Object.values(networkInterfaces())
    .flatMap((addresses = []) => addresses)
    .filter(({ internal, address }) => !internal && !address.startsWith('fe80'))
    .map(({ address }) => address);

let enforced = '';
function enforce(): void {
  const table = policyTable({
    // The API server sends what a policed pod has.
    pods: reflectors.pods.store.list() as unknown as readonly PolicedPod[],
    namespaces: reflectors.namespaces.store.list(),
    policies: reflectors.policies.store.list(),
    nodeAddresses: nodeAddresses(),
    rangesMatchCluster: view !== '--ranges-never-match-cluster',
  });
  if (table === enforced) return;
  const { status, stderr } = spawnSync('nft', ['-f', '-'], { input: table, encoding: 'utf8' });
  if (status !== 0) throw new Error(`nft: ${stderr}`);
  enforced = table;
}

let timer: NodeJS.Timeout | undefined;
const changed = () => {
  timer ??= setTimeout(() => {
    timer = undefined;
    enforce();
  }, gatherMs);
};

for (const reflector of all) reflector.start();
await Promise.all(all.map((reflector) => reflector.synced()));
for (const reflector of all)
  reflector.addHandler({ added: changed, updated: changed, deleted: changed });
enforce();
console.log('policies are in force');

process.once('SIGTERM', () => {
  spawnSync('nft', ['delete', 'table', 'inet', 'policies']);
  process.exit(0);
});
