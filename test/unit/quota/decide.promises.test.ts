import fc from 'fast-check';
import { Snapshot } from '../../../src/quota/snapshot.ts';
import { decide, wakeAt, type Decision } from '../../../src/quota/decide.ts';
import type { Slot, SlotState } from '../../../src/quota/slot.ts';
import { quotaRules } from '../../../src/quota/rules.ts';
import type { ConversationQuotaSpec } from '../../../src/resources/conversation-quota.ts';
import { aQuota, aSlot } from '../../support/builders.ts';

type Wish = Partial<ConversationQuotaSpec> | undefined;

const burst = 2;
const intervalMs = 3_000;
const waits = ({ state }: Slot) => state === 'waiting';
const taken = (slot: Slot) => slot.taken;
const makesRoom = (rule: Wish) => rule?.onExceeded?.startsWith('Pause') === true;
const rankOf = ({ state, confirming, automatic }: Slot) =>
  state === 'starting' ? 0 : confirming ? 3 : automatic ? 1 : 2;
const holds = ({ state }: Slot) => state === 'starting' || state === 'running';

/**
 * A world that obeys every step at once, or a little later, and in which people do as they like.
 */
class World {
  snapshot = new Snapshot({ burst, intervalMs });
  now = 1_000;
  rules: { owner: Wish; namespace: Wish } = { owner: undefined, namespace: undefined };
  pauses = 0;
  readonly resumes: number[] = [];

  setQuotas(owner: Wish, namespace: Wish): void {
    this.rules = { owner, namespace };
    const quotas = [owner, namespace].map((spec, index) =>
      spec === undefined
        ? []
        : [aQuota(`q${index}`, { ...spec, scope: index === 0 ? 'Owner' : 'Namespace' })],
    );
    this.snapshot.setRules(quotaRules(quotas.flat()));
  }

  get slots(): readonly Slot[] {
    return [...this.snapshot.slots()];
  }

  of(owner: string): readonly Slot[] {
    return this.slots.filter((slot) => slot.owner === owner);
  }

  /** Both limits, each with those who share it. */
  limits(
    owner: string,
  ): readonly { readonly limit: number; readonly rule: Wish; readonly slots: readonly Slot[] }[] {
    return [
      ...(owner === ''
        ? []
        : [
            {
              rule: this.rules.owner,
              limit: this.rules.owner?.limit ?? Infinity,
              slots: this.of(owner),
            },
          ]),
      {
        rule: this.rules.namespace,
        limit: this.rules.namespace?.limit ?? Infinity,
        slots: this.slots,
      },
    ];
  }

  /** Whether a newcomer or an automatic resume has room under the limit of its owner. */
  wantsSlot(slot: Slot): boolean {
    const room = (this.rules.owner?.limit ?? Infinity) - this.of(slot.owner).filter(holds).length;
    const mayResume = slot.state === 'resumable' && slot.resumesAt <= this.now;
    return room > 0 && slot.owner !== '' && (waits(slot) || mayResume);
  }

  /** A spare makes room for a sandbox of an owner that has none, or for a lowered limit. */
  spareEvicted(): void {
    const limit = this.rules.namespace?.limit ?? Infinity;
    const wanting = this.slots.filter((slot) => this.wantsSlot(slot)).length;
    expect(this.slots.filter(holds).length + wanting).toBeGreaterThan(limit);
  }

  /** Takes every step there is, and checks each. */
  settle(): void {
    for (let steps = 0; ; steps++) {
      const step = decide(this.snapshot, this.now);
      if (step === undefined) return;
      expect(steps).toBeLessThan(1000);
      this.apply(step);
    }
  }

  apply(step: Decision): void {
    const { slot, kind } = step;
    const change = (state: SlotState, more: Partial<Slot> = {}) =>
      this.snapshot.put({
        ...slot,
        ...more,
        state,
        taken: ['starting', 'running', 'freeing'].includes(state),
      });
    if (kind === 'admit') {
      if (step.resumed) this.cameBack(slot);
      else this.admitted(slot);
      // A sandbox that resumes automatically and hangs is stalled some time later.
      if (slot.spare) change('running');
      else change('starting', { stalledAt: this.now + 6_000, automatic: step.resumed });
      for (const { limit, slots } of this.limits(slot.owner))
        expect(slots.filter(({ taken }) => taken).length).toBeLessThanOrEqual(limit);
    } else if (kind === 'evict') {
      if (slot.spare) this.spareEvicted();
      else this.evicted(slot);
      if (!slot.spare) this.pauses++;
      change('freeing', { pausedSince: this.now, confirming: false });
    } else if (kind === 'wait') change('waiting', { explained: true });
    else if (kind === 'reject') change('suspended');
    else if (kind === 'release') change('none', { releasable: false });
  }

