import { useEffect, useMemo } from 'preact/hooks';
import { KeyList, type KeyRow } from '../key-list.ts';
import { usePage } from '../page-state.ts';
import { clockTime, delayAfter } from '../times.ts';
import { duration } from '../../sentences/durations.ts';
import { bytes, isWebAddress, troublesOf } from '../troubles.ts';
import type { OverviewRecord } from '../wire.ts';
import {
  StateWord,
  Ago,
  Until,
  DataTable,
  OwnerName,
  type Column,
  CacheTable,
  ExhaustedTable,
  LeaderTable,
  OwnerTable,
  PoolTable,
  QueueTable,
  QuotaTable,
  SpendingTable,
  TemplateTable,
  UpstreamTable,
} from '../components/tables.tsx';
import { AskingButton } from '../components/asking-button.tsx';
import { RetryProblem } from '../components/loading.tsx';
import { signal } from '@preact/signals';
import { api, ApiError, messageOf } from '../api.ts';

/** Maximum time for a response; a later one counts as failed. */
const timeoutMs = 15_000;

interface ReadFailure {
  readonly message: string;
  /** Number of consecutive failed reads. */
  readonly failures: number;
  readonly nextAt: number;
}

/** The overview on the page /operate, which is read repeatedly while the page is visible. */
class ServiceState {
  readonly overview = signal<OverviewRecord | undefined>(undefined);
  readonly failure = signal<ReadFailure | undefined>(undefined);
  /** Whether the gateway has responded that the session lacks the role `admin`. */
  readonly isForbidden = signal(false);
  /** Time of the last successful read. */
  readAt: number | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isReading = false;
  #isOpen = false;

