import { systemClock } from '../../src/kube/clock.ts';
import { Workqueue } from '../../src/kube/workqueue.ts';
import { heapBytes, percentile, report } from './figure.ts';

const count = 1_000_000;
const keys = Array.from({ length: count }, (_, index) => `default/sandbox-${index}`);
const queue = new Workqueue({ clock: systemClock, random: Math.random });

async function pass(some: readonly string[]): Promise<number> {
  const began = performance.now();
  for (const key of some) {
    queue.add(key);
    const taken = await queue.get();
    if (taken !== undefined) queue.done(taken);
  }
  return some.length / ((performance.now() - began) / 1000);
}

/** All of them wait at once, fail once, and are forgotten. */
async function flood(): Promise<number> {
  const began = performance.now();
  for (const key of keys) queue.add(key);
  for (let left = keys.length; left > 0; left--) {
    const taken = await queue.get();
    if (taken !== undefined) queue.done(taken);
  }
  return keys.length / ((performance.now() - began) / 1000);
}

// With every key, because a string grows when it is looked up for the first time.
await pass(keys);
const start = heapBytes();
report({
  what: 'add, get, done of one key after the other',
  value: percentile([await pass(keys), await pass(keys), await pass(keys)], 0.5),
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
