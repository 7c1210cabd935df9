import { ControlPlane } from '@conversation-operator/local-cluster/control-plane';
import { writeKubeconfig } from '@conversation-operator/local-cluster/http/credentials';
import { startApiServer } from '@conversation-operator/local-cluster/http/server';
import { systemClock } from '@conversation-operator/base/clock';
import { silentLogger } from '@conversation-operator/base/logger';
import { crdOf, definitions } from '../../src/resources/crd.ts';

/**
 * An API server that prints its port when it serves, and runs until it is killed. Where a file is
 * named for it, it writes a kubeconfig.
 */
const [file = '', port = '0', token = '', kubeconfig = ''] = process.argv.slice(2);
const storage = file === 'memory' ? file : { file };
// A short history, so that a watch that was away for long finds its version gone.
const plane = new ControlPlane({
  storage,
  clock: systemClock,
  random: Math.random,
  logger: silentLogger,
  logCapacity: 1000,
});
await plane.start();
await plane.applyCrds(definitions.map(crdOf));
const { url, secureUrl, ca } = await startApiServer({
  plane,
  host: '127.0.0.1',
  port: Number(port),
  token,
  logger: silentLogger,
});
if (kubeconfig !== '') writeKubeconfig(kubeconfig, { server: secureUrl, token, ca });
process.stdout.write(`${new URL(url).port}\n`);
