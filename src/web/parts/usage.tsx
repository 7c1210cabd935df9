import { useComputed, useSignal } from '@preact/signals';
import { useEffect, useMemo } from 'preact/hooks';
import { api, messageOf } from '../api.ts';
import { budgetForecast } from '../budget-forecast.ts';
import { periodWords } from '../budget-warning.ts';
import { RetryProblem, Skeleton } from '../components/loading.tsx';
import { Use } from '../components/quota-panel.tsx';
import { DataTable, Until, type Column } from '../components/tables.tsx';
import { shortDay, UsageChart } from '../components/usage-chart.tsx';
import { amountOf, cachedPart, count, money, usedOf } from '../money.ts';
import { usePage } from '../page-state.ts';
import { dayOf } from '../days.ts';
import {
  daysOf,
  isSpan,
  problemOfSpan,
  spanOfMonth,
  spans,
  startOfMonth,
  type DaySpan,
} from '../day-spans.ts';
import { exact, serviceTime } from '../times.ts';
import {
  isSame,
  queryOf,
  UsageState,
  type Choice,
  type Group,
  type Shown,
} from '../usage-state.ts';
import type { OverviewRecord, UsageCounters, UsageItem, UsageReport } from '../wire.ts';

/** Maximum rows of a table; a CSV file has all. */
const maxRows = 200;

interface StateProps {
  readonly state: UsageState;
}

