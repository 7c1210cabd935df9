import { useEffect, useMemo } from 'preact/hooks';
import { KeyList } from '../../key-list.ts';
import { ServiceState } from '../../operate.ts';
import { usePage } from '../../page-state.ts';
import { clockTime, duration } from '../../times.ts';
import { bytes, isWebAddress, troublesOf } from '../../troubles.ts';
import type { OverviewRecord } from '../../wire.ts';
import { StateWord } from './parts.tsx';
import { KeysSection } from './keys-section.tsx';
import {
  CacheTable,
  LeaderTable,
  OwnerTable,
  PoolTable,
  QueueTable,
  QuotaTable,
  TemplateTable,
} from './tables.tsx';

const NotAdmin = () => (
  <main class="missing">
    <h1>This page is for admins of the service.</h1>
    <p>
      <a href="/">All conversations</a>
    </p>
  </main>
);

/** One line while the service does not answer; the figures stay, with their time. */
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
  /** Whether the service does not answer any more. */
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

/** The totals of all owners. */
function Totals({ overview: { totals } }: { readonly overview: OverviewRecord }) {
  const figures = [
    ['Active', totals.active],
    ['Running', totals.running],
    ['Starting', totals.starting],
    ['Waiting', totals.waiting],
    ['Paused', totals.paused],
    ['Finished', totals.finished],
    ['Failed', totals.failed],
    ['Spares', totals.spares],
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
          <KeysSection keys={keys} />
        </div>
        <div>
          <TemplateTable overview={overview} />
          <QuotaTable overview={overview} />
          <PoolTable overview={overview} />
          <LeaderTable overview={overview} />
          <CacheTable overview={overview} />
        </div>
      </div>
    </>
  );
}

/** The page of the state of the service, for admins. */
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
