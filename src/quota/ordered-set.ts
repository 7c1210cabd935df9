interface Node<T> {
  readonly value: T;
  readonly priority: number;
  size: number;
  left: Node<T> | undefined;
  right: Node<T> | undefined;
}

const sizeOf = (node: Node<unknown> | undefined): number => node?.size ?? 0;

/**
 * Values in the order of `compare`, which must give 0 for equal values only, and the same result
 * each time for a value that is in the set. Every operation takes time logarithmic in the size (a
 * treap; its priorities come from a fixed sequence).
 */
export class OrderedSet<T> {
  readonly #compare: (one: T, other: T) => number;
  #root: Node<T> | undefined;
  #seed = 0x9e3779b9;

  constructor(compare: (one: T, other: T) => number) {
    this.#compare = compare;
  }

  get size(): number {
    return sizeOf(this.#root);
  }

  get first(): T | undefined {
    let node = this.#root;
    while (node?.left !== undefined) node = node.left;
    return node?.value;
  }

  get last(): T | undefined {
    let node = this.#root;
    while (node?.right !== undefined) node = node.right;
    return node?.value;
  }

  /** The value with `index` values before it; undefined beyond the end. */
  at(index: number): T | undefined {
    let node = this.#root;
    let before = index;
    while (node !== undefined) {
      const left = sizeOf(node.left);
      if (before === left) return node.value;
      if (before < left) node = node.left;
      else {
        before -= left + 1;
        node = node.right;
      }
    }
    return undefined;
  }

  has(value: T): boolean {
    let node = this.#root;
    while (node !== undefined) {
      const order = this.#compare(value, node.value);
      if (order === 0) return true;
      node = order < 0 ? node.left : node.right;
    }
    return false;
  }

  /** Must not be in the set yet. */
  add(value: T): void {
    const [before, after] = this.#split(this.#root, value);
    const node: Node<T> = {
      value,
      priority: this.#random(),
      size: 1,
      left: undefined,
      right: undefined,
    };
    this.#root = merge(merge(before, node), after);
  }

  /** Whether it was there. */
  delete(value: T): boolean {
    if (!this.has(value)) return false;
    this.#root = this.#without(this.#root, value);
    return true;
  }

  *[Symbol.iterator](): Generator<T, void, undefined> {
    const path: Node<T>[] = [];
    let node = this.#root;
    while (node !== undefined || path.length > 0) {
      while (node !== undefined) {
        path.push(node);
        node = node.left;
      }
      const next = path.pop();
      if (next === undefined) return;
      yield next.value;
      node = next.right;
    }
  }

  #split(node: Node<T> | undefined, value: T): [Node<T> | undefined, Node<T> | undefined] {
    if (node === undefined) return [undefined, undefined];
    if (this.#compare(node.value, value) < 0) {
      const [before, after] = this.#split(node.right, value);
      node.right = before;
      return [measured(node), after];
    }
    const [before, after] = this.#split(node.left, value);
    node.left = after;
    return [before, measured(node)];
  }

  #without(node: Node<T> | undefined, value: T): Node<T> | undefined {
    if (node === undefined) return undefined;
    const order = this.#compare(value, node.value);
    if (order === 0) return merge(node.left, node.right);
    if (order < 0) node.left = this.#without(node.left, value);
    else node.right = this.#without(node.right, value);
    return measured(node);
  }

  /** Marsaglia's xorshift: the same set, built the same way, has the same shape everywhere. */
  #random(): number {
    let seed = this.#seed;
    seed ^= seed << 13;
    seed ^= seed >>> 17;
    seed ^= seed << 5;
    this.#seed = seed;
    return seed;
  }
}

function measured<T>(node: Node<T>): Node<T> {
  node.size = 1 + sizeOf(node.left) + sizeOf(node.right);
  return node;
}

function merge<T>(before: Node<T> | undefined, after: Node<T> | undefined): Node<T> | undefined {
  if (before === undefined) return after;
  if (after === undefined) return before;
  if (before.priority > after.priority) {
    before.right = merge(before.right, after);
    return measured(before);
  }
  after.left = merge(before, after.left);
  return measured(after);
}
