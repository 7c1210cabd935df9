import { backoffDelayMs, type BackoffOptions } from '@conversation-operator/base/backoff';
import type { Clock, Timer } from '@conversation-operator/base/clock';
import { recentlyUsed } from '@conversation-operator/base/recently-used';
import type { Release } from '@conversation-operator/base/shares';
import { TokenBucket } from '@conversation-operator/base/token-bucket';
import { FairQueue } from '../../budget/fair-queue.ts';
import type { KeyLimits, UseLimits } from '../../models/key-limits.ts';
import type { ModelWaitReason } from '../../resources/conversation-status.ts';

export interface UpstreamKeyOptions {
  readonly limits?: Pick<KeyLimits, 'calls' | 'tokensPerMinute' | 'perOwner'> | undefined;
  readonly clock: Pick<Clock, 'monotonic' | 'after'>;
  readonly random: () => number;
  /** Called when the key begins a rest, with its length. */
  readonly onRest?: (ms: number) => void;
  /** Called once at the end of each wait. */
  readonly onWaited?: (reason: ModelWaitReason, ms: number) => void;
}

export interface KeyedCall {
  readonly owner: string;
  /** Estimate of its tokens. */
  readonly tokens: number;
  /** Time of its first attempt. A call that was refused keeps its place among those of its owner. */
  readonly arrivedMs: number;
  /** Aborts when the agent has left. */
  readonly signal: AbortSignal;
  /** Takes room for a call that has to wait; undefined if there is none. Absent: there always is. */
  readonly room?: () => Release | undefined;
  /** Called while the call waits, when at least three more seconds are expected. */
  readonly onWait?: (expected: ExpectedWait) => void;
}

export interface ExpectedWait {
  readonly reason: ModelWaitReason;
  readonly ms: number;
}

/** A wait that has taken too long, or for which there is no room. */
export interface WaitedTooLong {
  readonly reason: ModelWaitReason;
  /** Time after which the agent may try again. */
  readonly retryAfterMs: number;
}

/** A call under way. */
export interface Attempt {
  /** The provider has accepted the call. */
  accept(): void;
  /**
   * The provider has refused the call, which ends. Resolves with another attempt as `begin` does.
   */
  refuse(namedMs: number | undefined, maxWaitMs: number): Promise<Attempt | WaitedTooLong>;
  /** Counts these tokens in place of the estimate. Only the first call has an effect. */
  use(tokens: number): void;
  /** Ends the call, which counts no tokens unless `use` was called. */
  end(): void;
}

/** Why a call may not be made now. */
interface Obstacle {
  readonly reason: ModelWaitReason;
  /** Whether only calls of this owner wait for it. */
  readonly isOfOwner: boolean;
  /** Time at which it is over by itself; Infinity: the end of another call decides. */
  readonly atMs: number;
}

interface Waiter extends KeyedCall {
  readonly sinceMs: number;
  readonly enter: (attempt: Attempt) => void;
}

/** Rests of a key whose provider names no time, from 1 s to 30 s with the jitter. */
const backoff: BackoffOptions = { baseMs: 1_000, capMs: 24_000, jitter: 0.25 };
/** A call that the provider has not refused by then is accepted: refusals come at once. */
const acceptedAfterMs = 5_000;
/** Least wait that people are told of, and the next times at which they are. */
const toldAfterMs = 3_000;
const toldEveryMs = 5_000;
/** Wait that people are told of where nothing says how long it takes. */
const unknownWaitMs = 10_000;
/** Maximum owners whose use is in memory. A forgotten one begins with a full bucket. */
const maxOwners = 10_000;
/** Time after which all that a key without calls remembers is over: its rest, and every debt. */
const idleMs = 120_000;

const everyRoom = (): Release => () => undefined;

const bucketOf = ({ tokensPerMinute: burst }: UseLimits = {}): TokenBucket | undefined =>
  burst === undefined ? undefined : new TokenBucket({ burst, intervalMs: 60_000 / burst });

/** A call counts as two minutes' tokens at most: an answer with a false usage stops nobody longer. */
const countedOf = (tokens: number, { tokensPerMinute = 0 }: UseLimits = {}): number =>
  Math.min(tokens, 2 * tokensPerMinute);

/**
 * One key at one server, which all owners share. Calls wait in turn by owner, each owner's in their
 * order, for the limits of the key and of the owner. After the provider has refused a call the key
 * rests; then one call is made, and one more at once for each that the provider accepts.
 *
 * The owners take turns in making the first call after a rest, which has the best chance. Otherwise
 * one owner could always come when the provider has room, and another one always just after it.
 *
 * A call that waits for its owner's limits delays nobody else. One that waits for the limits of the
 * key is overtaken by none, however many tokens it needs.
 */
