import { setTimeout as wait } from 'node:timers/promises';
import { systemClock } from '@conversation-operator/base/clock';
import { fenced } from '@conversation-operator/kube/intercepted-client';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { LeaderElection, NotLeadingError } from '@conversation-operator/kube/leader-election';
import { Transport } from '@conversation-operator/kube/transport';
import { silentLogger } from '@conversation-operator/base/logger';
import { configMaps } from '@conversation-operator/kube/core';

/**
 * A candidate that writes its name into the config map `ledger` all the time, leader or not, and
 * leaves it to the fence whether that may be sent. Prints `refused` for the first write that may
 * not after one that might, and `checked COUNT TIME` for each that was handed to a connection, with
 * the machine's monotonic clock. SIGTERM ends it in good order.
 */
const [server = '', token = '', identity = '', times = '{}'] = process.argv.slice(2);
const runtime = { clock: systemClock, random: Math.random, logger: silentLogger };
const transport = new Transport({ connection: { server, token }, ...runtime });
const client = new HttpKubeClient({ transport });
const election = new LeaderElection({
  client,
  namespace: 'default',
  name: 'operator',
  identity,
  ...(JSON.parse(times) as object),
  ...runtime,
  onStartedLeading: () => undefined,
});
const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());
const stopped = () => stop.signal.aborted;

/** Minimum time between two reports of refused writes. */
const reportMs = 200;

async function write(): Promise<void> {
  const writer = fenced(client, election);
  let reportedAt = -Infinity;
  for (let count = 0; !stopped(); count++) {
    let checkedAt: bigint | undefined;
    const beforeSend = () => void (checkedAt = process.hrtime.bigint());
    try {
      await writer.mergePatch(
        configMaps,
        'default',
        'ledger',
        { data: { writer: identity, count: String(count) } },
        { beforeSend },
      );
    } catch (error) {
      // Again and again: a process that was stopped may have been refused a moment before.
      if (error instanceof NotLeadingError && performance.now() - reportedAt > reportMs) {
        reportedAt = performance.now();
        process.stdout.write('refused\n');
      }
    }
    if (checkedAt !== undefined) process.stdout.write(`checked ${count} ${checkedAt}\n`);
    await wait(2);
  }
}

const writing = write();
while (!stopped()) await election.run(stop.signal);
await writing;
await transport.close();
