import { conversations, startStatusOf } from '../../src/resources/conversation.ts';
import { apiVersion } from '../../src/resources/group.ts';
import { quotaRules } from '../../src/quota/rules.ts';
import {
  SandboxCondition,
  sandboxes,
  templateVersionAnnotation,
  type Sandbox,
} from '../../src/resources/sandbox.ts';
import { slotTaken } from '../../src/status/sandbox-phase.ts';
import { findCondition, isTrue } from '../../src/resources/conditions.ts';
import { roomToStore } from './caps-check.ts';
import { ClaimsCheck, type ClaimsCheckOptions } from './claims-check.ts';
import type { Change } from './cluster.ts';
import { isMadeFor } from './made-for.ts';
import type { Random } from './random.ts';
import { Violation } from './safety.ts';

export interface PoolsOptions extends Omit<ClaimsCheckOptions, 'isOutdated'> {
  readonly random: Random;
  /** Whether there are pools at all. */
  readonly enabled: boolean;
  /** Whether nodes may be lost. */
  readonly mayLoseNodes: boolean;
  /** No pool changes later. */
  readonly untilMs: number;
  readonly owners: readonly string[];
}

const group = `/apis/${apiVersion}/namespaces/default`;
type PoolName = 'warm' | 'second';
const maxReplicas = 3;
/** Time in which the starts of the exercise begin. */
const exerciseMs = 30_000;

/** The conversation that a sandbox was made for, or that has claimed it. */
const claimantOf = ({ metadata }: Sandbox): string | undefined =>
  metadata.ownerReferences?.find(
    ({ kind, controller }) => kind === conversations.kind && controller === true,
  )?.uid;

/** A person who creates, scales and deletes pools, and the promises about warm sandboxes. */
export class Pools {
  readonly #options: PoolsOptions;
  /** Uids of former warm sandboxes, each with the conversation that has claimed it. */
  readonly #claimedBy = new Map<string, string | undefined>();
  readonly #claims: ClaimsCheck | undefined;
  #crowdsToCome = 0;

