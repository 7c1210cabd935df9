import { rareSeeds, type Mutant } from './mutant.ts';

const claims = 'src/controllers/pool/claims.ts';

/** Mistakes in the pools of warm sandboxes, and in the claims of warm sandboxes. */
export const poolMutants = {
  'a start claims a warm sandbox that has not booted': {
    file: claims,
    from: 'isReadyWarmSandbox(sandbox) &&',
    to: '',
    rule: 'a warm sandbox is claimed when it is ready',
    pools: true,
  },
  'a claim leaves the warm sandbox with its pool': {
    file: claims,
    from: 'const ownerReferences = [ownerReferenceTo(conversation, { controller: true })];',
    to: 'const ownerReferences = warmSandbox.metadata.ownerReferences ?? [];',
    rule: 'a warm sandbox goes to the conversation that claims it',
    pools: true,
  },
  'a start claims a warm sandbox without room for its owner': {
    file: 'src/quota/snapshot.ts',
    from: 'return taken + waiting.length < limit &&',
    to: 'return taken + waiting.length < 1e9 + limit &&',
    rule: 'the limit is never exceeded',
    pools: true,
  },
  'an agent of a warm sandbox gets its keys': {
    file: 'src/controllers/sandbox/agent-connector.ts',
    from: 'if (endpoint !== undefined && isWarmSandbox(sandbox))',
    to: 'if (endpoint !== undefined && isWarmSandbox(sandbox) && Date.now() < 0)',
    rule: 'only a claimed warm sandbox gets keys',
    pools: true,
  },
  'a claimed sandbox is a warm sandbox again': {
    file: 'src/resources/sandbox.ts',
    from: "export const isWarmSandbox = ({ spec }: Pick<Sandbox, 'spec'>): boolean => spec.owner === '';",
    to: "export const isWarmSandbox = ({ spec }: Pick<Sandbox, 'spec'>): boolean => spec.poolName !== undefined;",
    pools: true,
    rule: /a claimed warm sandbox stays with its conversation|no claimed sandbox is deleted by a pool|a sandbox whose agent answers is RUNNING in time|everything settles|a sandbox that still starts is not evicted/,
  },
  'outdated warm sandboxes are kept': {
    file: 'src/controllers/pool/decide.ts',
    from: 'outdated.slice(0, Math.max(0, outdated.length - kept))',
    to: 'outdated.slice(0, 0 * kept)',
    rule: 'everything settles',
    pools: true,
  },
  'a pool forgets the warm sandboxes that its cache does not show': {
    file: 'src/controllers/pool/reconcile.ts',
    from: 'unseen: this.#unseenOf(pool),\n      ...this.#roomOf(pool),',
    to: 'unseen: 0,\n      ...this.#roomOf(pool),',
    rule: 'a pool has no more warm sandboxes than it wants',
    pools: true,
    seeds: rareSeeds,
  },
  'no warm sandbox is evicted for a newcomer': {
    file: 'src/quota/decide.ts',
    from: '  evictWarmSandbox,\n  evict,',
    to: '  evict,',
    rule: /a warm sandbox makes room in time|everything settles/,
    pools: true,
    faults: 'none',
  },
  'a warm sandbox makes room only under a policy that pauses others': {
    file: 'src/quota/decide.ts',
    from: 'warmSandboxesInTheWay(view, view.wanted) > 0 ?',
    to: 'makesRoom(view.all) && warmSandboxesInTheWay(view, view.wanted) > 0 ?',
    rule: /a warm sandbox makes room in time|everything settles/,
    pools: true,
  },
  'a claim needs a slot beside that of the warm sandbox': {
    file: 'src/quota/snapshot.ts',
    from: 'all.load.holding + wanted < limitOf(all)',
    to: 'all.load.taken + this.warmSandboxes.load.taken + wanted < limitOf(all)',
    rule: 'a start claims a ready warm sandbox',
    pools: true,
    faults: 'none',
    seeds: rareSeeds,
  },
  'a start claims a warm sandbox only while two are ready': {
    file: claims,
    from: 'if (oldest === undefined) return',
    to: 'if (oldest === undefined || warmSandboxes.length < 2) return',
    rule: 'a start claims a ready warm sandbox',
    pools: true,
    faults: 'none',
  },
  'the warm sandboxes count against maxSandboxes for a start': {
    file: 'src/quota/caps.ts',
    from: "if (owner === '') return;",
    to: '',
    rule: 'no start fails while fewer sandboxes than maxSandboxes are stored',
    pools: true,
    seeds: rareSeeds,
  },
} satisfies Readonly<Record<string, Mutant>>;
