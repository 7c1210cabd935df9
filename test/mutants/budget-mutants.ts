import type { TestedMutant } from './tested-mutant.ts';

const model = {
  test: 'test/simulation/budget/budget-model.test.ts',
  name: 'whenever replicas die and answers are lost',
};
const unit = { test: 'test/unit/budget/ledger.test.ts' };
const share = { ...model, file: 'src/budget/share.ts' };
const account = { ...model, file: 'src/budget/account.ts' };
const escrow = { ...model, file: 'src/budget/account-escrow.ts' };
const record = { ...model, file: 'src/budget/record-escrow.ts' };
const ledger = { ...model, file: 'src/budget/ledger.ts' };

/** Mistakes by which more is spent than a budget allows, or less can be; each name is the mistake. */
export const budgetMutants: Readonly<Record<string, TestedMutant>> = {
  'a call reserves nothing and is charged afterwards': {
    ...share,
    from: 'this.reserved += amount;',
    to: 'held = 0;',
  },
  'the share of a dead replica counts with what it had settled': {
    ...account,
    from: 'withoutHolder(left, id, Math.max(granted, spent))',
    to: 'withoutHolder(left, id, Math.min(granted, spent))',
  },
  'the share of a dead replica is given back': {
    ...account,
    from: 'withoutHolder(left, id, Math.max(granted, spent))',
    to: 'withoutHolder(left, id, 0)',
  },
  'the period of an account begins again': {
    ...account,
    from: 'if (accounts.length <= manyAccounts) return accounts;',
    to: 'if (accounts.length <= manyAccounts) return accounts.filter(({ key, holders }) => holders.length > 0 || endOfAccountMs(key) - keepEndedMs >= nowMs);',
  },
  'a call settles twice': {
    ...share,
    from: 'if (isOver) return 0; isOver = true;',
    to: 'isOver = true;',
  },
  'a share settles twice': {
    ...escrow,
    from: 'this.#leaving = this.#leaving.filter((share) => storedOf(share) !== undefined);',
    to: 'this.#share.spent += this.#leaving.filter((share) => storedOf(share) === undefined).reduce((sum, one) => sum + one.used, 0); this.#leaving = this.#leaving.filter((share) => storedOf(share) !== undefined);',
  },
  'a grant whose write has no known outcome is used': {
    ...record,
    from: "if (outcome.kind === 'unknown') this.#doubtful = record.version;",
    to: "if (outcome.kind === 'unknown') { this.#adopt({ ...record, accounts: planned }, atMs); return 'again'; }",
  },
  'a write of unknown outcome counts as one that failed': {
    ...record,
    ...unit,
    name: 'a late write of a call that was given up',
    from: "if (outcome.kind === 'unknown') this.#doubtful = record.version;",
    to: '',
  },
  'a replica uses what it is giving back': {
    ...share,
    ...unit,
    name: 'what is being given back serves no call',
    from: 'this.granted = Math.min(this.granted, granted);',
    to: 'void granted;',
  },
  'a replica gives back what is in flight': {
    ...escrow,
    from: 'grantFor(roomOf(settled, id, this.#limit), { used, demands, ahead })',
    to: 'grantFor(roomOf(settled, id, this.#limit), { used: used - reserved, demands, ahead })',
  },
  'a replica that others took for dead keeps its share': {
    ...escrow,
    ...unit,
    name: 'a replica that others took for dead drops its share',
    from: 'else if (this.#share.stored !== undefined) this.#share = new Share(this.#options.nextId());',
    to: '',
  },
  'a share that is given back serves calls': {
    ...escrow,
    from: 'this.#leaving = [...this.#leaving, share]; this.#share = new Share(this.#options.nextId());',
    to: 'this.#leaving = [...this.#leaving, share];',
  },
  'a call waits for ever': {
    ...escrow,
    from: 'timer = clock.after(maxWaitMs, () => this.#endWait(waiter));',
    to: '',
  },
  'what a refused call has reserved of other budgets stays reserved': {
    ...ledger,
    from: "if ('reason' in outcome) { releaseAll();",
    to: "if ('reason' in outcome) {",
  },
  'what a call has reserved that was given up stays reserved': {
    ...ledger,
    from: 'releaseAll(); throw error;',
    to: 'throw error;',
  },
  'a call keeps more of a budget than it was granted in all': {
    ...ledger,
    ...unit,
    name: 'reserves no more of the others',
    from: 'claim.lower(granted[fields[budget.unit]]);',
    to: 'claim.lower(claim.amount);',
  },
  'a call does not wait for what others give back': {
    ...escrow,
    ...unit,
    name: 'a call of another waits for that',
    from: 'else if (this.#left + hope < waiter.least)',
    to: 'else if (this.#left < waiter.least)',
  },
  'an idle share is kept': {
    ...escrow,
    from: 'if (share.stored === undefined || !(isIdle || isFinal)) return;',
    to: 'if (share.stored === undefined || (isIdle && !isFinal)) return;',
  },
  'an API server that is away looks like an exhausted budget': {
    ...escrow,
    ...unit,
    name: 'does not call a budget exhausted that it can not read',
    from: 'this.#isKnownFor(waiter) && this.#left < waiter.least',
    to: 'this.#left < waiter.least',
  },
  'a long call loses its share': {
    ...record,
    ...unit,
    name: 'a long call keeps its share',
    from: '(this.hasCalls && ageMs >= renewMs)',
    to: 'false',
  },
};
