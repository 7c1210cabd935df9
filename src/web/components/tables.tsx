import { bytes, cacheWord, isPoolInTrouble, ofLimit, quotaUse, shardName } from '../troubles.ts';
import { count, money, usedOf } from '../money.ts';
import { exact } from '../times.ts';
import { duration, ago } from '../../sentences/durations.ts';
import type {
  CacheState,
  ExhaustedBudget,
  UpstreamError,
  Leader,
  OverviewRecord,
  OwnerUse,
  Pool,
  Quota,
  Spender,
  Template,
  Waiter,
} from '../wire.ts';
import { Fragment, type ComponentChildren } from 'preact';
import { usePage } from '../page-state.ts';
import { Icon, type IconName } from './icon.tsx';

const icons: Readonly<Record<string, IconName>> = { good: 'done', bad: 'alert', waits: 'wait' };

interface StateWordProps {
  readonly state: 'good' | 'bad' | 'waits';
  readonly children: string;
}

const classes = { good: 'pill-finished', bad: 'pill-failed', waits: 'pill-idle' } as const;

export const StateWord = ({ state, children }: StateWordProps) => (
  <span class={`pill ${classes[state]}`}>
    <Icon name={icons[state] ?? 'idle'} />
    {children}
  </span>
);

export function Ago({ time }: { readonly time: string | null }) {
  const { now } = usePage();
  if (time === null) return <>–</>;
  return (
    <time dateTime={time} title={exact(time)}>
      {ago(time, now.value)}
    </time>
  );
}

export function Until({ time }: { readonly time: string | null }) {
  const { now } = usePage();
  if (time === null) return <>never</>;
  const left = Date.parse(time) - now.value;
  return (
    <time dateTime={time} title={exact(time)}>
      {left <= 0 ? 'has expired' : `in ${duration(left)}`}
    </time>
  );
}

/** Maximum characters of a part of a name that does not wrap within. */
const maxUnbroken = 10;

/** The name of an owner, which wraps after its signs rather than within its words. */
export const OwnerName = ({ children }: { readonly children: string }) => (
  <>
    {children.split(/(?<=[^a-z0-9])/i).map((part, index) => (
      <Fragment key={index}>
        <span class={part.length <= maxUnbroken ? 'unbroken' : ''}>{part}</span>
        <wbr />
      </Fragment>
    ))}
  </>
);

interface ReasonProps {
  readonly reason: string | null;
  readonly message: string | null;
}

/** The reason of a state, and a message that other people may have written. */
const Reason = ({ reason, message }: ReasonProps) => (
  <>
    {reason !== null && <b>{reason}</b>} {message}
  </>
);

export interface Column<T> {
  readonly label: string;
  readonly isNumber?: boolean;
  readonly cell: (item: T) => ComponentChildren;
}

interface DataTableProps<T> {
  /** The id of the section, which is the target of links. */
  readonly id: string;
  readonly title: string;
  readonly total: number;
  readonly items: readonly T[];
  readonly keyOf: (item: T) => string;
  /** The first column contains the name of each row. */
  readonly columns: readonly Column<T>[];
  /** Shown instead of a table without rows. */
  readonly empty: ComponentChildren;
  readonly children?: ComponentChildren;
}

/**
 * A section with a table. In small windows, CSS turns each row into a block of labelled values. The
 * roles are explicit, because browsers ignore the implicit roles of such a table.
 */
