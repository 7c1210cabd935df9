import { FairQueue } from '../../../src/budget/fair-queue.ts';

const queueOf = (...items: readonly string[]): FairQueue<string> => {
  const queue = new FairQueue<string>();
  for (const item of items) queue.add(item.charAt(0), item);
  return queue;
};

it('owners are served in turn, each in the order of its calls', () => {
  expect(queueOf('a1', 'a2', 'a3', 'b1', 'c1', 'b2').inOrder()).toEqual([
    ...['a1', 'b1', 'c1', 'a2', 'b2', 'a3'],
  ]);
});

it('an owner that was served comes after the others', () => {
  const queue = queueOf('a1', 'a2', 'b1');
  queue.remove('a', 'a1', { isServed: true });
  expect(queue.inOrder()).toEqual(['b1', 'a2']);
});

it('an owner that has left a call keeps its turn', () => {
  const queue = queueOf('a1', 'a2', 'b1');
  queue.remove('a', 'a1');
  expect(queue.inOrder()).toEqual(['a2', 'b1']);
});

it('nothing is kept of owners without calls', () => {
  const queue = queueOf('a1');
  queue.remove('a', 'a1', { isServed: true });
  queue.remove('a', 'a1', { isServed: true });
  expect([queue.isEmpty, queue.inOrder()]).toEqual([true, []]);
});
