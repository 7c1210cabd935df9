import { CloneSlots } from '../../../../src/gateway/git/clone-slots.ts';

const never = new AbortController().signal;
const settled = () => new Promise((resolve) => setImmediate(resolve));

describe('slots for clones', () => {
  it('are given first come first served, and never to more than there are', async () => {
    const slots = new CloneSlots({ max: 1, maxPerSandbox: 2, maxWaiting: 2 });
    const order: string[] = [];
    const first = await slots.take('a', never);
    const second = slots.take('b', never).then((release) => (order.push('b'), release));
    const third = slots.take('c', never).then((release) => (order.push('c'), release));
    await settled();
    expect(order).toEqual([]);
    first();
    (await second)();
    (await third)();
    expect(order).toEqual(['b', 'c']);
    (await slots.take('d', never))();
  });

  it('are refused to a sandbox that has enough, also while it waits, and when too many wait', async () => {
    const slots = new CloneSlots({ max: 1, maxPerSandbox: 2, maxWaiting: 1 });
    const release = await slots.take('a', never);
    const waiting = slots.take('a', never);
    await expect(slots.take('a', never)).rejects.toMatchObject({ code: 'too-many-connections' });
    await expect(slots.take('b', never)).rejects.toMatchObject({ code: 'too-many-connections' });
    release();
    (await waiting)();
  });

  it('are not kept for who has gone', async () => {
    const slots = new CloneSlots({ max: 1, maxPerSandbox: 1, maxWaiting: 1 });
    const release = await slots.take('a', never);
    const leaving = new AbortController();
    const left = slots.take('b', leaving.signal);
    leaving.abort(new Error('gone'));
    await expect(left).rejects.toThrow('gone');
    const waiting = slots.take('b', never);
    release();
    (await waiting)();
  });
});
