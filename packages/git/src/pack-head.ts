import { setImmediate } from 'node:timers/promises';
import {
  owned,
  type Head,
  readHead,
  inflateAt,
  applyDelta,
  idOf,
  parentsOf,
  type EarlyObject,
  type Inflated,
} from './pack-object.ts';
import type { Push, PushBody, RefCommand } from './receive-pack.ts';

/** Limits of `unprovenUpdates`. An update whose proof exceeds a limit counts as not proven. */
export interface ProofLimits {
  /** Maximum bytes of a pack that are read and held in memory until forwarded; default 16 MiB. */
  readonly maxPackBytes: number;
  /** Maximum number of commits and tags; default 100,000. They may have twice as many parents. */
  readonly maxCommits: number;
  /** Maximum bytes of an object; default 1 MiB. */
  readonly maxObjectBytes: number;
  /** Limits CPU time: maximum inflated bytes; default 128 MiB. An object counts as 512 or more. */
  readonly maxInflatedBytes: number;
}

const defaults: ProofLimits = {
  maxPackBytes: 16 * 1024 * 1024,
  maxCommits: 100_000,
  maxObjectBytes: 1024 * 1024,
  maxInflatedBytes: 128 * 1024 * 1024,
};

/** Maximum bytes of objects that are kept in memory as possible bases of deltas. */
const maxHeldBytes = 4 * 1024 * 1024;
const overheadBytes = 256;
/** Minimum bytes that an object counts as, because each object costs a call of zlib. */
const minObjectCost = 512;
/** All checks of a push follow at most this number times `maxCommits` links to parents. */
const maxStepsPerCommit = 20;
/** Cost of following one parent link, as the number of bytes that zlib inflates in this time. */
const stepCost = 16;
/** Cost, in inflated bytes, after which `Turns` yields to the event loop. */
const turnCost = 64 * 1024;
/** Minimum number of further bytes that are read before a truncated object is parsed again. */
const minMoreBytes = 4096;
const packHeaderBytes = 12;

/**
 * Returns the references whose updates the pack of a push does not prove to be fast-forwards. The
 * proof is a chain of commits in the pack, from the new id over parents to the old id. Each id is
 * computed from its commit, so no pack can claim another history. The pack begins at `rest.ahead`.
 * Reads only its commits, which git writes first. All bytes remain in `rest`. An invalid or too
 * large pack ends the search without an error. Throws the errors of the source of `rest`.
 */
export async function unprovenUpdates(
  push: Push,
  rest: PushBody,
  limits: Partial<ProofLimits> = {},
): Promise<readonly string[]> {
  const updates = push.commands.filter(isUpdate);
  const [update] = updates;
  if (update === undefined) return [];
  const all = { ...defaults, ...limits };
  const turns = new Turns();
  const pack = new Pack(rest, update.oldId.length, turns, all);
  const parents: Parents = new Map();
  for await (const { id, parents: ofCommit } of pack.commits())
    if (push.shallow?.has(id) !== true) parents.set(id, ofCommit);
  return unprovenBy(parents, updates, { turns, maxSteps: maxStepsPerCommit * all.maxCommits });
}

const zeros = /^0+$/;

const isUpdate = ({ oldId, newId }: RefCommand): boolean =>
  !zeros.test(oldId) && !zeros.test(newId);

interface Commit {
  readonly id: string;
  readonly parents: readonly string[];
}

type Parents = Map<string, readonly string[]>;

/** Returns the references of updates without a path over `parents` from the new to the old id. */
async function unprovenBy(
  parents: Parents,
  updates: readonly RefCommand[],
  { turns, maxSteps }: { readonly turns: Turns; readonly maxSteps: number },
): Promise<readonly string[]> {
  let steps = maxSteps;
  const isProven = ({ oldId, newId }: RefCommand): boolean => {
    const reached = new Set([newId]);
    // The iteration also visits ids that are added during it.
    for (const id of reached) {
      if (id === oldId) return true;
      for (const parent of parents.get(id) ?? []) {
        if (steps === 0) return false;
        steps--;
        reached.add(parent);
      }
    }
    return false;
  };
  const unproven: string[] = [];
  for (const update of updates) {
    const before = steps;
    if (!isProven(update)) unproven.push(update.ref);
    await turns.take((before - steps) * stepCost);
  }
  return unproven;
}

/** Yields to the event loop each time that `turnCost` bytes of work are done. */
class Turns {
  #cost = 0;

  /** @param cost The work that was done, in bytes of objects. */
  async take(cost: number): Promise<void> {
    this.#cost += cost;
    if (this.#cost < turnCost) return;
    this.#cost = 0;
    await setImmediate();
  }
}

interface Found {
  readonly object: EarlyObject;
  readonly end: number;
}

/** Reads the first commits of a pack. Offset 0 is the pack's start. Source: gitformat-pack.adoc. */
class Pack {
  readonly #body: PushBody;
  readonly #idLength: number;
  readonly #turns: Turns;
  readonly #limits: ProofLimits;
  readonly #offsets = new Map<string, number>();
  /** Possible bases of deltas by offset, the least recently used first. */
  readonly #held = new Map<number, EarlyObject>();
  #heldBytes = 0;
  #inflatedBytes = 0;
  #parents = 0;

  constructor(body: PushBody, idLength: number, turns: Turns, limits: ProofLimits) {
    this.#body = body;
    this.#idLength = idLength;
    this.#turns = turns;
    this.#limits = limits;
  }

