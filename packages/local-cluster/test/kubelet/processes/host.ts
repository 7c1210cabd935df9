// Hosts a node, as `up` does, so that a test can kill it: runs one pod and prints it as a line of
// JSON each time it changes.
import { LocalKubelet } from '../../../src/kubelet/local-kubelet.ts';
import { systemClock } from '@conversation-operator/base/clock';
import { silentLogger } from '@conversation-operator/base/logger';
import { pods, type Pod } from '../../../../kube/src/core.ts';
import { FakeKubeClient } from '../../../../../test/support/fake-kube-client.ts';
import { images } from './programs.ts';

const [, , dataDir = '', pod = ''] = process.argv;
const client = new FakeKubeClient();
const node = new LocalKubelet({
  client,
  dataDir,
  images,
  clock: systemClock,
  random: Math.random,
  logger: silentLogger,
});
await node.start();
const { resourceVersion } = await client.list(pods);
client.put(pods, JSON.parse(pod) as Pod);
for await (const event of client.watch(pods, {
  resourceVersion,
  timeoutSeconds: 60,
  signal: new AbortController().signal,
})) {
  if (event.type !== 'BOOKMARK') process.stdout.write(`${JSON.stringify(event.object)}\n`);
}
