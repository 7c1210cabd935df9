import fc from 'fast-check';
import { EvictionOrder } from '../../src/limits/connections.ts';

/** Adds members like `a1` to the group of their letter. */
function orderOf(...members: readonly string[]): EvictionOrder<string, string> {
  const order = new EvictionOrder<string, string>();
  for (const member of members) order.add(member.charAt(0), member);
  return order;
}

describe('the next member to remove', () => {
  it.each([
    ['is none where there are no members', [], undefined],
    ['is the oldest of the only group', ['a1', 'a2'], 'a1'],
    ['is the oldest of the largest group', ['a1', 'b1', 'b2', 'c1'], 'b1'],
    ['is of the group that has had its size for longest', ['a1', 'b1', 'b2', 'a2'], 'b1'],
  ])('%s', (_name, members, next) => {
    expect(orderOf(...members).next()).toBe(next);
  });

  it('follows what is removed', () => {
    const order = orderOf('a1', 'a2', 'a3', 'b1', 'b2');
    const removed: string[] = [];
    for (let next = order.next(); next !== undefined; next = order.next()) {
      removed.push(next);
      order.delete(next.charAt(0), next);
    }
    expect(removed).toEqual(['a1', 'b1', 'a2', 'b2', 'a3']);
    expect(order.size).toBe(0);
  });

  it('is always the oldest of a largest group, whatever comes and goes', () => {
    const step = fc.record({ group: fc.integer({ min: 0, max: 4 }), leaves: fc.nat(3) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const order = new EvictionOrder<number, number>();
        const groups = new Map<number, number[]>();
        for (const [member, { group, leaves }] of steps.entries()) {
          const members = groups.get(group) ?? [];
          groups.set(group, members);
          const left = leaves === 0 ? members.splice(0, 1)[0] : undefined;
          if (left === undefined) {
            order.add(group, member);
            members.push(member);
          } else {
            order.delete(group, left);
          }
          const largest = Math.max(...[...groups.values()].map(({ length }) => length));
          const oldest = [...groups.values()]
            .filter(({ length }) => length === largest && length > 0)
            .map(([first]) => first);
          const next = order.next();
          if (oldest.length === 0) expect(next).toBeUndefined();
          else expect(oldest).toContain(next);
        }
      }),
    );
  });
});
