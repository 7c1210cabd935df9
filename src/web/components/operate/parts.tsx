import { usePage } from '../../page-state.ts';
import { ago, duration, exact } from '../../times.ts';
import { Icon, type IconName } from '../icon.tsx';

const icons: Readonly<Record<string, IconName>> = {
  good: 'done',
  bad: 'alert',
  waits: 'wait',
};

interface StateWordProps {
  readonly state: 'good' | 'bad' | 'waits';
  readonly children: string;
}

const classes = { good: 'pill-finished', bad: 'pill-failed', waits: 'pill-idle' } as const;

/** A state as an icon and a word. */
export const StateWord = ({ state, children }: StateWordProps) => (
  <span class={`pill ${classes[state]}`}>
    <Icon name={icons[state] ?? 'idle'} />
    {children}
  </span>
);

/** A time relative to now, with the exact one on hover. */
export function Ago({ time }: { readonly time: string | null }) {
  const { now } = usePage();
  if (time === null) return <>–</>;
  return (
    <time dateTime={time} title={exact(time)}>
      {ago(time, now.value)}
    </time>
  );
}

/** The end of something, with the exact time on hover. */
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

interface ReasonProps {
  readonly reason: string | null;
  readonly message: string | null;
}

/** The reason of a state with its explanation, which other people may have written. */
export const Reason = ({ reason, message }: ReasonProps) => (
  <>
    {reason !== null && <b>{reason}</b>} {message}
  </>
);
