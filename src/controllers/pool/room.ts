/** A pool that wants spares in a namespace. */
interface Wish {
  readonly name: string;
  readonly wanted: number;
}

/**
 * Returns the number of spares that a pool may keep where all pools of a namespace share the room:
 * equal shares, and what one pool does not want goes to the others.
 */
export function shareOfRoom(name: string, wishes: readonly Wish[], room: number): number {
  const ordered = wishes.toSorted(
    (one, other) => one.wanted - other.wanted || (one.name < other.name ? -1 : 1),
  );
  let left = room;
  for (const [index, wish] of ordered.entries()) {
    const share = Math.min(wish.wanted, Math.floor(left / (ordered.length - index)));
    if (wish.name === name) return share;
    left -= share;
  }
  return 0;
}
