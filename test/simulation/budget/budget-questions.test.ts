import type { AgentClient, AgentConversation } from '../../../src/agent/agent.ts';
import { formatAmount, parseAmount } from '../../../src/budget/money.ts';
import { Periods } from '../../../src/budget/period.ts';
import { decidedSandbox } from '../../../src/controllers/admission/decided-sandbox.ts';
import { classify } from '../../../src/quota/classify.ts';
import { isBudgetQuestion, pendingApproval } from '../../../src/resources/approval.ts';
import { conversationQuotas } from '../../../src/resources/conversation-quota.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import type { ExecutionStatus } from '../../../src/resources/conversation-status.ts';
import { sandboxes, type Sandbox } from '../../../src/resources/sandbox.ts';
import {
  newUsageRecord,
  usageRecordNameOf,
  usageRecords,
} from '../../../src/resources/usage-record.ts';
import { withView } from '../../../src/status/sandbox-phase.ts';
import {
  aConversation,
  admitted,
  aQuota,
  aSandbox,
  aStoredConversation,
  condition,
  later,
} from '../../support/builders.ts';
import { ConversationScene } from '../../support/conversation-scene.ts';
import { sceneKeys } from '../../support/sandbox-scene.ts';
import { Random } from '../random.ts';

const namespace = 'default';
const names = ['1', '2'].map((digit) => digit.repeat(32));
const costNanos = 300_000_000;
const limitNanos = 1_000_000_000;
const maxRaiseNanos = 500_000_000;
const callsOfRun = 6;
const lost = new Error('the answer was lost');

interface SimulatedRun {
  executionStatus: ExecutionStatus;
  calls: number;
  updatedAtMs: number;
}

/**
 * Two conversations of one owner whose runs cost more than the budget, two operators with caches
 * that are behind, an API server whose answers get lost, and people who answer as they like. The
 * gateway and the admission do at once what they decide.
 */
class World {
  readonly runs = new Map<string, SimulatedRun>();
  readonly approved = new Set<string>();
  readonly rejected = new Set<string>();
  readonly #random: Random;
  readonly #operators: readonly ConversationScene[] = [];
  readonly #periods = new Periods();
  /** Sentences about forbidden calls, which an operator would take for failures. */
  readonly #violations: string[] = [];
  #isFaulty = true;

  constructor(seed: number) {
    this.#random = new Random(String(seed));
    const agent = this.#agent();
    const first = new ConversationScene({ agent });
    this.#operators = [first, new ConversationScene({ agent }, first)];
    const { client } = first;
    const update = client.updateStatus.bind(client);
    const patch = client.mergePatch.bind(client);
    client.fault = ({ verb }) =>
      this.#isFaulty && verb !== 'list' && this.#random.chance(0.05)
        ? new Error('away')
        : undefined;
    const losing = async <T>(write: Promise<T>): Promise<T> => {
      const written = await write;
      if (this.#isFaulty && this.#random.chance(0.1)) throw lost;
      return written;
    };
    client.updateStatus = (resource, object) => losing(update(resource, object));
    client.mergePatch = async (resource, ...call) => {
      if (resource.plural === sandboxes.plural) await this.#checkResume(call[1]);
      return losing(patch(resource, ...call));
    };
    client.put(
      conversationQuotas,
      aQuota('default', {
        budget: {
          amount: limitNanos / 1e9,
          currency: 'USD',
          period: 'Month',
          timeZone: 'UTC',
          onExceeded: 'Reject',
          maxRaise: maxRaiseNanos / 1e9,
        },
      }),
    );
    for (const name of names) {
      this.runs.set(name, { executionStatus: 'running', calls: 0, updatedAtMs: this.#now });
      const sandbox = aSandbox({
        name: `sbx-${name}`,
        status: {
          conditions: [admitted, condition('Ready', 'True', 'Running')],
          observedGeneration: 1,
          replicas: 1,
          masterKeyId: sceneKeys.currentKeyId,
          agentEpoch: 1,
          podIP: '127.70.0.1',
          agentPort: 8000,
          containerID: 'c1',
          lastContainerID: 'c1',
          activeSinceTime: later(-60_000),
        },
      });
      client.put(sandboxes, sandbox);
      client.put(
        conversations,
        aStoredConversation({
          name,
          status: {
            start: { status: 'READY', transitions: [{ status: 'READY', time: later(-60_000) }] },
            executionStatus: 'running',
            agentEpoch: 1,
            sandboxName: sandbox.metadata.name,
            sandboxUID: sandbox.metadata.uid,
            sandboxStatus: 'RUNNING',
          },
        }),
      );
    }
  }

  get #first(): ConversationScene {
    const [first] = this.#operators;
    if (first === undefined) throw new Error('there is no operator');
    return first;
  }

  get #now(): number {
    return this.#operators.length === 0 ? Date.parse(later(0)) : this.#first.clock.now();
  }

  /** Calls the API server as somebody who always gets an answer. */
  async #surely<T>(call: () => Promise<T>): Promise<T> {
    const before = this.#isFaulty;
    this.#isFaulty = false;
    try {
      return await call();
    } finally {
      this.#isFaulty = before;
    }
  }

