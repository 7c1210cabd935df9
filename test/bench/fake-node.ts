import { createServer } from 'node:http';
import { systemClock } from '../../packages/kube/src/clock.ts';
import { nodes, pods, type Pod } from '../../packages/kube/src/core.ts';
import { isNotFound } from '../../packages/kube/src/errors.ts';
import { loadConnection } from '../../packages/kube/src/kubeconfig.ts';
import { Reflector } from '../../packages/kube/src/reflector.ts';
import { silentLogger } from '@conversation-operator/kube/logger';
import { connectTo, namespace } from './api-server.ts';

/**
 * A node as KWOK has them: its pods run as soon as they are there, at loopback addresses, and one
 * server at all of these addresses answers for their agents. `fake-node.ts KUBECONFIG NODE PORT`.
 * Prints a line once it is ready.
 */
const [kubeconfig = '', name = '', port = ''] = process.argv.slice(2);
const { connection } = await loadConnection({ kubeconfig });
const { client } = connectTo(connection);
const beatMs = 10_000;

/** Addresses whose agent has its keys. */
const initialised = new Set<string>();
createServer((request, response) => {
  const address = request.socket.localAddress?.replace('::ffff:', '') ?? '';
  request.resume();
  const [path] = (request.url ?? '').split('?');
  const answer = (body: unknown, status = 200) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  };
  if (path === '/ready' || path === '/alive') {
    answer({ status: 'ready' });
    return;
  }
  if (path === '/api/init') {
    if (request.method === 'POST') initialised.add(address);
    answer({ state: initialised.has(address) ? 'ready' : 'dormant' });
    return;
  }
  if (path === '/api/conversations/search') {
    answer({ items: [], next_page_id: null });
    return;
  }
  if (path === '/api/conversations/count') {
    answer(0);
    return;
  }
  answer({ detail: `no ${path ?? ''}` }, 404);
}).listen(Number(port), '0.0.0.0');

const ready = () => ({
  type: 'Ready',
  status: 'True',
  reason: 'Bench',
  message: '',
  lastHeartbeatTime: new Date().toISOString(),
  lastTransitionTime: new Date(0).toISOString(),
});
await client.create(nodes, { apiVersion: 'v1', kind: nodes.kind, metadata: { name } });
const beat = () =>
  client.mergePatch(
    nodes,
    '',
    name,
    { status: { conditions: [ready()], capacity: { pods: '100000' } } },
    { subresource: 'status' },
  );
await beat();
setInterval(() => void beat().catch(() => undefined), beatMs);

let addresses = 0;
/** 127.64.0.0/12, without the network's own address. */
function nextAddress(): string {
  addresses = (addresses % 0x0f_ffff) + 1;
  return `127.${64 + (addresses >> 16)}.${(addresses >> 8) & 255}.${addresses & 255}`;
}

async function run({ metadata, spec, status }: Pod): Promise<void> {
  const { name: pod, uid, deletionTimestamp, namespace: place = '' } = metadata;
  if (spec?.nodeName !== name) return;
  try {
    if (deletionTimestamp !== undefined) {
      await client.delete(pods, place, pod, { uid, gracePeriodSeconds: 0 });
      return;
    }
    if (status?.phase === 'Running') return;
    const podIP = nextAddress();
    initialised.delete(podIP);
    const now = new Date().toISOString();
    const containerStatuses = spec.containers.map(({ name: container, image = '' }) => ({
      ...{ name: container, image, imageID: image, ready: true, started: true, restartCount: 0 },
      containerID: `bench://${uid}`,
      state: { running: { startedAt: now } },
    }));
    const condition = (type: string) => ({ type, status: 'True', lastTransitionTime: now });
    const conditions = ['Initialized', 'ContainersReady', 'Ready'].map(condition);
    const running = { phase: 'Running', podIP, podIPs: [{ ip: podIP }], startTime: now };
    await client.mergePatch(
      pods,
      place,
      pod,
      { metadata: { uid }, status: { ...running, conditions, containerStatuses } },
      { subresource: 'status' },
    );
  } catch (error) {
    if (!isNotFound(error)) process.stderr.write(`${pod}: ${String(error)}\n`);
  }
}

const reflector = new Reflector<Pod>({
  ...{ client, resource: pods, namespace },
  clock: systemClock,
  random: Math.random,
  logger: silentLogger,
});
reflector.addHandler({ added: (pod) => void run(pod), updated: (pod) => void run(pod) });
reflector.start();
await reflector.synced();
process.stdout.write('ready\n');
