import { systemClock } from '@conversation-operator/base/clock';
import { Workqueue } from '@conversation-operator/kube/workqueue';
import { heapBytes, percentile, report } from './figure.ts';

const count = 1_000_000;
const keys = Array.from({ length: count }, (_, index) => `default/sandbox-${index}`);
const queue = new Workqueue({ clock: systemClock, random: Math.random });

interface Rate {
  /**
   * In a second of processor time, of all threads: what else runs on the machine does not count.
   */
  readonly cpu: number;
  /** In a second of the wall clock. */
  readonly wall: number;
}

/** How often a second `times` are done. */
async function rate(times: number, work: () => Promise<void>): Promise<Rate> {
  const before = process.cpuUsage();
  const began = performance.now();
  await work();
  const wallSeconds = (performance.now() - began) / 1000;
  const { user, system } = process.cpuUsage(before);
  return { cpu: times / ((user + system) / 1e6), wall: times / wallSeconds };
}

async function reportMedian(what: string, measure: () => Promise<Rate>): Promise<void> {
  const rates = [await measure(), await measure(), await measure()];
  const median = (of: keyof Rate) =>
    percentile(
      rates.map((one) => one[of]),
      0.5,
    );
  report({ what, value: median('cpu'), unit: '/s', target: { atLeast: 500_000 } });
  report({ what: `${what}, by the wall clock`, value: median('wall'), unit: '/s' });
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

// With every key, because a string grows at its first lookup.
await pass();
const start = heapBytes();
await reportMedian('add, get, done of one key after the other', pass);
await reportMedian('add of 1,000,000 keys, then get and done', flood);
for (const key of keys) {
  queue.addRateLimited(key);
  queue.forget(key);
}
for (let left = keys.length; left > 0; left--) {
  const taken = await queue.get();
  if (taken !== undefined) queue.done(taken);
}
report({
  what: 'heap that is left of 1,000,000 keys',
  value: (heapBytes() - start) / 1024,
  unit: 'KiB',
  target: { atMost: 1024 },
});