  /** Newcomers come in order, those with work to do first. */
  admitted(slot: Slot): void {
    const before = (other: Slot) =>
      other.bare === slot.bare ? other.requestedAt < slot.requestedAt : slot.bare;
    expect(this.of(slot.owner).filter((other) => waits(other) && before(other))).toEqual([]);
  }

  /**
   * An automatic resume takes a slot that no newcomer of its owner wants, after its delay, at a
   * bounded rate.
   */
  cameBack(slot: Slot): void {
    expect(this.of(slot.owner).filter(waits)).toEqual([]);
    expect(slot.resumesAt).toBeLessThanOrEqual(this.now);
    this.resumes.push(this.now);
    const first = this.resumes.at(-burst - 1);
    if (first !== undefined) expect(this.now - first).toBeGreaterThanOrEqual(intervalMs);
  }

  evicted(slot: Slot): void {
    if (slot.state === 'starting') expect(slot.stalledAt).toBeLessThanOrEqual(this.now);
    else expect(slot.state).toBe('running');
    const exceeded = (among: (other: Slot) => boolean) =>
      this.limits(slot.owner)
        .map((one) => ({ ...one, slots: one.slots.filter(({ spare }) => !spare) }))
        .filter(
          ({ limit, rule, slots }) =>
            slots.filter(holds).length + (makesRoom(rule) ? slots.filter(among).length : 0) > limit,
        );
    const needed = exceeded((other) => waits(other) && !other.bare);
    // The agent that does no work goes first, then automatically resumed sandboxes, and what waits
    // for a person last.
    const isFirst = (slots: readonly Slot[]) =>
      !slots.some((other) => this.isRipe(other) && rankOf(other) < rankOf(slot));
    if (needed.length > 0) {
      expect(needed.some(({ slots }) => isFirst(slots))).toBe(true);
      return;
    }
    // No eviction for an automatic resume, and for a bare resume only of an idle sandbox.
    const forBare = exceeded(waits);
    expect(forBare.length).toBeGreaterThan(0);
    expect(slot.idleSince).toBeLessThan(Infinity);
    const idle = (slots: readonly Slot[]) => slots.filter(({ idleSince }) => idleSince < Infinity);
    expect(forBare.some(({ slots }) => isFirst(idle(slots)))).toBe(true);
    // A limit that keeps newcomers out and evicts no sandbox would give the slot to another one.
    const keepsOut = this.limits(slot.owner).some(({ limit: most, rule }) => {
      const limit = this.rules.owner?.limit ?? Infinity;
      const demand = ['alice', 'bob']
        .map((name) => this.of(name))
        .reduce((sum, own) => {
          const room = Math.max(0, limit - own.filter(holds).length);
          return sum + Math.min(own.filter(waits).length, room);
        }, 0);
      return (
        rule === this.rules.namespace &&
        !makesRoom(rule) &&
        this.slots.filter((one) => holds(one) && !one.spare).length + demand > most
      );
    });
    expect(keepsOut).toBe(false);
  }

  isRipe({ state, stalledAt, activeSince }: Slot): boolean {
    return state === 'starting'
      ? stalledAt <= this.now
      : state === 'running' && this.now >= activeSince + 5_000;
  }

  /** An admitted sandbox runs, and a stopped one is gone. */
  work(): void {
    for (const slot of this.slots) {
      if (slot.state === 'starting' && slot.stalledAt === Infinity) continue;
      if (slot.state === 'starting' && !slot.name.endsWith('hangs'))
        this.snapshot.put({
          ...slot,
          state: 'running',
          activeSince: this.now,
          stalledAt: Infinity,
          idleSince: slot.bare ? this.now : Infinity,
        });
      if (slot.state !== 'freeing') continue;
      if (slot.spare) {
        this.snapshot.put({ ...slot, taken: false, state: 'suspended' });
        continue;
      }
      const comesBack = !slot.automatic || slot.unfinished;
      const more = {
        taken: false,
        resumesAt: slot.automatic ? this.now + 5_000 : 0,
        automatic: false,
      };
      this.snapshot.put({
        ...slot,
        ...more,
        state: slot.releasable ? 'none' : comesBack ? 'resumable' : 'suspended',
      });
    }
  }

  /** A newcomer arrives that may have a slot, or be given one, and gets none. */
  unserved(): readonly string[] {
    return this.slots.flatMap((slot) => {
      const full = this.limits(slot.owner).filter(
        ({ limit, slots }) => slots.filter(taken).length >= limit,
      );
      if (slot.spare && slot.state === 'suspended' && full.length === 0)
        return [`${slot.uid} is a spare without a slot while there is room`];
      if (
        this.wantsSlot(slot) &&
        this.slots.some(({ spare, state }) => spare && state === 'running')
      )
        return [`${slot.uid} ${slot.state} while a spare holds a slot`];
      if (!waits(slot) && slot.state !== 'resumable') return [];
      if (full.length === 0) return [`${slot.uid} ${slot.state} while there is room`];
      const [decides] = full;
      if (!waits(slot) || decides === undefined || full.length > 1) return [];
      if (decides.rule?.onExceeded === 'Reject') return [`${slot.uid} waits, and is not refused`];
      const victim = decides.slots.find(
        (other) => this.isRipe(other) && (!slot.bare || other.idleSince < Infinity),
      );
      return victim === undefined || !makesRoom(decides.rule)
        ? []
        : [`${slot.uid} waits, and ${victim.uid} could be paused`];
    });
  }
}

