import { rareSeeds, type Mutant } from './mutant.ts';

const claims = 'src/controllers/pool/claims.ts';

/** Mistakes in the pools of spare sandboxes, and in the claims of spares. */
export const poolMutants = {
  'a start claims a spare that has not booted': {
    file: claims,
    from: 'isReadySpare(sandbox) &&',
    to: '',
    rule: 'a spare is claimed when it is ready',
    pools: true,
  },
  'a claim leaves the spare with its pool': {
    file: claims,
    from: 'const ownerReferences = [ownerReferenceTo(conversation, { controller: true })];',
    to: 'const ownerReferences = spare.metadata.ownerReferences ?? [];',
    rule: 'a spare goes to the conversation that claims it',
    pools: true,
  },
  'a start claims a spare without room for its owner': {
    file: 'src/quota/snapshot.ts',
    from: 'return taken + waiting.length < limit &&',
    to: 'return taken + waiting.length < 1e9 + limit &&',
    rule: 'the limit is never exceeded',
    pools: true,
  },
  'an agent of a spare gets its keys': {
    file: 'src/controllers/sandbox/agent-connector.ts',
    from: 'if (endpoint !== undefined && isSpare(sandbox))',
    to: 'if (endpoint !== undefined && isSpare(sandbox) && Date.now() < 0)',
    rule: 'only a claimed spare gets keys',
    pools: true,
  },
  'a claimed sandbox is a spare again': {
    file: 'src/resources/sandbox.ts',
    from: "export const isSpare = ({ spec }: Pick<Sandbox, 'spec'>): boolean => spec.owner === '';",
    to: "export const isSpare = ({ spec }: Pick<Sandbox, 'spec'>): boolean => spec.poolName !== undefined;",
    pools: true,
    rule: /a claimed spare stays with its conversation|no claimed sandbox is deleted by a pool|a sandbox whose agent answers is RUNNING in time|everything settles|a sandbox that still starts is not evicted/,
  },
  'outdated spares are kept': {
    file: 'src/controllers/pool/decide.ts',
    from: 'outdated.slice(0, Math.max(0, outdated.length - kept))',
    to: 'outdated.slice(0, 0 * kept)',
    rule: 'everything settles',
    pools: true,
  },
  'a pool forgets the spares that its cache does not show': {
    file: 'src/controllers/pool/reconcile.ts',
    from: 'unseen: this.#unseenOf(pool),\n      ...this.#roomOf(pool),',
    to: 'unseen: 0,\n      ...this.#roomOf(pool),',
    rule: 'a pool has no more spares than it wants',
    pools: true,
    seeds: rareSeeds,
  },
  'no spare is evicted for a newcomer': {
    file: 'src/quota/decide.ts',
    from: '  evictSpare,\n  evict,',
    to: '  evict,',
    rule: /a spare makes room in time|everything settles/,
    pools: true,
    faults: 'none',
  },
  'a spare makes room only under a policy that pauses others': {
    file: 'src/quota/decide.ts',
    from: 'sparesInTheWay(view, view.wanted) > 0 ?',
    to: 'makesRoom(view.all) && sparesInTheWay(view, view.wanted) > 0 ?',
    rule: /a spare makes room in time|everything settles/,
    pools: true,
  },
  'a claim needs a slot beside that of the spare': {
    file: 'src/quota/snapshot.ts',
    from: 'all.load.holding + wanted < limitOf(all)',
    to: 'all.load.taken + this.spares.load.taken + wanted < limitOf(all)',
    rule: 'a start claims a ready spare',
    pools: true,
    faults: 'none',
    seeds: rareSeeds,
  },
  'a start claims a spare only while two are ready': {
    file: claims,
    from: 'if (oldest === undefined) return',
    to: 'if (oldest === undefined || spares.length < 2) return',
    rule: 'a start claims a ready spare',
    pools: true,
    faults: 'none',
  },
  'the spares count against maxSandboxes for a start': {
    file: 'src/quota/caps.ts',
    from: "if (owner === '') return;",
    to: '',
    rule: 'no start fails while fewer sandboxes than maxSandboxes are stored',
    pools: true,
    seeds: rareSeeds,
  },
} satisfies Readonly<Record<string, Mutant>>;
