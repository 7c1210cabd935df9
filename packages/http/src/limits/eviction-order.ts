import { AgeOrder } from './age-order.ts';

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
