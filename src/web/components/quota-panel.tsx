import { useComputed } from '@preact/signals';
import { forecastOf } from '../../sentences/forecast.ts';
import { usePage } from '../page-state.ts';
import type { QuotaRecord } from '../wire.ts';

/** Used fraction of a limit from which small windows show the limit. */
const nearlyFull = 0.8;

interface UseProps {
  /** Whether small windows show this limit only if it is nearly full. */
  readonly isMinor?: boolean;
  readonly label: string;
  readonly used: number;
  readonly limit: number;
  readonly text: string;
}

export function Use({ isMinor = false, label, used, limit, text }: UseProps) {
  const part = limit === 0 ? 1 : Math.min(1, used / limit);
  return (
    <div class={isMinor && part < nearlyFull ? 'use minor' : 'use'}>
      <span>{label}</span>
      <span class="use-text">{text}</span>
      <div
        class={`bar${part >= 1 ? ' full' : ''}`}
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={limit}
        aria-valuenow={Math.min(used, limit)}
        aria-valuetext={text}
      >
        <span style={{ width: `${part * 100}%` }} />
      </div>
    </div>
  );
}

const amount = (of: QuotaRecord['caps'][number]['of'], value: number): string =>
  of === 'stored_bytes' ? `${(value / 2 ** 20).toFixed(1)} MiB` : String(value);
const capNames = {
  conversations: 'Stored conversations',
  stored_bytes: 'Stored text',
  sandboxes: 'Sandboxes with files',
} as const satisfies Readonly<Record<QuotaRecord['caps'][number]['of'], string>>;

const ofAll = (scope: string): string => (scope === 'Namespace' ? ', all owners' : '');

function BareCount() {
  const { length } = usePage().store.bareSandboxes.value;
  return length === 0 ? null : (
    <a href="#bare-sandboxes">
      {length} {length === 1 ? 'sandbox' : 'sandboxes'} without a conversation
    </a>
  );
}

function Waiting({ waiting, paused }: Pick<QuotaRecord, 'waiting' | 'paused'>) {
  const parts = [
    ...(waiting === 0 ? [] : [`${waiting} ${waiting === 1 ? 'waits' : 'wait'} for room`]),
    ...(paused === 0
      ? []
      : [
          paused === 1
            ? '1 paused, comes back by itself'
            : `${paused} paused, come back by themselves`,
        ]),
  ];
  return parts.length === 0 ? null : <p class="quiet-text">{parts.join(' · ')}</p>;
}

export function QuotaPanel() {
  const { store, now, may } = usePage();
  const quota = store.quota.value;
  const forecast = useComputed(() =>
    store.quota.value === undefined ? '' : forecastOf(store.quota.value, store.titleOf, now.value),
  );
  if (quota === undefined) return null;
  return (
    <section class="panel quota" aria-labelledby="quota">
      <h2 id="quota">Quota</h2>
      {quota.quotas.length === 0 && <p>{quota.active} active. No quota limits them.</p>}
      {quota.quotas.map(({ name, scope, limit, active }) => (
        <Use
          key={name}
          label={`Active${ofAll(scope)}`}
          used={active}
          limit={limit}
          text={`${active} of ${limit}`}
        />
      ))}
      <Waiting waiting={quota.waiting} paused={quota.paused} />
      <BareCount />
      {quota.caps.map(({ quota: name, scope, of, limit, current }) => (
        <Use
          key={`${name} ${of}`}
          isMinor
          label={`${capNames[of]}${ofAll(scope)}`}
          used={current}
          limit={limit}
          text={`${amount(of, current)} of ${amount(of, limit)}`}
        />
      ))}
      {may('start') && <p class="next-start">Next start: {forecast}</p>}
    </section>
  );
}