export function DataTable<T>(props: DataTableProps<T>) {
  const { id, title, total, items, keyOf, columns, empty, children } = props;
  const [first, ...others] = columns;
  const kind = ({ isNumber = false }: Column<T>) => (isNumber ? 'number' : undefined);
  return (
    <section class="data" id={id} aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>
        {title} <span class="count">{total}</span>
      </h2>
      {items.length === 0 ? (
        <p class="quiet-text">{empty}</p>
      ) : (
        <table role="table" aria-labelledby={`${id}-title`}>
          <thead role="rowgroup">
            <tr role="row">
              {columns.map((column) => (
                <th key={column.label} role="columnheader" scope="col" class={kind(column)}>
                  {column.label}
                </th>
              ))}
            </tr>
          </thead>
          <tbody role="rowgroup">
            {items.map((item) => (
              <tr key={keyOf(item)} role="row">
                {first !== undefined && (
                  <th role="rowheader" scope="row">
                    <div>{first.cell(item)}</div>
                  </th>
                )}
                {others.map((column) => (
                  <td key={column.label} role="cell" class={kind(column)} data-label={column.label}>
                    <div>{column.cell(item)}</div>
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {total > items.length && (
        <p class="quiet-text">
          The first {items.length} of {total}.
        </p>
      )}
      {children}
    </section>
  );
}

interface TableProps {
  readonly overview: OverviewRecord;
}

const waiterColumns: readonly Column<Waiter>[] = [
  { label: 'Place', cell: ({ position }) => position },
  { label: 'Owner', cell: ({ owner }) => <OwnerName>{owner}</OwnerName> },
  { label: 'Reason', cell: ({ reason, message }) => <Reason reason={reason} message={message} /> },
  { label: 'Waits since', cell: ({ since }) => <Ago time={since} /> },
  {
    label: 'Conversation',
    cell: ({ conversation_id: id, sandbox_id: sandbox }) => (
      <span class="id" title={id ?? sandbox ?? ''}>
        {id ?? sandbox}
      </span>
    ),
  },
];

export const QueueTable = ({ overview: { queue } }: TableProps) => (
  <DataTable
    {...{ id: 'queue', title: 'Waiting for room', columns: waiterColumns, ...queue }}
    keyOf={({ conversation_id: id, sandbox_id: sandbox }) => sandbox ?? id ?? ''}
    empty="Nothing waits. A start that exceeds a quota or its budget appears here with its reason."
  />
);

const ownerColumns: readonly Column<OwnerUse>[] = [
  { label: 'Owner', cell: ({ owner }) => <OwnerName>{owner}</OwnerName> },
  { label: 'Active', isNumber: true, cell: ({ active, limit }) => ofLimit(active, limit) },
  { label: 'Running', isNumber: true, cell: ({ running }) => running },
  { label: 'Starting', isNumber: true, cell: ({ starting }) => starting },
  { label: 'Waiting', isNumber: true, cell: ({ waiting }) => waiting },
  { label: 'Paused', isNumber: true, cell: ({ paused }) => paused },
  { label: 'Finished', isNumber: true, cell: ({ finished }) => finished },
  { label: 'Failed', isNumber: true, cell: ({ failed }) => failed },
  { label: 'Text', isNumber: true, cell: ({ stored_bytes: stored }) => bytes(stored) },
];

export const OwnerTable = ({ overview: { owners } }: TableProps) => (
  <DataTable
    {...{ id: 'owners', title: 'Owners', columns: ownerColumns, ...owners }}
    keyOf={({ owner }) => owner}
    empty={
      <>
        No owner has a conversation. Give a person a key:{' '}
        <code>conversation-operator keys create --owner NAME</code>
      </>
    }
  />
);

const spenderColumns: readonly Column<Spender>[] = [
  {
    label: 'Owner',
    cell: ({ owner }) => (
      <a href={`/usage?owner=${encodeURIComponent(owner)}`}>
        <OwnerName>{owner}</OwnerName>
      </a>
    ),
  },
  // Calls without a price have no cost.
  { label: 'Cost', isNumber: true, cell: ({ cost }) => (cost === 0 ? '–' : money(cost)) },
  { label: 'Calls', isNumber: true, cell: ({ calls }) => count(calls) },
  { label: 'Tokens in', isNumber: true, cell: ({ input_tokens: tokens }) => count(tokens) },
  { label: 'Tokens out', isNumber: true, cell: ({ output_tokens: tokens }) => count(tokens) },
];

export const SpendingTable = ({ overview: { spending } }: TableProps) => (
  <DataTable
    {...{ id: 'spending', title: 'Spent this month', columns: spenderColumns, ...spending }}
    keyOf={({ owner }) => owner}
    empty="No model was called in this month (UTC)."
  />
);

const exhaustedColumns: readonly Column<ExhaustedBudget>[] = [
  { label: 'Quota', cell: ({ quota }) => quota },
  {
    label: 'Of',
    cell: ({ owner }) => (owner === null ? 'all together' : <OwnerName>{owner}</OwnerName>),
  },
  {
    label: 'Used',
    isNumber: true,
    cell: ({ currency, spent, amount }) => usedOf(currency, spent, amount),
  },
  { label: 'Starts again', cell: ({ resets_at: end }) => <Until time={end} /> },
];

export const ExhaustedTable = ({ overview: { exhausted_budgets: budgets } }: TableProps) => (
  <DataTable
    {...{ id: 'exhausted', title: 'Budgets used up', columns: exhaustedColumns, ...budgets }}
    keyOf={({ quota, owner, currency }) => `${quota} ${currency} ${owner ?? ''}`}
    empty="Every budget has something left."
  />
);

const upstreamColumns: readonly Column<UpstreamError>[] = [
  { label: 'Provider', cell: ({ provider }) => provider },
  { label: 'Last error', cell: ({ message }) => message },
  { label: 'Today', isNumber: true, cell: ({ today }) => count(today) },
  { label: 'When', cell: ({ last_at: time }) => <Ago time={time} /> },
];

export const UpstreamTable = ({ overview: { upstream_errors: errors } }: TableProps) => (
  <DataTable
    {...{
      id: 'upstreams',
      title: 'Errors of model providers',
      columns: upstreamColumns,
      ...errors,
    }}
    keyOf={({ provider, kind }) => `${kind} ${provider}`}
    empty="No provider has failed in this month or the last."
  />
);

/** The words of a policy: “PauseOldest” becomes “pause oldest”, which can wrap between words. */
const inWords = (policy: string): string =>
  policy.replaceAll(/(?<=[a-z])(?=[A-Z])/g, ' ').toLowerCase();

const quotaColumns: readonly Column<Quota>[] = [
  { label: 'Quota', cell: ({ name }) => name },
  {
    label: 'Of',
    cell: ({ scope, owner }) => {
      if (scope === 'Namespace') return 'all together';
      return owner === null ? 'each owner' : <OwnerName>{owner}</OwnerName>;
    },
  },
  { label: 'Active, limit', cell: quotaUse },
  { label: 'Waiting', isNumber: true, cell: ({ waiting }) => waiting ?? '–' },
  {
    label: 'Beyond it',
    cell: ({ on_exceeded: policy, conflict }) => (
      <>
        {inWords(policy)} {conflict !== null && <span class="problem">{conflict}</span>}
      </>
    ),
  },
];

export const QuotaTable = ({ overview: { quotas } }: TableProps) => (
  <DataTable
    {...{ id: 'quotas', title: 'Quotas', columns: quotaColumns, ...quotas }}
    keyOf={({ name }) => name}
    empty={
      <>
        No quota limits anything. A ConversationQuota does:{' '}
        <code>kubectl explain conversationquota.spec</code>
      </>
    }
  />
);

const poolColumns: readonly Column<Pool>[] = [
  { label: 'Pool', cell: ({ name }) => name },
  { label: 'Template', cell: ({ template }) => template },
  { label: 'Ready', isNumber: true, cell: ({ ready, wanted }) => ofLimit(ready, wanted) },
  {
    label: 'State',
    cell: (pool) => (
      <>
        <StateWord
          state={pool.is_ready === true ? 'good' : isPoolInTrouble(pool) ? 'bad' : 'waits'}
        >
          {pool.reason ?? 'Not judged yet'}
        </StateWord>{' '}
        {pool.is_ready !== true && pool.message}
      </>
    ),
  },
];

export const PoolTable = ({ overview: { pools } }: TableProps) => (
  <DataTable
    {...{ id: 'pools', title: 'Pools', columns: poolColumns, ...pools }}
    keyOf={({ name }) => name}
    empty={
      <>
        No pool keeps warm sandboxes. With a SandboxPool, starts need not wait for a pod:{' '}
        <code>kubectl explain sandboxpool.spec</code>
      </>
    }
  />
);

const validity = (isValid: boolean | null) =>
  isValid === null ? (
    <StateWord state="waits">Not checked yet</StateWord>
  ) : (
    <StateWord state={isValid ? 'good' : 'bad'}>{isValid ? 'Valid' : 'Invalid'}</StateWord>
  );

const templateColumns: readonly Column<Template>[] = [
  { label: 'Template', cell: ({ name }) => name },
  {
    label: 'State',
    cell: ({ is_valid: isValid, reason, message }) => (
      <>
        {validity(isValid)} {isValid === false && <Reason reason={reason} message={message} />}
      </>
    ),
  },
];

export const TemplateTable = ({ overview: { templates } }: TableProps) => (
  <DataTable
    {...{ id: 'templates', title: 'Templates', columns: templateColumns, ...templates }}
    keyOf={({ name }) => name}
    empty={
      <>
        There is no template, and no start succeeds without one:{' '}
        <code>kubectl explain sandboxtemplate.spec</code>
      </>
    }
  />
);

const leaderColumns: readonly Column<Leader>[] = [
  { label: 'Leader', cell: ({ holder }) => holder ?? 'none' },
  { label: 'Of', cell: (leader) => shardName(leader) || 'everything' },
  { label: 'Renewed', cell: ({ renewed_at: renewed }) => <Ago time={renewed} /> },
  {
    label: 'State',
    cell: ({ is_live: isLive }) => (
      <StateWord state={isLive ? 'good' : 'bad'}>{isLive ? 'Leads' : 'Does not lead'}</StateWord>
    ),
  },
];

export const LeaderTable = ({ overview: { leaders } }: TableProps) => (
  <DataTable
    {...{ id: 'leaders', title: 'Leader', columns: leaderColumns }}
    total={leaders?.length ?? 0}
    items={leaders ?? []}
    keyOf={shardName}
    empty="The operator runs in the process of this service; none is elected."
  />
);

const cacheColumns: readonly Column<CacheState>[] = [
  { label: 'Cache', cell: ({ kind }) => kind },
  { label: 'Objects', isNumber: true, cell: ({ objects }) => objects },
  {
    label: 'Last news',
    cell: ({ news_age_seconds: age }) => (age === null ? '–' : `${duration(age * 1000)} ago`),
  },
  {
    label: 'State',
    cell: (cache) => {
      const word = cacheWord(cache);
      return <StateWord state={word === 'Current' ? 'good' : 'bad'}>{word}</StateWord>;
    },
  },
];

export const CacheTable = ({ overview: { caches } }: TableProps) => (
  <DataTable
    {...{ id: 'caches', title: 'Caches', columns: cacheColumns, items: caches }}
    total={caches.length}
    keyOf={({ kind }) => kind}
    empty="This replica has no caches."
  />
);
