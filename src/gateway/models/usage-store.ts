import type { Logger } from '@conversation-operator/base/logger';
import type { KubeClient } from '@conversation-operator/kube/client';
import {
  isAlreadyExists,
  isConflict,
  isInvalid,
  isNotFound,
} from '@conversation-operator/kube/errors';
import type {
  Account,
  RecordKey,
  RecordStore,
  StoredRecord,
  WriteOutcome,
} from '../../budget/record-store.ts';
import { formatAmount, storedAmount } from '../../budget/money.ts';
import {
  mergedFailures,
  withFailures,
  type ProviderFailureDelta,
} from '../../models/provider-failures.ts';
import { mergedDeltas, withDeltas, type UsageDelta } from '../../models/usage-rows.ts';
import {
  isUsageRecordOf,
  newUsageRecord,
  usageRecordNameOf,
  usageRecordSpecOf,
  usageRecords,
  type UsageAccount,
  type UsageRecord,
  type UsageRecordStatus,
  type UsageSubject,
} from '../../resources/usage-record.ts';

/** An account with the part in percent of which its record says that its owner was warned. */
export type MarkedAccount = Account & { readonly warned?: number | undefined };

/** Warnings about accounts, which records remember. */
export interface AccountWarnings {
  observe(record: RecordKey, accounts: readonly MarkedAccount[]): void;
  /** The part of which the record is to say that the owner was warned; undefined: of none. */
  markOf(record: RecordKey, account: MarkedAccount): number | undefined;
}

export interface UsageStoreOptions {
  readonly client: Pick<KubeClient, 'get' | 'create' | 'updateStatus'>;
  readonly logger: Logger;
  /** Unique among all replicas that ever were. */
  readonly replica: string;
  /** Sees the accounts of each version that was read or written. */
  readonly warnings?: AccountWarnings;
}

interface StoredUsage extends StoredRecord {
  readonly object: UsageRecord;
}

/** A summand: calls in the record of an owner, failures of providers in that of a namespace. */
type Delta = UsageDelta | ProviderFailureDelta;

/** The usage that a record still has to get. */
interface Pending {
  deltas: Delta[];
  /** Number of this replica's last attempt to write usage. */
  sequence: number;
  /** Number of deltas beyond which those of one conversation, model and day are merged. */
  mergeAt: number;
  /** How many of the first deltas each attempt has carried whose outcome is unknown. */
  readonly attempts: Map<number, number>;
}

/** `UsageSums`, whose lists are read-only, as the type of the resource has them. */
type Sums = Pick<UsageRecordStatus, 'totals' | 'rows' | 'conversations' | 'upstreams'>;

/** Maximum time of one call to the API server. A call of a model may wait for it. */
const deadlineMs = 5_000;
/** Deltas that wait for a write without being merged, which takes time. */
const maxUnmerged = 1_000;
/** Replicas whose last write a record remembers; the limit of the schema is 200. */
const maxWriters = 100;

/**
 * The UsageRecords of the cluster, as the ledger reads and writes them. A write also carries the
 * usage that has been counted since the last one. The record stores the number of each replica's
 * last write, so that usage whose write had an unknown outcome is added exactly once.
 */
export class UsageStore implements RecordStore<StoredUsage> {
  readonly #options: UsageStoreOptions;
  readonly #pending = new Map<string, Pending>();

  constructor(options: UsageStoreOptions) {
    this.#options = options;
  }