export class UpstreamKey {
  readonly #options: UpstreamKeyOptions;
  readonly #queue = new FairQueue<Waiter>();
  readonly #callsOf = new Map<string, number>();
  readonly #tokens: TokenBucket | undefined;
  readonly #tokensOf = recentlyUsed<TokenBucket>(maxOwners);
  #underWay = 0;
  #restUntilMs = -Infinity;
  /** Consecutive rests without a call that was accepted. */
  #rests = 0;
  /** Number of the current time between two rests. */
  #period = 0;
  /** Maximum calls that were begun since the last rest. */
  #window = Infinity;
  #underWayOfPeriod = 0;
  /** Whether a call was begun since the last rest. */
  #isTried = true;
  /** Last period of which an owner made the first call. */
  readonly #trialOf = recentlyUsed<number>(maxOwners);
  #lastUsedMs = -Infinity;
  #wake: Timer | undefined;

  constructor(options: UpstreamKeyOptions) {
    this.#options = options;
    this.#tokens = bucketOf(options.limits);
  }

  /** Whether nothing is lost when this is forgotten. */
  get isUnused(): boolean {
    const idleSinceMs = this.#options.clock.monotonic() - idleMs;
    return this.#underWay === 0 && this.#queue.isEmpty && this.#lastUsedMs <= idleSinceMs;
  }

