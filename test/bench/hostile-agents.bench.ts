import { eventually } from '../support/eventually.ts';
import {
  addHostileTemplates,
  goodStart,
  silentBehaviours,
  startSilentAgents,
} from '../support/hostile-agents.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';
import { percentile, report } from './figure.ts';

/**
 * Duration of a start with the reference agent, alone and beside sandboxes whose agents are
 * hostile, in one installation.
 */
const starts = Number(process.env['STARTS'] ?? 10);

await using stack = new AsyncDisposableStack();
const up = await Installation.start();
stack.defer(async () => {
  await up.stop();
});
await addHostileTemplates(up, silentBehaviours, '10m');

async function median(): Promise<number> {
  const times: number[] = [];
  for (let count = 0; count < starts; count += 1) {
    const began = performance.now();
    await goodStart(up);
    times.push(performance.now() - began);
  }
  return percentile(times, 0.5);
}

const alone = await median();
report({ what: 'a start alone, p50', value: alone, unit: 'ms' });
await startSilentAgents(up);
// The time that the machine takes to start the agents' processes is none of the operator's.
await eventually(
  'the operator waits for each hostile agent',
  async () => {
    const { stdout } = await kubectl(up.kubeconfig, [
      'get',
      'sandboxes',
      '-o',
      'jsonpath={..status.reason}',
    ]);
    return (
      stdout.split(' ').filter((reason) => reason === 'WaitingForAgent').length ===
      silentBehaviours.length
    );
  },
  180_000,
);
const beside = await median();
report({
  what: `a start beside ${silentBehaviours.length} hostile agents, p50`,
  value: beside,
  unit: 'ms',
});
report({ what: 'ratio of both', value: beside / alone, unit: 'times', target: { atMost: 8 } });