  /** Adds the usage to the next write of the record. The caller asks the ledger for that write. */
  add(key: RecordKey, delta: Delta): void {
    const pending: Pending = this.#pending.get(idOf(key)) ?? {
      deltas: [],
      sequence: 0,
      attempts: new Map(),
      mergeAt: maxUnmerged,
    };
    this.#pending.set(idOf(key), pending);
    pending.deltas.push(delta);
    if (pending.deltas.length > pending.mergeAt) merge(pending);
  }

  async read(key: RecordKey) {
    const { client, logger } = this.#options;
    try {
      const object = await client.get(usageRecords, key.namespace, key.name, { deadlineMs });
      if (isUsageRecordOf(object, subjectOf(key))) {
        this.#confirm(key, object);
        return { kind: 'found', record: this.#seen(key, object) } as const;
      }
      // Another object under this name counts nothing, so that nothing may be spent.
      logger.error('A UsageRecord is for somebody else', { record: key.name });
      return { kind: 'unavailable' } as const;
    } catch (error) {
      if (isNotFound(error)) return { kind: 'missing' } as const;
      logger.warn('A UsageRecord can not be read', { record: key.name, error });
      return { kind: 'unavailable' } as const;
    }
  }

  create(key: RecordKey): Promise<WriteOutcome<StoredUsage>> {
    const { client } = this.#options;
    const object = newUsageRecord(key.namespace, subjectOf(key));
    return this.#outcomeOf(key, client.create(usageRecords, object, { deadlineMs }));
  }

  async replace(
    key: RecordKey,
    { object }: StoredUsage,
    accounts: readonly Account[],
  ): Promise<WriteOutcome<StoredUsage>> {
    const { client, replica, warnings } = this.#options;
    this.#confirm(key, object);
    const pending = this.#pending.get(idOf(key));
    // The operator writes the raises, which the ledger does not know.
    const stored = new Map(object.status?.accounts?.map((each) => [each.key, each]));
    const base: UsageRecordStatus = {
      ...object.status,
      accounts: accounts.map((account) => {
        const { raises, warned } = stored.get(account.key) ?? {};
        const mark = warnings?.markOf(key, { ...account, warned });
        return storedAccountOf(account, { raises, warned: mark });
      }),
    };
    const attempt = pending === undefined ? undefined : attemptOf(pending);
    const status =
      pending === undefined || attempt === undefined
        ? base
        : {
            ...base,
            ...withSums(base, pending.deltas),
            writers: withWriter(base.writers, { id: replica, sequence: attempt }),
          };
    const outcome = await this.#outcomeOf(
      key,
      client.updateStatus(usageRecords, { ...object, status }, { deadlineMs }),
    );
    if (outcome.kind === 'done') this.#confirm(key, outcome.record.object);
    // No version of the record will ever contain this attempt.
    else if (outcome.kind !== 'unknown' && attempt !== undefined) pending?.attempts.delete(attempt);
    return outcome;
  }

  /** Drops the usage that the record contains. */
  #confirm(key: RecordKey, { status }: UsageRecord): void {
    const pending = this.#pending.get(idOf(key));
    const written = status?.writers?.find(({ id }) => id === this.#options.replica)?.sequence;
    const count = written === undefined ? undefined : pending?.attempts.get(written);
    if (pending === undefined || count === undefined) return;
    // All attempts begin at the first delta, and only one of them can have been applied.
    pending.attempts.clear();
    pending.deltas = pending.deltas.slice(count);
  }

  #seen(key: RecordKey, object: UsageRecord): StoredUsage {
    const record = storedOf(object);
    const marks = new Map(object.status?.accounts?.map(({ key: own, warned }) => [own, warned]));
    this.#options.warnings?.observe(
      key,
      record.accounts.map((account) => ({ ...account, warned: marks.get(account.key) })),
    );
    return record;
  }

  async #outcomeOf(
    key: RecordKey,
    write: Promise<UsageRecord>,
  ): Promise<WriteOutcome<StoredUsage>> {
    try {
      return { kind: 'done', record: this.#seen(key, await write) };
    } catch (error) {
      if (isConflict(error) || isAlreadyExists(error)) return { kind: 'conflict' };
      if (isNotFound(error)) return { kind: 'missing' };
      const problem = isInvalid(error) ? 'error' : 'warn';
      this.#options.logger[problem]('A UsageRecord can not be written', {
        record: key.name,
        error,
      });
      return { kind: 'unknown' };
    }
  }
}