/** A choice of the owner, for admins, with the names of owners who have conversations. */
function OwnerField({ state }: StateProps) {
  const names = useSignal<readonly string[]>([]);
  // A field that renders again, as when the names arrive, keeps what is typed.
  const typed = useSignal(state.owner.peek() ?? '');
  const suggest = () => {
    if (names.peek().length > 0) return;
    api.get<OverviewRecord>('/api/v1/admin/overview', {}).then(
      ({ owners }) => (names.value = owners.items.map(({ owner }) => owner)),
      () => undefined,
    );
  };
  return (
    <label class="field">
      <span>Owner</span>
      <input
        type="text"
        list="owner-names"
        placeholder="You"
        autocomplete="off"
        spellcheck={false}
        value={typed.value}
        onFocus={suggest}
        onInput={(event) => (typed.value = event.currentTarget.value)}
        onChange={() => state.chooseOwner(typed.peek())}
      />
      <datalist id="owner-names">
        {names.value.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </label>
  );
}

function DayField({ state, end }: StateProps & { readonly end: keyof DaySpan }) {
  return (
    <label class="field">
      <span>{end === 'from' ? 'From' : 'To'}</span>
      <input
        type="date"
        value={state.own.value[end]}
        aria-invalid={problemOfSpan(state.own.value) !== undefined}
        onChange={(event) => state.chooseDays({ [end]: event.currentTarget.value })}
      />
    </label>
  );
}

const monthName = (month: string): string =>
  new Date(`${month}-01T00:00:00Z`).toLocaleDateString(undefined, {
    month: 'long',
    year: 'numeric',
    timeZone: 'UTC',
  });

/** Links to the months before and after the shown one, while the page shows a month. */
function Months({ state }: StateProps) {
  const span = state.span.value;
  if (span !== 'named' && span !== 'month' && span !== 'last-month') return null;
  const { from } = state.choice;
  const today = dayOf(serviceTime());
  const months = [-1, 1].map((step) => startOfMonth(from, step).slice(0, 'YYYY-MM'.length));
  return (
    <nav class="months" aria-label="Months">
      {months
        .filter((month) => spanOfMonth(month, today) !== undefined)
        .map((month) => (
          <a key={month} href={state.addressOf({ month })}>
            {monthName(month)}
          </a>
        ))}
    </nav>
  );
}

function Choices({ state }: StateProps) {
  const { account } = usePage();
  const problem = state.span.value === 'own' ? problemOfSpan(state.own.value) : undefined;
  return (
    <form class="choices" aria-label="What to show" onSubmit={(event) => event.preventDefault()}>
      <label class="field">
        <span>Days (UTC)</span>
        <select
          value={state.span.value}
          onChange={({ currentTarget: { value } }) =>
            state.choose(isSpan(value) || value === 'named' ? value : 'own')
          }
        >
          {Object.entries(spans).map(([span, name]) => (
            <option key={span} value={span}>
              {name}
            </option>
          ))}
          {state.span.value === 'named' && <option value="named">{monthName(state.month)}</option>}
          <option value="own">Other days…</option>
        </select>
      </label>
      {state.span.value === 'own' && (
        <>
          <DayField state={state} end="from" />
          <DayField state={state} end="to" />
        </>
      )}
      {account.value?.role === 'admin' && <OwnerField state={state} />}
      <Months state={state} />
      {state.isMonthUnknown && (
        <p class="problem" role="alert">
          The address names no month as YYYY-MM up to this one, so this month is shown.
        </p>
      )}
      {problem !== undefined && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
    </form>
  );
}

interface BudgetProps {
  readonly pace: UsageReport;
}

/** The budget in the present period, whichever days the page shows. */
function Budget({ pace: { budget, items } }: BudgetProps) {
  const { now } = usePage();
  const forecast = useComputed(() =>
    budget === null ? undefined : budgetForecast(budget, { now: now.value, days: items }),
  );
  if (budget === null)
    return (
      <section class="panel" aria-labelledby="budget">
        <h2 id="budget">Budget</h2>
        <p class="quiet-text">No budget limits this owner.</p>
      </section>
    );
  const { amount, currency, period, scope, spent, reserved, resets_at: end } = budget;
  return (
    <section class="panel" aria-labelledby="budget">
      <h2 id="budget">{scope === 'Owner' ? 'Budget' : 'Budget of all owners together'}</h2>
      <Use
        label={`Used ${periodWords[period]}`}
        used={spent}
        limit={amount}
        text={usedOf(currency, spent, amount)}
      />
      {spent >= amount ? (
        <p class="problem">
          It is used up. Agents get no answers of models until it starts again or is raised.
        </p>
      ) : (
        forecast.value !== undefined && <p>{forecast.value}</p>
      )}
      <p class="quiet-text">
        It starts again on <time dateTime={end}>{exact(end)}</time> (<Until time={end} />
        ).
        {reserved > 0 && ` ${amountOf(currency, reserved)} more is reserved for calls under way.`}
      </p>
    </section>
  );
}

/** The cost of calls; calls without a price, and no calls, have none. */
const costText = ({ cost }: UsageCounters): string => (cost === 0 ? '–' : money(cost));

function Totals({ total }: { readonly total: UsageCounters }) {
  const figures = [
    ['Cost', costText(total)],
    ['Calls', count(total.calls)],
    ['Tokens in', count(total.input_tokens)],
    ['From the cache', cachedPart(total.cached_input_tokens, total.input_tokens)],
    ['Tokens out', count(total.output_tokens)],
  ] as const;
  return (
    <dl class="figures">
      {figures.map(([label, value]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

const figureColumns: readonly Column<UsageItem>[] = [
  { label: 'Cost', isNumber: true, cell: costText },
  { label: 'Calls', isNumber: true, cell: ({ calls }) => count(calls) },
  { label: 'Tokens in', isNumber: true, cell: ({ input_tokens: tokens }) => count(tokens) },
  { label: 'Cached', isNumber: true, cell: ({ cached_input_tokens: tokens }) => count(tokens) },
  { label: 'Tokens out', isNumber: true, cell: ({ output_tokens: tokens }) => count(tokens) },
];

/** Key of the sum of those for which the record of a month had no room. */
const otherKey = 'other';

function ConversationName({ id }: { readonly id: string }) {
  const { store } = usePage();
  if (id === otherKey) return <>Older conversations</>;
  return store.rowOf(id) === undefined ? (
    <span class="quiet-text">{id}</span>
  ) : (
    <a href={`/c/${id}`}>{store.titleOf(id)}</a>
  );
}

const sectionNames = {
  day: 'By day',
  model: 'By model',
  template: 'By template',
  conversation: 'By conversation',
} as const satisfies Readonly<Record<Group, string>>;

const cellOf: Readonly<Record<Group, Column<UsageItem>['cell']>> = {
  day: ({ key }) => <time dateTime={key}>{shortDay(key)}</time>,
  model: ({ key }) => (key === otherKey ? 'Other models' : key),
  template: ({ key }) => (key === '' ? 'None' : key),
  conversation: ({ key }) => <ConversationName id={key} />,
};

const columnsOf = (group: Group): readonly Column<UsageItem>[] => [
  { label: group.charAt(0).toUpperCase() + group.slice(1), cell: cellOf[group] },
  ...figureColumns,
];

const byCost = (one: UsageItem, other: UsageItem): number =>
  other.cost - one.cost ||
  other.input_tokens + other.output_tokens - one.input_tokens - one.output_tokens;

interface CsvProps {
  readonly group: Group;
  readonly choice: Choice;
}

/** A button that saves the figures of a table as a CSV file. */
function Csv({ group, choice }: CsvProps) {
  const problem = useSignal<string | undefined>(undefined);
  const save = async () => {
    problem.value = undefined;
    try {
      const text = await api.getCsv('/api/v1/usage', queryOf(group, choice));
      const href = URL.createObjectURL(new Blob([text], { type: 'text/csv' }));
      const download = `usage-by-${group}-${choice.from}-${choice.to}.csv`;
      Object.assign(document.createElement('a'), { href, download }).click();
      URL.revokeObjectURL(href);
    } catch (error) {
      problem.value = messageOf(error);
    }
  };
  return problem.value === undefined ? (
    <button
      type="button"
      class="small csv"
      aria-label={`Download ${sectionNames[group].toLowerCase()} as CSV`}
      onClick={() => void save()}
    >
      CSV
    </button>
  ) : (
    <RetryProblem text={problem.value} onRetry={() => void save()} />
  );
}

interface TableProps extends CsvProps {
  readonly items: readonly UsageItem[];
}

const UsageTable = ({ group, choice, items }: TableProps) => (
  <DataTable
    id={`by-${group}`}
    title={sectionNames[group]}
    columns={columnsOf(group)}
    items={items.slice(0, maxRows)}
    total={items.length}
    keyOf={({ key }) => key}
    empty="Nothing."
  >
    {group === 'conversation' && (
      <p class="quiet-text">Each month with one of the days counts as a whole.</p>
    )}
    <Csv group={group} choice={choice} />
  </DataTable>
);

const noUse = (key: string): UsageItem => ({
  key,
  calls: 0,
  input_tokens: 0,
  cached_input_tokens: 0,
  output_tokens: 0,
  cost: 0,
});

const Empty = () => (
  <div class="panel">
    <h2>No model was called in these days</h2>
    <p>
      What conversations spend on models appears here. <a href="/">Start a conversation</a>, or
      choose other days.
    </p>
  </div>
);

function Figures({ shown: { choice, reports } }: { readonly shown: Shown }) {
  const { total, items } = reports.day;
  if (total.calls === 0) return <Empty />;
  const known = new Map(items.map((item) => [item.key, item]));
  const days = daysOf(choice).map((day) => known.get(day) ?? noUse(day));
  const table = (group: Group) => (
    <UsageTable group={group} choice={choice} items={reports[group].items.toSorted(byCost)} />
  );
  return (
    <>
      <Totals total={total} />
      <UsageChart days={days} />
      <details class="tool days">
        <summary>
          <b>The days as a table</b>
        </summary>
        <UsageTable group="day" choice={choice} items={days.toReversed()} />
      </details>
      {table('model')}
      {table('template')}
      {table('conversation')}
    </>
  );
}

function Content({ state }: StateProps) {
  const shown = state.shown.value;
  const problem = state.problem.value;
  const { choice } = state;
  const isShown = shown !== undefined && isSame(shown.choice, choice);
  return (
    <>
      {problem !== undefined && (
        <RetryProblem
          text={isShown ? `${problem} The figures below are older.` : problem}
          onRetry={() => void state.read()}
        />
      )}
      {isShown ? (
        <>
          <Budget pace={shown.pace} />
          <Figures shown={shown} />
        </>
      ) : (
        problem === undefined &&
        problemOfSpan(choice) === undefined && <Skeleton lines={8}>Reading the usage…</Skeleton>
      )}
    </>
  );
}

export function UsagePage() {
  const state = useMemo(() => new UsageState(), []);
  const { title } = usePage();
  useEffect(() => {
    title.value = 'Usage';
    return state.open();
  }, [state]);
  return (
    <main class="operate usage">
      <h1>Usage</h1>
      <Choices state={state} />
      <Content state={state} />
    </main>
  );
}
