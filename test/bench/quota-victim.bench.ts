import { systemClock } from '@conversation-operator/base/clock';
import { loadConnection } from '@conversation-operator/kube/kubeconfig';
import { conversationQuotas } from '../../src/resources/conversation-quota.ts';
import { pods } from '@conversation-operator/kube/core';
import { silentLogger } from '@conversation-operator/base/logger';
import { HttpKubeClient } from '@conversation-operator/kube/http-client';
import { Transport } from '@conversation-operator/kube/transport';
import { Installation } from '../support/installation.ts';
import { percentile, report } from './figure.ts';

/**
 * The built program under a full quota: from a newcomer's request until its victim's pod is gone,
 * and until it is READY itself.
 */
const newcomers = 25;
const limit = 5;
const namespace = 'default';

const up = await Installation.start();
const { connection } = await loadConnection({ kubeconfig: up.kubeconfig });
const transport = new Transport({
  connection,
  clock: systemClock,
  random: Math.random,
  logger: silentLogger,
});
const client = new HttpKubeClient({ transport });
const done = new AbortController();

/** Called with the name of every pod that goes. */
let podGone: (name: string) => void = () => undefined;
async function follow(resourceVersion: string): Promise<void> {
  for await (const event of client.watch(pods, {
    namespace,
    resourceVersion,
    timeoutSeconds: 600,
    signal: done.signal,
  })) {
    if (event.type === 'DELETED') podGone(event.object.metadata.name);
  }
}

async function ready(message: string): Promise<void> {
  const { id } = await up.start(message);
  const task = await up.over(id, 60_000);
  if (task.status !== 'READY') throw new Error(task.error ?? 'no READY');
}

async function measure(what: string, message: string): Promise<void> {
  for (let count = 0; count < limit; count++) await ready(message);
  const gone: number[] = [];
  const readyAfter: number[] = [];
  for (let count = 0; count < newcomers; count++) {
    const victim = new Promise<string>((resolve) => (podGone = resolve));
    const began = performance.now();
    const start = ready(message).then(() => readyAfter.push(performance.now() - began));
    await victim;
    gone.push(performance.now() - began);
    await start;
  }
  report({
    what: `POST to the victim's pod gone, ${what}, p50 of ${newcomers}`,
    value: percentile(gone, 0.5),
    unit: 'ms',
  });
  report({
    what: `POST to the victim's pod gone, ${what}, slowest`,
    value: Math.max(...gone),
    unit: 'ms',
    target: { atMost: 3000 },
  });
  report({
    what: `POST to the newcomer's READY, ${what}, p50`,
    value: percentile(readyAfter, 0.5),
    unit: 'ms',
  });
}

try {
  await client.mergePatch(conversationQuotas, namespace, 'default', { spec: { limit } });
  const { resourceVersion } = await client.list(pods, { namespace });
  const following = follow(resourceVersion).catch((error: unknown) => {
    if (!done.signal.aborted) throw error;
  });
  await measure('idle', '```sh\necho hello\n```');
  await measure('at work', '```sh\nsleep 600\n```');
  done.abort();
  await following;
} finally {
  await transport.close();
  await up.stop();
}