  /**
   * Resolves once the call may be made, and is under way until its end, or with the reason why it
   * has waited too long. Rejects with the reason of its signal.
   */
  begin(call: KeyedCall, maxWaitMs: number): Promise<Attempt | WaitedTooLong> {
    const { clock, onWaited } = this.#options;
    const { owner, signal, onWait } = call;
    if (signal.aborted) return Promise.reject(signal.reason as Error);
    this.#lastUsedMs = clock.monotonic();
    return new Promise((resolve, reject) => {
      const sinceMs = clock.monotonic();
      const { reason } = this.#delayOf(call);
      const timers = new Set<Timer>();
      const state = { isOver: false };
      let leaveRoom: Release | undefined = undefined;
      const end = (): void => {
        state.isOver = true;
        leaveRoom?.();
        for (const timer of timers) timer.cancel();
        signal.removeEventListener('abort', onAbort);
        if (timers.size > 0) onWaited?.(reason, clock.monotonic() - sinceMs);
      };
      const leave = (settle: () => void): void => {
        this.#queue.remove(owner, waiter);
        end();
        settle();
        // The call may have been in the way of others.
        this.#serve();
      };
      const onAbort = (): void => leave(() => reject(signal.reason as Error));
      const waiter: Waiter = {
        ...call,
        sinceMs,
        enter: (attempt) => {
          end();
          resolve(attempt);
        },
      };
      this.#queue.add(owner, waiter, ({ arrivedMs }) => arrivedMs > call.arrivedMs);
      this.#serve();
      if (state.isOver) return;
      leaveRoom = (call.room ?? everyRoom)();
      if (leaveRoom === undefined) {
        leave(() => resolve(this.#tooLong(call)));
        return;
      }
      signal.addEventListener('abort', onAbort, { once: true });
      timers.add(clock.after(maxWaitMs, () => leave(() => resolve(this.#tooLong(call)))));
      if (onWait !== undefined) this.#tell(waiter, timers);
    });
  }

  /** Tells how long the call is expected to wait, now and every few seconds. */
  #tell(waiter: Waiter, timers: Set<Timer>): void {
    const { clock } = this.#options;
    const nowMs = clock.monotonic();
    const { reason, atMs } = this.#delayOf(waiter);
    const knownMs = Number.isFinite(atMs) ? atMs - nowMs : 0;
    const hasWaited = nowMs - waiter.sinceMs >= toldAfterMs;
    if (knownMs >= toldAfterMs) waiter.onWait?.({ reason, ms: knownMs });
    else if (hasWaited) waiter.onWait?.({ reason, ms: unknownWaitMs });
    const timer = clock.after(hasWaited ? toldEveryMs : toldAfterMs, () => {
      timers.delete(timer);
      this.#tell(waiter, timers);
    });
    timers.add(timer);
  }

  #tooLong(call: KeyedCall): WaitedTooLong {
    const { reason, atMs } = this.#delayOf(call);
    const leftMs = Number.isFinite(atMs) ? atMs - this.#options.clock.monotonic() : unknownWaitMs;
    return { reason, retryAfterMs: Math.max(1_000, leftMs) };
  }

  /** Why a call waits. One that finds nothing in its own way waits for those before it. */
  #delayOf(call: KeyedCall): Obstacle {
    const reason = Number.isFinite(this.#window) ? 'RateLimit' : 'Share';
    return this.#obstacleOf(call) ?? { reason, isOfOwner: false, atMs: Infinity };
  }

  #obstacleOf({ owner, tokens }: KeyedCall): Obstacle | undefined {
    const { limits = {}, clock } = this.#options;
    const nowMs = clock.monotonic();
    if (this.#restUntilMs > nowMs)
      return { reason: 'RateLimit', isOfOwner: false, atMs: this.#restUntilMs };
    if (this.#underWayOfPeriod >= this.#window)
      return { reason: 'RateLimit', isOfOwner: false, atMs: Infinity };
    const share = (isOfOwner: boolean, atMs: number): Obstacle => ({
      reason: 'Share',
      isOfOwner,
      atMs,
    });
    const { calls = Infinity, perOwner = {} } = limits;
    if ((this.#callsOf.get(owner) ?? 0) >= (perOwner.calls ?? Infinity))
      return share(true, Infinity);
    const ownerAtMs = this.#tokensOf.get(owner)?.readyAtFor(tokens) ?? -Infinity;
    if (ownerAtMs > nowMs) return share(true, ownerAtMs);
    if (this.#underWay >= calls) return share(false, Infinity);
    const atMs = this.#tokens?.readyAtFor(tokens) ?? -Infinity;
    return atMs > nowMs ? share(false, atMs) : undefined;
  }

  /** The first call of each owner, in the order in which they are served. */
  #next(): Iterable<Waiter> {
    if (this.#isTried) return this.#queue.heads();
    const trialOf = ({ owner }: Waiter): number => this.#trialOf.get(owner) ?? -1;
    return [...this.#queue.heads()].sort((one, other) => trialOf(one) - trialOf(other));
  }

  /** Lets the calls go that may, and sets the timer for the next one that time alone holds up. */
  #serve(): void {
    this.#wake?.cancel();
    this.#wake = undefined;
    let nextAtMs = Infinity;
    for (const waiter of this.#next()) {
      const obstacle = this.#obstacleOf(waiter);
      if (obstacle === undefined) {
        this.#queue.remove(waiter.owner, waiter, { isServed: true });
        waiter.enter(this.#attempt(waiter));
        continue;
      }
      nextAtMs = Math.min(nextAtMs, obstacle.atMs);
      if (!obstacle.isOfOwner) break;
    }
    if (!Number.isFinite(nextAtMs)) return;
    const { clock } = this.#options;
    // A timer may fire a little early; the least delay keeps it from firing over and over.
    const delayMs = Math.max(1, nextAtMs - clock.monotonic());
    this.#wake = clock.after(delayMs, () => this.#serve());
  }

  #attempt(call: KeyedCall): Attempt {
    const { clock } = this.#options;
    const { owner, tokens: estimate } = call;
    const period = this.#period;
    if (!this.#isTried) this.#trialOf.set(owner, period);
    this.#isTried = true;
    this.#count(owner, 1);
    this.#underWayOfPeriod += 1;
    this.#countTokens(owner, { before: 0, after: estimate });
    let [isAccepted, isOver] = [false, false];
    let used: number | undefined = undefined;
    const accept = (): void => {
      timer?.cancel();
      if (isAccepted || isOver) return;
      isAccepted = true;
      this.#accept(period);
    };
    const timer = Number.isFinite(this.#window) ? clock.after(acceptedAfterMs, accept) : undefined;
    const end = (): void => {
      timer?.cancel();
      if (isOver) return;
      isOver = true;
      this.#count(owner, -1);
      if (period === this.#period) this.#underWayOfPeriod -= 1;
      if (used === undefined) this.#countTokens(owner, { before: estimate, after: 0 });
      this.#lastUsedMs = clock.monotonic();
      this.#serve();
    };
    return {
      accept,
      refuse: (namedMs, maxWaitMs) => {
        this.#rest(period, namedMs);
        const again = this.begin(call, maxWaitMs);
        end();
        return again;
      },
      use: (tokens) => {
        if (used !== undefined || isOver) return;
        used = tokens;
        this.#countTokens(owner, { before: estimate, after: tokens });
        this.#serve();
      },
      end,
    };
  }

  #count(owner: string, change: number): void {
    this.#underWay += change;
    const calls = (this.#callsOf.get(owner) ?? 0) + change;
    if (calls === 0) this.#callsOf.delete(owner);
    else this.#callsOf.set(owner, calls);
  }

  /** Counts a call with other tokens than before. */
  #countTokens(
    owner: string,
    { before, after }: { readonly before: number; readonly after: number },
  ): void {
    const { clock, limits } = this.#options;
    const nowMs = clock.monotonic();
    this.#tokens?.take(nowMs, countedOf(after, limits) - countedOf(before, limits));
    const perOwner = limits?.perOwner;
    const ofOwner = this.#tokensOf.get(owner) ?? bucketOf(perOwner);
    if (ofOwner === undefined) return;
    ofOwner.take(nowMs, countedOf(after, perOwner) - countedOf(before, perOwner));
    this.#tokensOf.set(owner, ofOwner);
  }

  /** The provider has accepted a call that was begun in this period. */
  #accept(period: number): void {
    if (period !== this.#period) return;
    this.#rests = 0;
    this.#window += 1;
    this.#serve();
  }

  /**
   * The provider has refused a call that was begun in this period. The refusals of the calls that
   * were under way when a rest began are one refusal.
   */
  #rest(period: number, namedMs: number | undefined): void {
    const { clock, random, onRest } = this.#options;
    const isNew = period === this.#period;
    if (isNew) {
      this.#period += 1;
      this.#rests += 1;
      this.#window = 1;
      this.#underWayOfPeriod = 0;
      this.#isTried = false;
    }
    const nowMs = clock.monotonic();
    const restMs = namedMs ?? (isNew ? backoffDelayMs(backoff, this.#rests, random) : 0);
    this.#restUntilMs = Math.max(this.#restUntilMs, nowMs + restMs);
    if (isNew) onRest?.(restMs);
  }
}
