import { saturated, sumOf } from './money.ts';
import type { Holder } from './record-store.ts';

/** A part of a share that one call holds. */
export interface Claim {
  readonly amount: number;
  /** Leaves the call with less. */
  lower(amount: number): void;
  /** Ends the claim. Returns what was spent beyond the amount. Only the first call has an effect. */
  settle(spent: number): number;
}

/**
 * What this replica holds of an account under one id of a holder, from the first write to the last.
 * `granted` is never more than what the stored record grants, whichever writes whose outcome is
 * unknown will be applied.
 */
export class Share {
  readonly id: string;
  granted = 0;
  spent = 0;
  reserved = 0;
  /** As of the last version of the record; undefined: the record has not had this holder. */
  stored: Holder | undefined;

  constructor(id: string) {
    this.id = id;
  }

  /** What is spent or in flight. */
  get used(): number {
    return sumOf(this.spent, this.reserved);
  }

  get free(): number {
    return Math.max(0, this.granted - this.used);
  }

  /**
   * Takes a part for a call before the call is made. A claim stays with its share: after the share
   * is lost, or its period is over, its end changes no other share.
   */
  claim(amount: number, onEnd: () => void): Claim {
    let held = amount;
    let isOver = false;
    this.reserved += amount;
    const lowerTo = (less: number) => {
      this.reserved -= held - less;
      held = less;
    };
    return {
      get amount() {
        return held;
      },
      lower: (less) => {
        if (isOver || less >= held) return;
        lowerTo(less);
        onEnd();
      },
      settle: (spent) => {
        if (isOver) return 0;
        isOver = true;
        const excess = Math.max(0, saturated(spent) - held);
        lowerTo(0);
        this.spent = sumOf(this.spent, spent);
        onEnd();
        return excess;
      },
    };
  }

  /** Before a write is sent that grants this much: nothing beyond it may be used from now on. */
  promise(granted: number): void {
    this.granted = Math.min(this.granted, granted);
  }

  /**
   * Takes over what a version of the record has. `isCertain`: no write of this replica can be
   * applied to this version any more.
   */
  confirm(stored: Holder, isCertain: boolean): void {
    this.stored = stored;
    this.granted = isCertain ? stored.granted : Math.min(this.granted, stored.granted);
  }
}