  /** Yields the commits before the first tree or blob, the first invalid byte, or a limit. */
  async *commits(): AsyncGenerator<Commit, void, undefined> {
    const count = Math.min(await this.#objectCount(), this.#limits.maxCommits);
    for (let [index, at] = [0, packHeaderBytes]; index < count; index++) {
      const found = await this.#next(at);
      if (found === undefined) return;
      const { object, end } = found;
      const id = idOf(object, this.#idLength);
      this.#offsets.set(id, at);
      this.#hold(at, object);
      if (object.kind === 'commit') {
        const parents = parentsOf(object.content, this.#idLength);
        this.#parents += parents.length;
        if (this.#parents > 2 * this.#limits.maxCommits) return;
        yield { id, parents };
      }
      at = end;
    }
  }

  async #objectCount(): Promise<number> {
    await this.#fill(packHeaderBytes);
    const bytes = this.#bytes;
    const isPack =
      bytes.length >= packHeaderBytes &&
      bytes.toString('latin1', 0, 4) === 'PACK' &&
      [2, 3].includes(bytes.readUInt32BE(4));
    return isPack ? bytes.readUInt32BE(8) : 0;
  }

  get #bytes(): Buffer {
    return this.#body.ahead.subarray(0, this.#limits.maxPackBytes);
  }

  /** Reads until `bytes` are held, the body ends, or `maxPackBytes` are held. */
  async #fill(bytes: number): Promise<void> {
    const wanted = Math.min(bytes, this.#limits.maxPackBytes);
    while (this.#body.ahead.length < wanted && (await this.#body.more()));
  }

  /**
   * Reads the object at `at`. Parses a truncated object again only after twice its bytes have
   * arrived, so that a body in small chunks does not multiply the work.
   */
  async #next(at: number): Promise<Found | undefined> {
    for (let wanted = at + 1; ;) {
      await this.#fill(wanted);
      const bytes = this.#bytes;
      const found = await this.#read(bytes, at);
      if (found !== 'truncated') return found;
      if (bytes.length < wanted) return undefined;
      wanted = bytes.length + Math.max(minMoreBytes, bytes.length - at);
    }
  }

  async #read(bytes: Buffer, at: number): Promise<Found | 'truncated' | undefined> {
    const head = readHead(bytes, at, this.#idLength);
    if (head === 'truncated' || head === undefined) return head;
    const { kind } = head;
    const baseAt = this.#baseOf(head, at);
    if (kind === 'delta' && baseAt === undefined) return undefined;
    const data = await this.#inflate(bytes, head);
    if (data === 'truncated' || data === undefined) return data;
    const { content, end } = data;
    if (kind !== 'delta') return { object: { kind, content }, end };
    const base = baseAt === undefined ? undefined : await this.#resolve(bytes, baseAt);
    const object = base && (await this.#patch(base, content));
    return object && { object, end };
  }

  /** Returns the offset of a delta's base, which has to precede it, so that no chain is a cycle. */
  #baseOf({ base }: Head, at: number): number | undefined {
    const offset = typeof base === 'string' ? this.#offsets.get(base) : base;
    return offset !== undefined && offset >= packHeaderBytes && offset < at ? offset : undefined;
  }

  /** Returns the object at an earlier offset. Reads the object again unless `#held` contains it. */
  async #resolve(bytes: Buffer, offset: number): Promise<EarlyObject | undefined> {
    const deltas: { readonly at: number; readonly head: Head }[] = [];
    let object: EarlyObject | undefined;
    for (let at = offset; ;) {
      object = this.#held.get(at);
      if (object !== undefined) {
        this.#hold(at, object);
        break;
      }
      const head = readHead(bytes, at, this.#idLength);
      if (head === 'truncated' || head === undefined) return undefined;
      if (head.kind !== 'delta') {
        const data = await this.#inflate(bytes, head);
        if (data === 'truncated' || data === undefined) return undefined;
        object = { kind: head.kind, content: data.content };
        this.#hold(at, object);
        break;
      }
      deltas.push({ at, head });
      const baseAt = this.#baseOf(head, at);
      if (baseAt === undefined) return undefined;
      at = baseAt;
    }
    for (const { at, head } of deltas.reverse()) {
      const data = await this.#inflate(bytes, head);
      if (data === 'truncated' || data === undefined) return undefined;
      object = await this.#patch(object, data.content);
      if (object === undefined) return undefined;
      this.#hold(at, object);
    }
    return object;
  }

  async #patch({ kind, content }: EarlyObject, delta: Buffer): Promise<EarlyObject | undefined> {
    const patched = applyDelta(content, delta, this.#limits.maxObjectBytes);
    if (patched === undefined || !(await this.#spend(patched.length))) return undefined;
    return { kind, content: patched };
  }

  async #inflate(
    bytes: Buffer,
    { size, dataAt }: Head,
  ): Promise<Inflated | 'truncated' | undefined> {
    if (size > this.#limits.maxObjectBytes) return undefined;
    const data = inflateAt(bytes, dataAt, size);
    // A truncated object costs nothing, so the result does not depend on the chunks of the body.
    return typeof data !== 'object' || (await this.#spend(size)) ? data : undefined;
  }

  async #spend(size: number): Promise<boolean> {
    const cost = Math.max(size, minObjectCost);
    this.#inflatedBytes += cost;
    await this.#turns.take(cost);
    return this.#inflatedBytes <= this.#limits.maxInflatedBytes;
  }

  #hold(at: number, { kind, content }: EarlyObject): void {
    const size = (held: EarlyObject): number => held.content.length + overheadBytes;
    const known = this.#held.get(at);
    if (known !== undefined) this.#heldBytes -= size(known);
    const object = { kind, content: owned(content) };
    this.#held.delete(at);
    this.#held.set(at, object);
    this.#heldBytes += size(object);
    for (const [oldest, held] of this.#held) {
      if (this.#heldBytes <= maxHeldBytes) break;
      this.#held.delete(oldest);
      this.#heldBytes -= size(held);
    }
  }
}