  open(): () => void {
    this.#isOpen = true;
    document.addEventListener('visibilitychange', this.#onVisible);
    void this.read();
    return () => {
      this.#isOpen = false;
      document.removeEventListener('visibilitychange', this.#onVisible);
      clearTimeout(this.#timer);
    };
  }

  read = async (): Promise<void> => {
    if (this.#isReading) return;
    this.#isReading = true;
    clearTimeout(this.#timer);
    try {
      this.overview.value = await api.get<OverviewRecord>(
        '/api/v1/admin/overview',
        {},
        AbortSignal.timeout(timeoutMs),
      );
      this.readAt = Date.now();
      this.failure.value = undefined;
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#isReading = false;
    }
    if (!this.#isOpen || this.isForbidden.peek()) return;
    const delay = delayAfter(this.failure.peek()?.failures ?? 0);
    this.#timer = setTimeout(this.#onTime, delay);
  };

  #failed(error: unknown): void {
    const status = error instanceof ApiError ? error.problem.status : undefined;
    this.isForbidden.value = status === 403;
    const failures = (this.failure.peek()?.failures ?? 0) + 1;
    const nextAt = Date.now() + delayAfter(failures);
    this.failure.value = { message: messageOf(error), failures, nextAt };
  }

  #onTime = (): void => {
    if (document.visibilityState === 'visible') void this.read();
  };

  /** Reads the overview when the page becomes visible: the figures of a hidden page are old. */
  #onVisible = (): void => {
    if (this.isForbidden.peek()) return;
    clearTimeout(this.#timer);
    this.#onTime();
  };
}

function Revoke({ row, keys }: { readonly row: KeyRow; readonly keys: KeyList }) {
  const { may } = usePage();
  const { id, name, user_id: owner } = row.record;
  if (!may('manage')) return null;
  return (
    <AskingButton
      verb="Revoke"
      subject={`${name} of ${owner}`}
      {...(keys.endsSession(id) ? { question: 'Revoke, and sign out?' } : {})}
      action={row.action}
      isAsking={row.isAsking}
      onConfirm={() => void keys.revoke(row)}
    />
  );
}

const columnsOf = (keys: KeyList): readonly Column<KeyRow>[] => [
  {
    label: 'Key',
    cell: ({ record: { id, name } }) => (
      <span title={id}>
        {name}
        {keys.own.value === id && <span class="quiet-text"> (this session)</span>}
      </span>
    ),
  },
  { label: 'Owner', cell: ({ record }) => <OwnerName>{record.user_id}</OwnerName> },
  { label: 'Role', cell: ({ record }) => record.role },
  { label: 'Created', cell: ({ record }) => <Ago time={record.created_at} /> },
  { label: 'Last used', cell: ({ record }) => <Ago time={record.last_used_at} /> },
  { label: 'Expires', cell: ({ record }) => <Until time={record.expires_at} /> },
  { label: 'Action', cell: (row) => <Revoke row={row} keys={keys} /> },
];

function KeysSection({ keys }: { readonly keys: KeyList }) {
  const rows = keys.rows.value;
  const problem = keys.problem.value;
  const next = keys.next.value;
  return (
    <DataTable
      {...{ id: 'keys', title: 'API keys', columns: columnsOf(keys), items: rows ?? [] }}
      total={rows?.length ?? 0}
      keyOf={({ record }) => record.id}
      empty={
        rows === undefined ? (
          'Reading the keys…'
        ) : (
          <>
            There is no key. Make one: <code>conversation-operator keys create --owner NAME</code>
          </>
        )
      }
    >
      {problem !== undefined && (
        <RetryProblem
          text={problem}
          onRetry={() => void (next === undefined ? keys.open() : keys.more())}
        />
      )}
      {next !== undefined && (
        <button type="button" class="small" onClick={() => void keys.more()}>
          More keys
        </button>
      )}
    </DataTable>
  );
}

const NotAdmin = () => (
  <main class="missing">
    <h1>This page is for admins of the service.</h1>
    <p>
      <a href="/">All conversations</a>
    </p>
  </main>
);

/** The failure, and the time of the shown figures, while the gateway does not respond. */
function Freshness({ state }: { readonly state: ServiceState }) {
  const { now } = usePage();
  const failure = state.failure.value;
  if (failure === undefined) return null;
  const since =
    state.readAt === undefined ? '' : ` These figures are of ${clockTime(state.readAt)}.`;
  return (
    <p class="problem" role="alert">
      {failure.message}
      {since}{' '}
      <span aria-hidden="true">Next attempt in {duration(failure.nextAt - now.value)}.</span>{' '}
      <button type="button" class="link" onClick={() => void state.read()}>
        Try again
      </button>
    </p>
  );
}

interface VerdictProps {
  readonly overview: OverviewRecord;
  /** Whether the last read has failed, so that the overview is old. */
  readonly isOld: boolean;
}

function VerdictWord({ isWell, isOld }: { readonly isWell: boolean; readonly isOld: boolean }) {
  if (!isWell) return <StateWord state="bad">The service needs you</StateWord>;
  return isOld ? (
    <StateWord state="waits">The service was well</StateWord>
  ) : (
    <StateWord state="good">The service is well</StateWord>
  );
}

function Verdict({ overview, isOld }: VerdictProps) {
  const troubles = troublesOf(overview);
  return (
    <div class="verdict" role="status">
      <VerdictWord isWell={troubles.length === 0} isOld={isOld} />
      {troubles.length > 0 && (
        <ul>
          {troubles.map(({ text, href }) => (
            <li key={text}>
              <a href={href}>{text}</a>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function Totals({ overview: { totals } }: { readonly overview: OverviewRecord }) {
  const figures = [
    ['Active', totals.active],
    ['Running', totals.running],
    ['Starting', totals.starting],
    ['Waiting', totals.waiting],
    ['Paused', totals.paused],
    ['Finished', totals.finished],
    ['Failed', totals.failed],
    ['Warm', totals.spares],
    ['Stored text', bytes(totals.stored_bytes)],
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

function About({ overview }: { readonly overview: OverviewRecord }) {
  const { version, uptime_seconds: uptime, metrics_url: metrics } = overview;
  return (
    <p class="quiet-text">
      Version {version} · up for {duration(uptime * 1000)} ·{' '}
      {metrics !== null && isWebAddress(metrics) ? (
        <a href={metrics} rel="noreferrer">
          Metrics
        </a>
      ) : (
        <>
          metrics: <code>/metrics</code> on the port <code>metrics</code> of each pod
        </>
      )}
    </p>
  );
}

function Present({ overview, isOld }: VerdictProps) {
  const keys = useMemo(() => new KeyList({ owner: '*' }), []);
  useEffect(() => void keys.open(), [keys]);
  return (
    <>
      <Verdict overview={overview} isOld={isOld} />
      <Totals overview={overview} />
      <div class="sections">
        <div>
          <QueueTable overview={overview} />
          <OwnerTable overview={overview} />
          <SpendingTable overview={overview} />
          <UpstreamTable overview={overview} />
          <KeysSection keys={keys} />
        </div>
        <div>
          <TemplateTable overview={overview} />
          <QuotaTable overview={overview} />
          <ExhaustedTable overview={overview} />
          <PoolTable overview={overview} />
          <LeaderTable overview={overview} />
          <CacheTable overview={overview} />
        </div>
      </div>
    </>
  );
}

export function OperatePage() {
  const state = useMemo(() => new ServiceState(), []);
  const { title } = usePage();
  useEffect(() => {
    title.value = 'Operate';
    return state.open();
  }, [state]);
  if (state.isForbidden.value) return <NotAdmin />;
  const overview = state.overview.value;
  return (
    <main class="operate">
      <div class="operate-head">
        <h1>Operate</h1>
        {overview !== undefined && <About overview={overview} />}
      </div>
      <Freshness state={state} />
      {overview !== undefined ? (
        <Present overview={overview} isOld={state.failure.value !== undefined} />
      ) : (
        state.failure.value === undefined && <p class="quiet-text">Reading the state…</p>
      )}
    </main>
  );
}
