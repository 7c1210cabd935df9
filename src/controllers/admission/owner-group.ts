import { Group } from '../../quota/group.ts';
import type { Slot } from '../../quota/slot.ts';

export interface OwnerGroup extends Group {
  readonly owner: string;
}

/** An owner with what of it stands in the sets of its domain. */
export class Owner extends Group implements OwnerGroup {
  readonly owner: string;
  ready: Slot | undefined;
  /** The newcomers with work to do that only the namespace's limit may keep out. */
  demand = 0;
  /** The bare resumes of which the same is true. */
  bareDemand = 0;

  constructor(owner: string) {
    super();
    this.owner = owner;
  }
}
