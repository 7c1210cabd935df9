import { sandboxIdOf } from '../../sentences/facts.ts';
import { usePage } from '../page-state.ts';
import type { Row } from '../row.ts';
import { withTitles } from '../../sentences/sentences.ts';
import { clockTime, exact } from '../times.ts';
import { duration } from '../../sentences/durations.ts';
import type { Resources, TimelineEntry } from '../wire.ts';
import { RetryProblem } from '../components/loading.tsx';
import { TextBlock } from '../components/text-block.tsx';
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo } from 'preact/hooks';
import { api, messageOf } from '../api.ts';
import { Refresher } from '../reading.ts';

interface LoadedProps<T> {
  readonly path: string;
  /** A new value makes the component load again. */
  readonly version: unknown;
  readonly children: (data: T) => ComponentChildren;
}

/** Reads `path` from the gateway, and shows the response or the reason of the failure. */
function Loaded<T>({ path, version, children }: LoadedProps<T>) {
  const data = useSignal<T | undefined>(undefined);
  const problem = useSignal<string | undefined>(undefined);
  const loading = useMemo(
    () =>
      new Refresher(async () => {
        try {
          data.value = await api.get<T>(path, {});
          problem.value = undefined;
        } catch (error) {
          problem.value = messageOf(error);
        }
      }),
    [path],
  );
  useEffect(() => void loading.run(), [loading, version]);
  return (
    <>
      {data.value !== undefined && children(data.value)}
      {data.value === undefined && problem.value === undefined && (
        <p class="quiet-text" role="status">
          Loading…
        </p>
      )}
      {problem.value !== undefined && (
        <RetryProblem text={problem.value} onRetry={() => void loading.run()} />
      )}
    </>
  );
}

const lasted = ({ kind, time, until }: TimelineEntry): string => {
  if (until === null) return '';
  if (kind === 'event') return ` until ${clockTime(Date.parse(until))}`;
  const ms = Date.parse(until) - Date.parse(time);
  return ms < 1000 ? ` (${ms} ms)` : ` (${duration(ms)})`;
};

const Entry = ({ entry }: { readonly entry: TimelineEntry }) => {
  const { store } = usePage();
  const { time, reason, message, is_warning: isWarning, count, kind } = entry;
  return (
    <li class={isWarning ? 'warning' : kind}>
      <time dateTime={time} title={exact(time)}>
        {clockTime(Date.parse(time))}
      </time>
      <span>
        {withTitles(message, store.titleOf)}
        <span class="quiet-text">
          {lasted(entry)} {reason}
          {count > 1 ? ` ×${count}` : ''}
        </span>
      </span>
    </li>
  );
};

const commandsOf = (row: Row, namespace: string): string => {
  const sandbox = sandboxIdOf(row.facts);
  const kubectl = (words: string) => `kubectl -n ${namespace} ${words}`;
  return [
    kubectl(`describe conversation ${row.id}`),
    ...(sandbox === undefined ? [] : [kubectl(`describe sandbox ${sandbox}`)]),
    kubectl(`get conversation ${row.id} -o yaml`),
  ].join('\n');
};

/** Shows kubectl commands, and resources that are requested when the user opens the details. */
function InTheCluster({ row }: { readonly row: Row }) {
  const isOpen = useSignal(false);
  return (
    <details class="kubectl" onToggle={(event) => (isOpen.value = event.currentTarget.open)}>
      <summary>In the cluster</summary>
      {isOpen.value && (
        <Loaded<Resources>
          path={`/api/v1/app-conversations/${row.id}/resources`}
          version={row.current.value}
        >
          {({ namespace, yaml }) => (
            <>
              <TextBlock label="Commands">{commandsOf(row, namespace)}</TextBlock>
              <TextBlock label="Resources as YAML">{yaml}</TextBlock>
            </>
          )}
        </Loaded>
      )}
    </details>
  );
}

/** The history of a conversation and its sandbox, oldest first, and their resources. */
export const Timeline = ({ row }: { readonly row: Row }) => (
  <section class="life" aria-labelledby="life">
    <h2 id="life">Life of the conversation</h2>
    <Loaded<readonly TimelineEntry[]>
      path={`${row.paths.base}/timeline`}
      version={row.current.value}
    >
      {(entries) => (
        <ol>
          {entries.map((entry, index) => (
            <Entry key={index} entry={entry} />
          ))}
        </ol>
      )}
    </Loaded>
    {!row.paths.isShared && <InTheCluster row={row} />}
  </section>
);
