import { systemClock } from '../../src/kube/clock.ts';
import { Workqueue } from '../../src/kube/workqueue.ts';
import { heapBytes, percentile, report } from './figure.ts';

const count = 1_000_000;
const keys = Array.from({ length: count }, (_, index) => `default/sandbox-${index}`);
const queue = new Workqueue({ clock: systemClock, random: Math.random });

/** How many of `times` are done in a second of processor time, of all threads: what else runs on the machine does not count. */
async function rate(times: number, work: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return times / ((user + system) / 1e6);
}

const pass = () =>
  rate(count, async () => {
    for (const key of keys) {
      queue.add(key);
      const taken = await queue.get();
      if (taken !== undefined) queue.done(taken);
    }
  });

/** All of them wait at once. */
const flood = () =>
  rate(count, async () => {
    for (const key of keys) queue.add(key);
    for (let left = count; left > 0; left--) {
      const taken = await queue.get();
      if (taken !== undefined) queue.done(taken);
    }
  });

// With every key, because a string grows when it is looked up for the first time.
await pass();
const start = heapBytes();
report({
  what: 'add, get, done of one key after the other',
  value: percentile([await pass(), await pass(), await pass()], 0.5),
  unit: '/s',
  target: { atLeast: 500_000 },
});
report({
  what: 'add of 1,000,000 keys, then get and done',
  value: percentile([await flood(), await flood(), await flood()], 0.5),
  unit: '/s',
  target: { atLeast: 500_000 },
});
for (const key of keys) {
  queue.addRateLimited(key);
  queue.forget(key);
}
for (let left = keys.length; left > 0; left--) {
  const taken = await queue.get();
  if (taken !== undefined) queue.done(taken);
}
report({ what: 'heap that is left of 1,000,000 keys', value: (heapBytes() - start) / 1024, unit: 'KiB', target: { atMost: 1024 } });
