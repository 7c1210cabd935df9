import { Periods } from '../../../src/budget/period.ts';
import { conversationQuotas } from '../../../src/resources/conversation-quota.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import { sandboxes } from '../../../src/resources/sandbox.ts';
import {
  newUsageRecord,
  usageRecordNameOf,
  usageRecords,
  type UsageAccount,
} from '../../../src/resources/usage-record.ts';
import { aQuota, aStoredConversation } from '../../support/builders.ts';
import { ConversationScene } from '../../support/conversation-scene.ts';
import { Random } from '../random.ts';

const namespace = 'default';
const dayMs = 24 * 3_600_000;

/**
 * Starts of one owner under a budget with the policy Queue: two operators with caches that are
 * behind, an API server whose answers get lost, calls that spend the budget, raises, administrators
 * who change the quota, and periods that end.
 */
class World {
  readonly #random: Random;
  readonly #first = new ConversationScene();
  readonly #operators = [this.#first, new ConversationScene({}, this.#first)];
  readonly #periods = new Periods();
  readonly #names: string[] = [];
  #amount = 1;
  #isFaulty = true;

  constructor(seed: number) {
    this.#random = new Random(String(seed));
    const { client } = this.#first;
    client.fault = ({ verb }) =>
      this.#isFaulty && verb !== 'list' && this.#random.chance(0.05)
        ? new Error('away')
        : undefined;
    const losing = async <T>(write: Promise<T>): Promise<T> => {
      const written = await write;
      if (this.#isFaulty && this.#random.chance(0.1)) throw new Error('the answer was lost');
      return written;
    };
    const [create, update] = [client.create.bind(client), client.updateStatus.bind(client)];
    client.create = (resource, object, options) => losing(create(resource, object, options));
    client.updateStatus = (resource, object, options) => losing(update(resource, object, options));
    this.#putQuota();
  }

  async #surely<T>(call: () => Promise<T>): Promise<T> {
    const before = this.#isFaulty;
    this.#isFaulty = false;
    try {
      return await call();
    } finally {
      this.#isFaulty = before;
    }
  }

  #putQuota(): void {
    const budget = {
      amount: this.#amount,
      currency: 'USD',
      period: 'Day',
      timeZone: 'UTC',
      onExceeded: 'Queue',
      maxRaise: 0,
    } as const;
    this.#first.client.put(conversationQuotas, aQuota('default', { limit: 100, budget }));
  }

  async #account(): Promise<{ readonly name: string; readonly account: UsageAccount }> {
    const { client, clock } = this.#first;
    const { firstDay } = this.#periods.around('Day', 'UTC', clock.now());
    const subject = { owner: 'alice', month: firstDay.slice(0, 7) };
    const name = usageRecordNameOf(subject);
    const key = `default/Day/${firstDay}`;
    const known = await client.get(usageRecords, namespace, name).catch(() => undefined);
    if (known === undefined) await client.create(usageRecords, newUsageRecord(namespace, subject));
    const account = known?.status?.accounts?.find((each) => each.key === key);
    return { name, account: account ?? { key, unit: 'USD', spent: '0' } };
  }

  async #change(change: (account: UsageAccount) => Partial<UsageAccount>): Promise<void> {
    const { name, account } = await this.#account();
    const status = { accounts: [{ ...account, ...change(account) }] };
    const { client } = this.#first;
    await client.mergePatch(usageRecords, namespace, name, { status }, { subresource: 'status' });
  }

  #isExhausted = async (): Promise<boolean> => {
    const { account } = await this.#account();
    return Number(account.spent) >= this.#amount + Number(account.raised ?? '0');
  };

  /** Whether a sandbox was made for the conversation, whatever its status says. */
  async #hasSandbox(name: string): Promise<boolean> {
    const { items } = await this.#first.client.list(sandboxes);
    return items.some(({ metadata }) =>
      metadata.ownerReferences?.some((owner) => owner.name === name),
    );
  }

  async #reconcile(name: string, isBehind: boolean): Promise<void> {
    const operator = this.#random.pick(this.#operators) ?? this.#first;
    const [isExhausted, hadSandbox] = await this.#surely(async () => [
      await this.#isExhausted(),
      await this.#hasSandbox(name),
    ]);
    try {
      if (!isBehind) await operator.refreshBudgets();
      await (isBehind ? operator.reconcileBehind(name) : operator.reconcile(name));
    } catch {
      // The next reconcile tries again.
    }
    if (isBehind || hadSandbox || !isExhausted) return;
    expect([name, await this.#surely(() => this.#hasSandbox(name))]).toEqual([name, false]);
  }

  async step(): Promise<void> {
    const { client, clock } = this.#first;
    const name = this.#random.pick(this.#names);
    const chance = this.#random.whole(0, 9);
    if (name === undefined || (chance === 0 && this.#names.length < 6)) {
      const next = String(this.#names.length + 1).repeat(32);
      this.#names.push(next);
      client.put(conversations, aStoredConversation({ name: next }));
    } else if (chance <= 5) await this.#reconcile(name, this.#random.chance(0.2));
    else if (chance <= 7)
      await this.#surely(() =>
        this.#change(({ spent }) => ({ spent: String(Number(spent) + this.#random.whole(0, 2)) })),
      );
    else if (chance === 8 && this.#random.chance(0.3))
      await this.#surely(() =>
        this.#change(({ raised = '0' }) => ({ raised: String(Number(raised) + 1) })),
      );
    else if (this.#random.chance(0.2)) {
      this.#amount += 1;
      this.#putQuota();
    } else await clock.advance(this.#random.whole(1, dayMs / 4));
    await this.#surely(() => this.#check());
  }

  /** A start that waits has no sandbox, and none has two. */
  async #check(): Promise<void> {
    const { client } = this.#first;
    const makers = (await client.list(sandboxes)).items.flatMap(
      ({ metadata }) => metadata.ownerReferences?.map(({ name }) => name) ?? [],
    );
    expect(new Set(makers).size).toBe(makers.length);
    for (const { status } of (await client.list(conversations)).items)
      if (status?.start?.errorCode === 'WaitingForBudget')
        expect([status.sandboxName, status.sandboxStatusReason, status.start.status]).toEqual([
          undefined,
          'WaitingForBudget',
          'WORKING',
        ]);
  }

  /** Once the budget has room, each start gets its sandbox. */
  async settle(): Promise<void> {
    this.#isFaulty = false;
    await this.#first.clock.advance(dayMs);
    for (const name of this.#names) {
      await this.#reconcile(name, false);
      const { status } = await this.#first.conversation(name);
      expect([name, status?.start?.status, status?.start?.errorCode]).toEqual([
        name,
        'WAITING_FOR_SANDBOX',
        undefined,
      ]);
      expect(status?.sandboxStatusReason).not.toBe('WaitingForBudget');
    }
    await this.#check();
  }
}

const seeds = Number(process.env['SEEDS'] ?? 60);

it.each(Array.from({ length: seeds }, (_, index) => index + 1))(
  'a start of an exhausted owner gets no sandbox, and gets one when the budget has room, with the seed %d',
  async (seed) => {
    const world = new World(seed);
    for (let step = 0; step < 120; step++) await world.step();
    await world.settle();
  },
);