  stored(name: string) {
    return this.#surely(() => this.#first.client.get(conversations, namespace, name));
  }

  #agent(): AgentClient {
    const conversation = (id: string): AgentConversation => {
      const run = this.runs.get(id);
      if (run === undefined) throw new Error(`no run ${id}`);
      return {
        id,
        executionStatus: run.executionStatus,
        reportedStatus: run.executionStatus,
        title: undefined,
        updatedAt: new Date(run.updatedAtMs).toISOString(),
        lastUserMessageId: 'm',
        metrics: undefined,
      };
    };
    return {
      conversation: (_endpoint: unknown, id: string) => Promise.resolve(conversation(id)),
      conversations: (_endpoint: unknown, ids: readonly string[]) =>
        Promise.resolve(ids.map(conversation)),
      lastError: () => Promise.resolve({ code: 'LLMError', detail: '402' }),
      lastResult: () => Promise.resolve(undefined),
      continueRun: async (_endpoint: unknown, id: string) => {
        const asked = pendingApproval(await this.stored(id));
        if (asked !== undefined) this.#violations.push(`${id} runs while ${asked.id} is open`);
        this.#set(id, 'running');
      },
    } as unknown as AgentClient;
  }

  #set(name: string, executionStatus: ExecutionStatus): void {
    const run = this.runs.get(name);
    if (run === undefined) return;
    run.executionStatus = executionStatus;
    run.updatedAtMs = this.#first.clock.now();
  }

  /** No operator resumes a sandbox for a question that nobody has approved. */
  async #checkResume(sandbox: string): Promise<void> {
    const { spec, status } = await this.stored(sandbox.replace('sbx-', ''));
    const id = status?.approval?.id ?? status?.closedApprovals?.at(-1)?.id ?? '';
    const answered = spec.approvals?.find((answer) => answer.id === id);
    if (answered?.decision !== 'approve') this.#violations.push(`${sandbox} resumes for ${id}`);
  }

  async #account() {
    const { client, clock } = this.#first;
    const { firstDay } = this.#periods.around('Month', 'UTC', clock.now());
    const subject = { owner: 'alice', month: firstDay.slice(0, 7) };
    const name = usageRecordNameOf(subject);
    const key = `default/Month/${firstDay}`;
    const known = await client.get(usageRecords, namespace, name).catch(() => undefined);
    if (known === undefined) {
      await client.create(usageRecords, newUsageRecord(namespace, subject));
      return this.#emptyAccount(name, key);
    }
    const account = known.status?.accounts?.find((each) => each.key === key);
    return account === undefined ? this.#emptyAccount(name, key) : { name, account };
  }

  #emptyAccount = (name: string, key: string) => ({
    name,
    account: { key, unit: 'USD' as const, spent: '0' } as {
      key: string;
      unit: 'USD';
      spent: string;
      raised?: string | undefined;
      raises?:
        | readonly {
            readonly id: string;
            readonly amount: string;
            readonly admin?: boolean | undefined;
          }[]
        | undefined;
    },
  });

  /** One call of a model, which the gateway serves or refuses. */
  async #work(name: string): Promise<void> {
    const run = this.runs.get(name);
    const sandbox = await this.#sandbox(name);
    if (run?.executionStatus !== 'running' || sandbox.status?.phase === 'PAUSED') return;
    const { client } = this.#first;
    const { name: record, account } = await this.#account();
    const [spent, raised] = [
      parseAmount(account.spent, 'USD'),
      parseAmount(account.raised ?? '0', 'USD'),
    ];
    const write = (status: object) =>
      client.mergePatch(usageRecords, namespace, record, { status }, { subresource: 'status' });
    if (spent + costNanos <= limitNanos + raised) {
      await write({ accounts: [{ ...account, spent: formatAmount(spent + costNanos, 'USD') }] });
      run.calls++;
      this.#set(name, run.calls >= callsOfRun ? 'finished' : 'running');
      return;
    }
    const { status } = await this.stored(name);
    const isNews = status?.budgetExhaustion === undefined;
    const budgetExhaustion = {
      quota: 'default',
      record,
      account: account.key,
      unit: 'USD',
      limit: '1',
      raised: formatAmount(raised, 'USD'),
      spent: account.spent,
      time: new Date(this.#first.clock.now()).toISOString(),
      resetTime: new Date(
        this.#periods.around('Month', 'UTC', this.#first.clock.now()).endMs,
      ).toISOString(),
    };
    if (isNews)
      await client.mergePatch(
        conversations,
        namespace,
        name,
        { status: { budgetExhaustion } },
        { subresource: 'status' },
      );
    this.#set(name, this.#random.pick(['error', 'finished', 'idle', 'stuck'] as const) ?? 'error');
  }

  #sandbox(name: string): Promise<Sandbox> {
    return this.#surely(() => this.#first.client.get(sandboxes, namespace, `sbx-${name}`));
  }

  /** Does what the admission and the controller of sandboxes do with the sandbox. */
  async #admit(name: string): Promise<void> {
    const { client, clock } = this.#first;
    const sandbox = await this.#sandbox(name);
    const conversation = await this.stored(name);
    const cached = { ...aConversation({ name }), ...conversation };
    const now = new Date(clock.now()).toISOString();
    const slot = classify({ sandbox, conversations: [cached], now: clock.now() });
    const reservation = { template: undefined, currentKeyId: sceneKeys.currentKeyId, now };
    const { expiry } = slot;
    if (slot.state === 'running' && expiry !== undefined && expiry.at <= clock.now()) {
      const decision = { kind: 'expire', slot, reason: expiry.reason } as const;
      const { status = {} } = decidedSandbox(decision, undefined, reservation);
      const { activeSinceTime: _active, ...paused } = status;
      await client.updateStatus(sandboxes, {
        ...sandbox,
        status: {
          ...paused,
          replicas: 0,
          pauseTime: now,
          lastInterruption: { reason: expiry.reason, agentEpoch: status.agentEpoch ?? 0 },
        },
      });
    } else if (slot.state === 'waiting' || slot.state === 'resumable') {
      const resumed = slot.state === 'resumable';
      if (resumed && pendingApproval(conversation) !== undefined)
        this.#violations.push(`${name} is admitted while its question is open`);
      const { status = {} } = decidedSandbox(
        { kind: 'admit', slot, resumed },
        undefined,
        reservation,
      );
      const { pauseTime: _pause, ...running } = status;
      const agentEpoch = (status.agentEpoch ?? 0) + 1;
      const next = {
        ...running,
        agentEpoch,
        containerID: `c${agentEpoch}`,
        lastContainerID: `c${agentEpoch}`,
        activeSinceTime: now,
      };
      await client.updateStatus(sandboxes, { ...sandbox, status: withView(sandbox, next, now) });
    }
  }

  async #answer(name: string, decision: 'approve' | 'reject'): Promise<void> {
    const conversation = await this.stored(name);
    const asked = pendingApproval(conversation);
    if (asked === undefined || !isBudgetQuestion(asked)) return;
    (decision === 'approve' ? this.approved : this.rejected).add(asked.id);
    const approvals = [...(conversation.spec.approvals ?? []), { id: asked.id, decision }];
    await this.#first.client.mergePatch(conversations, namespace, name, { spec: { approvals } });
  }

  async #reconcile(name: string, isBehind: boolean): Promise<void> {
    const operator = this.#random.pick(this.#operators) ?? this.#first;
    try {
      if (!isBehind) await operator.refreshBudgets();
      const done = isBehind ? operator.reconcileBehind(name) : operator.reconcile(name);
      const ended = done.then(
        () => undefined,
        (error: unknown) => error,
      );
      await operator.clock.advance(300);
      await ended;
    } catch {
      // The next reconcile tries again.
    }
  }

  async step(): Promise<void> {
    const name = this.#random.pick(names) ?? '';
    const chance = this.#random.whole(0, 9);
    if (chance <= 4) await this.#reconcile(name, this.#random.chance(0.2));
    else if (chance <= 6) await this.#surely(() => this.#work(name));
    else if (chance === 7) await this.#surely(() => this.#admit(name));
    else if (chance === 8 && this.#random.chance(0.5))
      await this.#surely(() => this.#answer(name, this.#random.chance(0.8) ? 'approve' : 'reject'));
    else await this.#first.clock.advance(this.#random.whole(1, 5_000));
    await this.#surely(() => this.#check());
  }

  /** Each raise was approved, counts once, and those of the owner keep to their maximum. */
  async #check(): Promise<void> {
    expect(this.#violations).toEqual([]);
    const { account } = await this.#account();
    const raises = account.raises ?? [];
    const sum = (some: typeof raises) =>
      some.reduce((total, { amount }) => total + parseAmount(amount, 'USD'), 0);
    expect(sum(raises)).toBe(parseAmount(account.raised ?? '0', 'USD'));
    expect(new Set(raises.map(({ id }) => id)).size).toBe(raises.length);
    for (const { id } of raises) expect(this.approved).toContain(id);
    expect(sum(raises.filter(({ admin }) => admin !== true))).toBeLessThanOrEqual(maxRaiseNanos);
  }

  /** Without faults, and with each question approved, all runs end that nobody has rejected. */
  async settle(): Promise<void> {
    this.#isFaulty = false;
    for (let round = 0; round < 120; round++)
      for (const name of names) {
        await this.#reconcile(name, false);
        await this.#admit(name);
        await this.#work(name);
        await this.#answer(name, 'approve');
        await this.#first.clock.advance(2_000);
        await this.#check();
      }
    for (const name of names) {
      const { status } = await this.stored(name);
      const isRejected = status?.closedApprovals?.at(-1)?.outcome === 'Rejected';
      expect([name, status?.approval, status?.budgetExhaustion]).toEqual([
        name,
        undefined,
        undefined,
      ]);
      const { calls, executionStatus } = this.runs.get(name) ?? {};
      if (!isRejected) {
        expect(status).toBeDefined();
        expect([calls, executionStatus]).toEqual([callsOfRun, 'finished']);
      }
    }
  }
}

const seeds = Number(process.env['SEEDS'] ?? 40);

it.each(Array.from({ length: seeds }, (_, index) => index + 1))(
  'a raise counts once, and a run goes on after it and not before, with the seed %d',
  async (seed) => {
    const world = new World(seed);
    for (let step = 0; step < 120; step++) await world.step();
    await world.settle();
  },
);
