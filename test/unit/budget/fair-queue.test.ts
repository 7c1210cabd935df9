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

it('an item may come before later ones of its owner, and of no other', () => {
  const queue = queueOf('a1', 'a3', 'b1');
  queue.add('a', 'a2', (other) => other > 'a2');
  queue.add('a', 'a0', (other) => other > 'a0');
  expect(queue.inOrder()).toEqual(['a0', 'b1', 'a1', 'a2', 'a3']);
});

it('the first item of each owner may be served on the way, and the owner comes again', () => {
  const queue = queueOf('a1', 'a2', 'b1', 'c1');
  const seen: string[] = [];
  for (const head of queue.heads()) {
    seen.push(head);
    if (head !== 'b1') queue.remove(head.charAt(0), head, { isServed: true });
  }
  expect(seen).toEqual(['a1', 'b1', 'c1', 'a2']);
  expect(queue.inOrder()).toEqual(['b1']);
});