const policy = fc.constantFrom(
  'PauseOldest' as const,
  'PauseOldest' as const,
  'PauseLongestIdle' as const,
  'Queue' as const,
  'Reject' as const,
);
const limit = fc.constantFrom(1, 1, 1, 2, 2, 3, 0);
const quota = fc.option(
  fc.record({ limit, onExceeded: policy, minActiveSeconds: fc.constantFrom(0, 0, 5) }),
  { nil: undefined },
);
const owner = fc.constantFrom('alice', 'alice', 'bob');
const which = fc.nat();
const event = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('come' as const),
      owner,
      bare: fc.boolean(),
      hangs: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('pool' as const) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('leave' as const), which }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('work' as const),
      ms: fc.integer({ min: 0, max: 4000 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ kind: fc.constant('ask' as const), which, bare: fc.boolean() }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('send' as const), which }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('turn' as const),
      which,
      to: fc.constantFrom('idle', 'busy', 'confirming', 'silent'),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('quotas' as const), owner: quota, namespace: quota }),
  },
);
type Happening = typeof event extends fc.Arbitrary<infer T> ? T : never;

function happen(world: World, happens: Happening, count: number): void {
  const { slots } = world;
  const at = 'which' in happens ? slots[happens.which % Math.max(1, slots.length)] : undefined;
  const asks = { requestedAt: world.now, explained: false, automatic: false };
  if (happens.kind === 'come') {
    const name = `s${String(count).padStart(3, '0')}${happens.hangs ? 'hangs' : ''}`;
    world.snapshot.put(
      aSlot(name, 'waiting', {
        ...asks,
        owner: happens.owner,
        bare: happens.bare,
        unfinished: count % 2 === 0,
      }),
    );
  } else if (happens.kind === 'pool') {
    const name = `s${String(count).padStart(3, '0')}spare`;
    world.snapshot.put(aSlot(name, 'suspended', { owner: '', spare: true }));
  } else if (happens.kind === 'quotas') world.setQuotas(happens.owner, happens.namespace);
  else if (happens.kind === 'work') {
    world.now += happens.ms;
    world.work();
  }
  if (at === undefined) return;
  if (happens.kind === 'leave') world.snapshot.remove(at.uid);
  if (at.spare) return;
  if (happens.kind === 'ask' && ['resumable', 'suspended'].includes(at.state))
    world.snapshot.put({ ...at, ...asks, state: 'waiting', bare: happens.bare });
  if (happens.kind === 'send' && at.state === 'waiting') world.snapshot.put({ ...at, bare: false });
  if (happens.kind === 'turn' && at.state === 'running') {
    const idleSince = happens.to === 'idle' ? world.now : Infinity;
    const stalled =
      happens.to === 'silent' ? { state: 'starting' as const, stalledAt: world.now + 2_000 } : {};
    world.snapshot.put({ ...at, idleSince, confirming: happens.to === 'confirming', ...stalled });
  }
}

it('holds every promise whatever happens', () => {
  fc.assert(
    fc.property(
      quota,
      quota,
      fc.array(event, { minLength: 5, maxLength: 60, size: 'max' }),
      (ofOwner, ofNamespace, events) => {
        const world = new World();
        world.setQuotas(ofOwner, ofNamespace);
        for (const [count, happens] of events.entries()) {
          world.now += 10;
          happen(world, happens, count);
          world.settle();
        }
        // Nothing new arrives: everything comes to rest, woken only at the time that it has asked
        // for, and then no sandbox is evicted any more.
        const rest = () => {
          for (let round = 0; round < 100; round++) {
            world.work();
            world.settle();
            const wakesAt = wakeAt(world.snapshot, world.now);
            if (wakesAt < Infinity) world.now = Math.max(world.now, wakesAt);
          }
          world.now += 6_000;
          expect(world.unserved()).toEqual([]);
        };
        rest();
        const { pauses } = world;
        rest();
        expect(world.pauses).toBe(pauses);
        // Some leave: the others take their room.
        for (const slot of world.slots.filter((_, index) => index % 2 === 0))
          world.snapshot.remove(slot.uid);
        rest();
        world.setQuotas(undefined, undefined);
        rest();
        expect(wakeAt(world.snapshot, world.now)).toBe(Infinity);
      },
    ),
    { numRuns: 500 },
  );
});
