import { ControlPlane } from '../../src/embedded/control-plane.ts';
import { startApiServer } from '../../src/embedded/http/server.ts';
import { systemClock } from '../../src/kube/clock.ts';
import { silentLogger } from '../../src/observability/logger.ts';
import { crdOf, definitions } from '../../src/resources/crd.ts';

/** An API server that prints its port when it serves, and runs until it is killed. */
const [file = '', port = '0', token = ''] = process.argv.slice(2);
const storage = file === 'memory' ? file : { file };
// A short history, so that a watch that was away for long finds its version gone.
const plane = new ControlPlane({ storage, clock: systemClock, random: Math.random, logger: silentLogger, logCapacity: 1000 });
await plane.start();
await plane.applyCrds(definitions.map(crdOf));
const { url } = await startApiServer({ plane, host: '127.0.0.1', port: Number(port), token, logger: silentLogger });
process.stdout.write(`${new URL(url).port}\n`);
