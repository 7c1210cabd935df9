/**
 * Different items in the order in which they were added. Each operation takes constant time on
 * average; the first element of a `Set` whose beginning was deleted would take linear time.
 */
class AgeOrder<Item> {
  readonly #numbers = new Map<Item, number>();
  readonly #items = new Map<number, Item>();
  /** No item has a smaller number. */
  #first = 0;
  #next = 0;

  get size(): number {
    return this.#numbers.size;
  }

  /** Adds an item that is not there. */
  add(item: Item): void {
    this.#numbers.set(item, this.#next);
    this.#items.set(this.#next, item);
    this.#next += 1;
  }

  /** Returns whether the item was there. */
  delete(item: Item): boolean {
    const number = this.#numbers.get(item);
    if (number === undefined) return false;
    this.#numbers.delete(item);
    return this.#items.delete(number);
  }

  /** The item that was added first; undefined when there is none. */
  oldest(): Item | undefined {
    // Each number is passed once.
    while (this.#first < this.#next && !this.#items.has(this.#first)) this.#first += 1;
    return this.#items.get(this.#first);
  }
}

/**
 * Members of groups, in the order in which they are removed to make room: the next one is the
 * oldest member of the largest group, and of equally large groups that which has had this size for
 * longest. Each operation takes constant time on average, whatever the numbers of members and
 * groups are.
 */
export class EvictionOrder<Group, Member> {
  readonly #groups = new Map<Group, AgeOrder<Member>>();
  /** Groups by their size, in the order in which they reached that size. */
  readonly #bySize: AgeOrder<AgeOrder<Member>>[] = [];
  #largest = 0;

  /** Number of groups that have members. */
  get size(): number {
    return this.#groups.size;
  }

  /** Adds a member that is in no group. */
  add(group: Group, member: Member): void {
    const members = this.#groups.get(group) ?? new AgeOrder();
    this.#groups.set(group, members);
    this.#bySize[members.size]?.delete(members);
    members.add(member);
    this.#enter(members);
  }

  /** Removes a member; does nothing where the group does not have it. */
  delete(group: Group, member: Member): void {
    const members = this.#groups.get(group);
    if (members === undefined) return;
    const before = members.size;
    if (!members.delete(member)) return;
    this.#bySize[before]?.delete(members);
    if (members.size === 0) this.#groups.delete(group);
    else this.#enter(members);
    // The largest group has become smaller by one.
    if (this.#bySize[this.#largest]?.size === 0) this.#largest -= 1;
  }

  /** The member to remove next; undefined when there is none. */
  next(): Member | undefined {
    return this.#bySize[this.#largest]?.oldest()?.oldest();
  }

  #enter(members: AgeOrder<Member>): void {
    (this.#bySize[members.size] ??= new AgeOrder()).add(members);
    this.#largest = Math.max(this.#largest, members.size);
  }
}
