import * as fc from 'fast-check';
import { FairQueue } from '../src/fair-queue.ts';

const share = fc.constantFrom('alice', 'bob', 'carol', 'dave');
const step = fc.oneof(
  fc.record({ do: fc.constant('push' as const), share }),
  fc.record({ do: fc.constant('shift' as const) }),
  fc.record({ do: fc.constant('release' as const), share }),
);

interface Item {
  readonly share: string;
  readonly number: number;
}

it('is first come first served within a share, bounded by share, and gives no share a second turn before another has one', () => {
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 200 }),
      fc.integer({ min: 1, max: 3 }),
      (steps, maxPerShare) => {
        const queue = new FairQueue<Item>({ maxPerShare });
        const waiting = new Map<string, Item[]>();
        const taken = new Map<string, number>();
        /** The shares that had a turn since each waiting share could be handed out. */
        const overtaken = new Map<string, Set<string>>();
        const isReady = (name: string) =>
          (waiting.get(name)?.length ?? 0) > 0 && (taken.get(name) ?? 0) < maxPerShare;
        let number = 0;
        for (const next of steps) {
          if (next.do === 'push') {
            const item = { share: next.share, number: number++ };
            waiting.set(next.share, [...(waiting.get(next.share) ?? []), item]);
            queue.push(next.share, item);
          } else if (next.do === 'release') {
            const held = taken.get(next.share) ?? 0;
            if (held === 0) continue;
            taken.set(next.share, held - 1);
            queue.release(next.share);
          } else {
            const item = queue.shift();
            const ready = [...waiting.keys()].filter(isReady);
            expect(item === undefined).toBe(ready.length === 0);
            if (item !== undefined) {
              expect(waiting.get(item.share)?.shift()).toBe(item);
              const held = (taken.get(item.share) ?? 0) + 1;
              expect(held).toBeLessThanOrEqual(maxPerShare);
              taken.set(item.share, held);
              overtaken.delete(item.share);
              for (const other of ready) {
                if (other === item.share) continue;
                const seen = overtaken.get(other) ?? new Set<string>();
                expect(seen.has(item.share)).toBe(false);
                overtaken.set(other, seen.add(item.share));
              }
            }
          }
          for (const name of [...overtaken.keys()]) if (!isReady(name)) overtaken.delete(name);
          const count = [...waiting.values()].reduce((sum, items) => sum + items.length, 0);
          expect(queue.size).toBe(count);
          const known = new Set(
            [...waiting].filter(([, items]) => items.length > 0).map(([name]) => name),
          );
          for (const [name, held] of taken) if (held > 0) known.add(name);
          expect(queue.shares).toBe(known.size);
        }
      },
    ),
    { numRuns: 500 },
  );
});

it('drops what waits, and continues with what is taken', () => {
  const queue = new FairQueue<string>({ maxPerShare: 1 });
  for (const item of ['a1', 'a2']) queue.push('alice', item);
  queue.push('bob', 'b1');
  expect(queue.shift()).toBe('a1');
  queue.clear();
  expect([queue.size, queue.shift(), queue.shares]).toEqual([0, undefined, 1]);
  queue.push('alice', 'a3');
  expect(queue.shift()).toBeUndefined();
  queue.release('alice');
  expect(queue.shift()).toBe('a3');
});
