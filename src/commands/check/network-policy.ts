import { z } from 'zod';
import { pods } from '@conversation-operator/kube/core';
import {
  errorOf,
  FindingCode,
  NotTried,
  outcomeOf,
  type Finding,
  type Check,
  type Scene,
} from './check.ts';
import { checkPod, lastTextOf, observePod } from './check-pod.ts';
import { pullOf } from './images.ts';
import { networkPolicies } from './resources.ts';
import { checkLabel } from './temporary-objects.ts';

const roleLabel = `${checkLabel}-role`;
const [allowedPort, forbiddenPort] = [8001, 8002];
/** Maximum time until a pod runs, including the pull of its image. */
const startMs = 90_000;
/** Maximum time for the connections. The program in the pod ends earlier. */
const connectMs = 60_000;

const node = ['/usr/local/bin/node', '--input-type=module', '--eval'];
const listener = `import { createServer } from 'node:net';
for (const port of [${allowedPort}, ${forbiddenPort}]) createServer((socket) => socket.end()).listen(port);`;

/**
 * Program of the pod `connector`. The program tries the allowed connection for 20 s: if that fails,
 * a failure of the forbidden one proves nothing. Network plugins apply policies with a delay. The
 * forbidden connection is therefore tried for 15 s, until two consecutive attempts fail.
 */
const connector = `import { connect } from 'node:net';
import { writeFileSync } from 'node:fs';
const host = process.argv.at(-1);
const isOpen = (port) => new Promise((resolve) => {
  const socket = connect({ host, port, timeout: 2000 });
  const end = (open) => { socket.destroy(); resolve(open); };
  socket.once('connect', () => end(true)).once('timeout', () => end(false)).once('error', () => end(false));
});
const pause = () => new Promise((resolve) => setTimeout(resolve, 500));
const began = Date.now();
let allowed = false;
while (!allowed && Date.now() - began < 20000) { allowed = await isOpen(${allowedPort}); if (!allowed) await pause(); }
let failures = 0;
const tried = Date.now();
while (allowed && failures < 2 && Date.now() - tried < 15000) {
  if (await isOpen(${forbiddenPort})) { failures = 0; await pause(); } else failures += 1;
}
writeFileSync('/dev/termination-log', JSON.stringify({ allowed, forbidden: failures < 2 }));`;

const connectionsSchema = z.object({ allowed: z.boolean(), forbidden: z.boolean() });

export type Connections = z.output<typeof connectionsSchema>;

/** Returns a reason instead of findings if the connections prove nothing. Pure function. */
export function networkPolicyFindings({
  allowed,
  forbidden,
}: Connections): readonly Finding[] | string {
  if (!allowed) return 'the two pods reach each other nowhere, also where a policy permits it';
  return forbidden
    ? [
        errorOf(FindingCode.networkPolicyNotEnforced, {
          cause:
            'A connection between two pods was established that a NetworkPolicy forbids: the network plugin does not enforce policies.',
          breaks:
            "Sandboxes reach each other, the cluster's services and the cloud's metadata service.",
          remedy:
            'helm install cilium oci://quay.io/cilium/charts/cilium -n kube-system # or another network plugin that enforces NetworkPolicies',
        }),
      ]
    : [];
}

async function createPolicies({ objects }: Scene, signal: AbortSignal): Promise<void> {
  const selecting = (role: string) => ({
    matchLabels: { [checkLabel]: objects.run, [roleLabel]: role },
  });
  await objects.create(
    networkPolicies,
    {
      spec: {
        podSelector: selecting('listener'),
        policyTypes: ['Ingress'],
        ingress: [
          {
            from: [{ podSelector: selecting('connector') }],
            ports: [{ port: allowedPort, protocol: 'TCP' }],
          },
        ],
      },
    },
    signal,
  );
  // Another policy may forbid all egress of the namespace. This policy allows it to the listener.
  await objects.create(
    networkPolicies,
    {
      spec: {
        podSelector: selecting('connector'),
        policyTypes: ['Egress'],
        egress: [{ to: [{ podSelector: selecting('listener') }] }],
      },
    },
    signal,
  );
}

async function connectionsOf(
  scene: Scene,
  image: string,
  signal: AbortSignal,
): Promise<Connections> {
  const template = await scene.template();
  await createPolicies(scene, signal);
  const start = async (role: string, args: readonly string[]) => {
    const pullSecrets = scene.images.pullSecrets.map((name) => ({ name }));
    const labels = { [roleLabel]: role };
    const body = checkPod({ image, command: node, args, labels, pullSecrets, template });
    return (await scene.objects.create(pods, body, signal)).metadata.name;
  };
  const name = await start('listener', [listener]);
  let held: string | undefined;
  const address = await observePod(scene, name, { forMs: startMs, signal }, (pod) => {
    const pull = pullOf(pod);
    if (pull?.kind === 'failed') throw new NotTried(`the image ${image} can't be pulled`);
    held = pull?.kind === 'held' ? pull.message : undefined;
    const ended = pod.status?.containerStatuses?.[0]?.state?.terminated;
    if (ended !== undefined)
      throw new NotTried(
        `the image ${image} has no Node.js that runs (exit code ${ended.exitCode})`,
      );
    const isRunning = pod.status?.containerStatuses?.[0]?.state?.running !== undefined;
    return isRunning ? pod.status.podIP : undefined;
  });
  if (address === undefined)
    throw new NotTried(held ?? `the first pod does not run after ${startMs / 1000} s`);
  const other = await start('connector', [connector, address]);
  const text = await observePod(scene, other, { forMs: startMs + connectMs, signal }, lastTextOf);
  if (text === undefined) throw new NotTried('the second pod has not reported in time');
  return connectionsSchema.parse(JSON.parse(text));
}

export const networkPolicyCheck: Check = {
  name: 'network-policy',
  limitMs: 2 * startMs + connectMs + 10_000,
  needsApiServer: true,
  run: async (scene, signal) => {
    const image = scene.images.operator;
    if (image === undefined) throw new NotTried('name the image of the operator by --image');
    const findings = networkPolicyFindings(await connectionsOf(scene, image, signal));
    if (typeof findings === 'string') throw new NotTried(findings);
    return outcomeOf(findings, 'a forbidden connection between two pods was not established');
  },
};