/** The key of the record of a subject. */
export const recordKeyOf = (namespace: string, subject: UsageSubject): RecordKey => ({
  namespace,
  name: usageRecordNameOf(subject),
  spec: usageRecordSpecOf(subject),
});

/** Merges the deltas that no attempt has carried, so that a long outage takes little memory. */
function merge(pending: Pending): void {
  const inDoubt = Math.max(0, ...pending.attempts.values());
  const { calls, failures } = parted(pending.deltas.slice(inDoubt));
  pending.deltas = [
    ...pending.deltas.slice(0, inDoubt),
    ...mergedDeltas(calls),
    ...mergedFailures(failures),
  ];
  pending.mergeAt = Math.max(maxUnmerged, 2 * pending.deltas.length);
}

const isFailure = (delta: Delta): delta is ProviderFailureDelta => 'host' in delta;
const isCall = (delta: Delta): delta is UsageDelta => !isFailure(delta);
const parted = (deltas: readonly Delta[]) => ({
  calls: deltas.filter(isCall),
  failures: deltas.filter(isFailure),
});

function withSums(base: UsageRecordStatus, deltas: readonly Delta[]): Sums {
  const { calls, failures } = parted(deltas);
  return {
    ...(calls.length === 0 ? {} : (withDeltas(base, calls) as Sums)),
    ...(failures.length === 0
      ? {}
      : { upstreams: [...withFailures(base.upstreams ?? [], mergedFailures(failures))] }),
  };
}

const idOf = ({ namespace, name }: RecordKey): string => `${namespace}/${name}`;

/** Begins an attempt to write the pending usage; undefined if there is none. */
function attemptOf(pending: Pending): number | undefined {
  if (pending.deltas.length === 0) return undefined;
  pending.sequence += 1;
  pending.attempts.set(pending.sequence, pending.deltas.length);
  return pending.sequence;
}

function subjectOf({ spec: { owner, month = '', conversation } }: RecordKey): UsageSubject {
  if (conversation !== undefined) return { conversation };
  return owner === undefined ? { month } : { owner, month };
}

type Writer = NonNullable<UsageRecordStatus['writers']>[number];

/** The writers with the newest one last. Those that wrote longest ago give way. */
const withWriter = (writers: readonly Writer[] = [], writer: Writer): Writer[] => [
  ...writers.filter(({ id }) => id !== writer.id).slice(1 - maxWriters),
  writer,
];

const storedOf = (object: UsageRecord): StoredUsage => ({
  version: `${object.metadata.uid}/${object.metadata.resourceVersion}`,
  accounts: (object.status?.accounts ?? []).map(accountOf),
  object,
});

function accountOf({ key, unit, spent, raised = '0', holders = [] }: UsageAccount): Account {
  const read = (text: string): number => storedAmount(text, unit);
  return {
    key,
    unit,
    spent: read(spent),
    raised: read(raised),
    holders: holders.map(({ id, granted, spent: settled, renewTime }) => ({
      id,
      granted: read(granted),
      spent: read(settled),
      renewedAtMs: Date.parse(renewTime),
    })),
  };
}

function storedAccountOf(
  { key, unit, spent, raised, holders }: Account,
  { raises, warned }: Pick<UsageAccount, 'raises' | 'warned'>,
): UsageAccount {
  const shown = (amount: number): string => formatAmount(amount, unit);
  return {
    key,
    unit,
    spent: shown(spent),
    ...(raised === 0 ? {} : { raised: shown(raised) }),
    ...(raises === undefined ? {} : { raises }),
    ...(warned === undefined ? {} : { warned }),
    holders: holders.map(({ id, granted, spent: settled, renewedAtMs }) => ({
      id,
      granted: shown(granted),
      spent: shown(settled),
      renewTime: new Date(renewedAtMs).toISOString(),
    })),
  };
}