  constructor(options: PoolsOptions) {
    this.#options = options;
    if (!options.enabled) return;
    options.cluster.onChange((change) => this.#observe(change));
    this.#claims = new ClaimsCheck({
      ...options,
      isOutdated: (warmSandbox) => this.#isOutdated(warmSandbox),
    });
  }

  start(): void {
    const { enabled, random, scheduler, untilMs, mayLoseNodes } = this.#options;
    if (!enabled) return;
    void this.#put('warm');
    if (mayLoseNodes && random.chance(0.4))
      scheduler.after(random.between(5_000, untilMs), () => this.#loseWarmSandboxes());
    if (random.chance(0.5))
      scheduler.after(random.between(0, untilMs), () => void this.#put('second'));
    for (let count = random.whole(0, 3); count > 0; count--)
      scheduler.after(random.between(5_000, untilMs), () => this.#crowd(random.whole(2, 4)));
    for (let count = random.chance(0.6) ? random.whole(1, 6) : 0; count > 0; count--)
      scheduler.after(random.between(0, untilMs), () => void this.#meddle());
  }

  /** While nothing goes wrong any more: starts that find ready warm sandboxes. */
  startExercise(): void {
    const { enabled, random, scheduler } = this.#options;
    if (!enabled) return;
    for (let count = random.whole(1, 2); count > 0; count--) {
      this.#crowdsToCome++;
      scheduler.after(random.between(1_000, exerciseMs), () => {
        this.#crowdsToCome--;
        this.#crowd(random.whole(1, 3));
      });
    }
  }

  /** Whether starts of the exercise are still to come. */
  get busy(): boolean {
    return this.#crowdsToCome > 0;
  }

  /** The node is lost, with every ready warm sandbox on it. */
  #loseWarmSandboxes(): void {
    const { node, random, cluster } = this.#options;
    if (cluster.warmSandboxes.some(isReady)) node.lose(random.between(5_000, 40_000));
  }

  async #put(name: PoolName): Promise<void> {
    const { random, cluster } = this.#options;
    const spec = {
      templateName: 'default',
      replicas: random.whole(1, maxReplicas),
      refill: {
        maxPerMinute: random.chance(0.5) ? 6_000 : random.whole(6, 60),
        delay: random.chance(0.5) ? '0s' : `${random.whole(1, 10)}s`,
      },
    };
    const metadata = { name, namespace: 'default' };
    const body = { apiVersion, kind: 'SandboxPool', metadata, spec };
    const { status } = await cluster.call('kubectl', 'POST', `${group}/sandboxpools`, body);
    if (status === 409)
      await cluster.call('kubectl', 'PATCH', `${group}/sandboxpools/${name}`, { spec });
  }

  /** Several starts at the same moment, of one owner or of several. */
  #crowd(starts: number): void {
    const { random, cluster, owners } = this.#options;
    const first = random.pick(owners) ?? 'alice';
    for (let count = starts; count > 0; count--) {
      const digits = Array.from({ length: 32 }, () => random.whole(0, 15).toString(16));
      const owner = random.chance(0.7) ? first : (random.pick(owners) ?? first);
      void cluster.call('kubectl', 'POST', `${group}/conversations`, {
        apiVersion,
        kind: conversations.kind,
        metadata: { name: digits.join(''), namespace: 'default' },
        spec: { owner, templateName: 'default' },
      });
    }
  }

  async #meddle(): Promise<void> {
    const { random, cluster } = this.#options;
    const name = random.chance(0.8) ? 'warm' : 'second';
    const choice = random.next();
    if (choice < 0.4)
      await cluster.call('kubectl', 'PATCH', `${group}/sandboxpools/${name}/scale`, {
        spec: { replicas: random.whole(0, maxReplicas) },
      });
    else if (choice < 0.55) {
      await cluster.call('kubectl', 'DELETE', `${group}/sandboxpools/${name}`);
      if (random.chance(0.7)) await this.#put(name);
    } else if (choice < 0.75)
      await cluster.call('kubectl', 'PATCH', `${group}/sandboxtemplates/default`, {
        spec: { description: `edit ${random.whole(0, 1e6)}` },
      });
    else {
      const warmSandbox = random.pick(cluster.warmSandboxes)?.metadata.name;
      if (warmSandbox !== undefined)
        await cluster.call('kubectl', 'DELETE', `${group}/sandboxes/${warmSandbox}`);
    }
  }

  #observe({ plural, type, object, before: old, actor }: Change): void {
    if (plural !== sandboxes.plural) return;
    const sandbox = object as Sandbox;
    const { uid, name } = sandbox.metadata;
    const before = old?.metadata.uid === uid ? (old as Sandbox) : undefined;
    if (type === 'DELETED') this.#deleted(sandbox, actor);
    if (type === 'ADDED' && sandbox.spec.owner === '') this.#created(sandbox);
    if (type !== 'MODIFIED' || before === undefined) return;
    if (before.spec.owner === '' && sandbox.spec.owner !== '') this.#claimed(sandbox, before);
    else if (before.spec.owner !== sandbox.spec.owner)
      throw new Violation('a sandbox keeps its owner', `${name} was ${before.spec.owner}'s`);
    const issuer = this.#claimedBy.get(uid);
    if (this.#claimedBy.has(uid) && claimantOf(sandbox) !== issuer)
      throw new Violation(
        'a claimed warm sandbox stays with its conversation',
        `${name} goes from ${issuer ?? 'none'} to ${claimantOf(sandbox) ?? 'none'}`,
      );
  }

  /** Two leaders, and one whose writes have unknown outcomes, may create a few too many. */
  #created({ metadata: { name }, spec: { poolName } }: Sandbox): void {
    const { cluster } = this.#options;
    const own = cluster.warmSandboxes.filter(
      (warmSandbox) => warmSandbox.spec.poolName === poolName,
    );
    if (own.length > 3 * maxReplicas)
      throw new Violation(
        'a pool has no more warm sandboxes than it wants',
        `${own.length} with ${name}`,
      );
  }

  #claimed(sandbox: Sandbox, before: Sandbox): void {
    const { name, uid } = sandbox.metadata;
    const issuer = claimantOf(sandbox);
    this.#claimedBy.set(uid, issuer);
    const conversation = this.#options.cluster.conversations.find(
      ({ metadata }) => metadata.uid === issuer,
    );
    if (
      issuer === undefined ||
      (conversation?.spec.owner ?? sandbox.spec.owner) !== sandbox.spec.owner
    )
      throw new Violation(
        'a warm sandbox goes to the conversation that claims it',
        `${name} of ${sandbox.spec.owner} to ${conversation?.spec.owner ?? 'no owner'}`,
      );
    if (findCondition(before.status?.conditions, SandboxCondition.ready)?.reason !== 'Spare')
      throw new Violation('a warm sandbox is claimed when it is ready', `${name} was not`);
  }

  /** Retention, failed starts and their owners delete sandboxes; a pool only warm sandboxes. */
  #deleted(sandbox: Sandbox, actor: string): void {
    const { uid, name } = sandbox.metadata;
    if (!this.#claimedBy.has(uid) || !this.#options.isOperator(actor)) return;
    const issuer = this.#options.cluster.conversations.find(
      ({ metadata }) => metadata.uid === this.#claimedBy.get(uid),
    );
    // `Retention` checks what is announced.
    const isAnnounced = [sandbox, issuer].some((one) =>
      isTrue(one?.status?.conditions, SandboxCondition.expiring),
    );
    const isInUse =
      !isAnnounced &&
      issuer !== undefined &&
      startStatusOf(issuer) !== 'ERROR' &&
      (issuer.status?.sandboxUID ?? uid) === uid;
    if (isInUse)
      throw new Violation('no claimed sandbox is deleted by a pool', `${name}, by ${actor}`);
  }

  /** Called at every step. */
  check(): void {
    const { enabled, node, cluster } = this.#options;
    if (!enabled) return;
    this.#claims?.check();
    for (const { sandboxUid, state } of node.running) {
      if (state !== 'ready') continue;
      const warmSandbox = cluster.warmSandboxes.find(({ metadata }) => metadata.uid === sandboxUid);
      if (warmSandbox !== undefined)
        throw new Violation('only a claimed warm sandbox gets keys', warmSandbox.metadata.name);
    }
  }

  /** Sentences about pools that are not as they should be once nothing changes any more. */
  unsettled(): readonly string[] {
    const { enabled, cluster, node } = this.#options;
    if (!enabled) return [];
    const doubled = cluster.conversations.flatMap((conversation) => {
      const made = cluster.sandboxes.filter(
        (sandbox) =>
          isMadeFor(sandbox, conversation) && claimantOf(sandbox) === conversation.metadata.uid,
      );
      return made.length < 2
        ? []
        : [`the conversation ${conversation.metadata.name} has ${made.length} sandboxes`];
    });
    const orphans = cluster.warmSandboxes.filter(({ spec }) =>
      cluster.pools.every(({ metadata }) => metadata.name !== spec.poolName),
    );
    return [
      ...doubled,
      ...orphans.map(({ metadata }) => `the warm sandbox ${metadata.name} has no pool`),
      ...cluster.pools.flatMap(({ metadata, spec, status }) => {
        const own = cluster.warmSandboxes.filter(
          (warmSandbox) => warmSandbox.spec.poolName === metadata.name,
        );
        const ready = own.filter(
          (warmSandbox) =>
            isReady(warmSandbox) &&
            isTrue(warmSandbox.status?.conditions, SandboxCondition.admitted),
        ).length;
        const silent = own.filter(({ metadata: { uid } }) =>
          node.running.some(
            ({ sandboxUid, silentSince }) => sandboxUid === uid && silentSince !== undefined,
          ),
        );
        const booting = own.filter(
          (warmSandbox) =>
            isTrue(warmSandbox.status?.conditions, SandboxCondition.admitted) &&
            !isReady(warmSandbox),
        );
        if (booting.length > 0) return [`${metadata.name} has a warm sandbox that is booting`];
        if (silent.length > 0) return [`${metadata.name} has a warm sandbox whose agent is silent`];
        // The pace of the pool delays replacements.
        if (own.some((warmSandbox) => this.#isOutdated(warmSandbox)))
          return [`${metadata.name} has a warm sandbox of an earlier version of its template`];
        if (own.length > spec.replicas)
          return [`${metadata.name} has ${own.length} warm sandboxes of ${spec.replicas}`];
        if (status?.readyReplicas !== ready)
          return [`${metadata.name} shows ${status?.readyReplicas ?? 'no'} ready of ${ready}`];
        return ready < spec.replicas && !this.#isCrowded()
          ? [`${metadata.name} has ${ready} ready warm sandboxes of ${spec.replicas}`]
          : [];
      }),
    ];
  }

  #isOutdated({ metadata, spec }: Sandbox): boolean {
    const template = this.#options.cluster.templates.find(
      (each) => each.metadata.name === spec.templateName,
    );
    const { uid = '', generation = 0 } = template?.metadata ?? {};
    return metadata.annotations?.[templateVersionAnnotation] !== `${uid}/${generation}`;
  }

  /** Whether the quotas of the namespace leave no room for warm sandboxes. */
  #isCrowded(): boolean {
    const { cluster } = this.#options;
    if (roomToStore(cluster) <= 0) return true;
    const limit = quotaRules(cluster.quotas).namespace?.limit ?? Infinity;
    const taken = [...cluster.sandboxes, ...cluster.warmSandboxes].filter(slotTaken).length;
    return taken >= limit;
  }
}

const isReady = ({ status }: Sandbox): boolean =>
  findCondition(status?.conditions, SandboxCondition.ready)?.reason === 'Spare';
