import { ControlPlane } from '@conversation-operator/local-cluster/control-plane';
import { systemClock } from '@conversation-operator/base/clock';
import { silentLogger } from '@conversation-operator/base/logger';

/** Creates objects in a loop until it is killed, and prints each once it is acknowledged. */
const [file = ''] = process.argv.slice(2);
const plane = new ControlPlane({
  storage: { file },
  clock: systemClock,
  random: Math.random,
  logger: silentLogger,
});
await plane.start();

async function write(writer: number): Promise<never> {
  for (let index = 0; ; index += 1) {
    const name = `w${writer}-${index}`;
    const body = JSON.stringify({ metadata: { name }, data: { filler: 'x'.repeat(500) } });
    const { status } = await plane.handle({
      method: 'POST',
      path: '/api/v1/namespaces/default/configmaps',
      headers: {},
      body,
    });
    if (status !== 201) throw new Error(`answered ${status}`);
    process.stdout.write(`${name}\n`);
  }
}
await Promise.all([0, 1, 2, 3].map(write));
