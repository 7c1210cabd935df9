import { sandboxIdOf, sandboxStatusOf } from '../facts.ts';
import { usePage } from '../page-state.ts';
import type { Row } from '../row.ts';
import { withTitles } from '../sentences.ts';
import { clockTime, duration, exact } from '../times.ts';
import type { Resources, TimelineEntry } from '../wire.ts';
import { RetryProblem } from './retry-problem.tsx';
import { TextBlock } from './text-block.tsx';
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo } from 'preact/hooks';
import { api, messageOf } from '../api.ts';
import { Refresher } from '../refresher.ts';

interface LoadedDetailsProps<T> {
  readonly class: string;
  readonly summary: string;
  readonly path: string;
  /** Another value makes an open one load again. */
  readonly version: unknown;
  readonly isOpenAtFirst?: boolean;
  readonly show: (data: T) => ComponentChildren;
}

/** Details that the service is asked for while they are open. */
function LoadedDetails<T>(props: LoadedDetailsProps<T>) {
  const { summary, path, version, isOpenAtFirst = false, show } = props;
  const isOpen = useSignal(isOpenAtFirst);
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
  useEffect(() => {
    if (isOpen.value) void loading.run();
  }, [isOpen.value, version]);
  return (
    <details
      class={props.class}
      open={isOpen.value}
      onToggle={(event) => {
        isOpen.value = event.currentTarget.open;
      }}
    >
      <summary>{summary}</summary>
      {data.value !== undefined && show(data.value)}
      {data.value === undefined && problem.value === undefined && isOpen.value && (
        <p class="quiet-text">Loading…</p>
      )}
      {problem.value !== undefined && (
        <RetryProblem text={problem.value} onRetry={() => void loading.run()} />
      )}
    </details>
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

/** The events in the life of a conversation; open where its state needs an explanation. */
export function Timeline({ row }: { readonly row: Row }) {
  const facts = row.current.value;
  return (
    <LoadedDetails<readonly TimelineEntry[]>
      class="life"
      summary="Life of the conversation"
      path={`/api/v1/app-conversations/${row.id}/timeline`}
      version={facts}
      isOpenAtFirst={sandboxStatusOf(facts) !== 'RUNNING'}
      show={(entries) => (
        <ol>
          {entries.map((entry, index) => (
            <Entry key={index} entry={entry} />
          ))}
        </ol>
      )}
    />
  );
}

const commandsOf = (row: Row, namespace: string): string => {
  const sandbox = sandboxIdOf(row.facts);
  const kubectl = (words: string) => `kubectl -n ${namespace} ${words}`;
  return [
    kubectl(`describe conversation ${row.id}`),
    ...(sandbox === undefined ? [] : [kubectl(`describe sandbox ${sandbox}`)]),
    kubectl(`get conversation ${row.id} -o yaml`),
  ].join('\n');
};

/** How kubectl shows the same, and the resources. */
export const InTheCluster = ({ row }: { readonly row: Row }) => (
  <LoadedDetails<Resources>
    class="kubectl"
    summary="In the cluster"
    path={`/api/v1/app-conversations/${row.id}/resources`}
    version={row.current.value}
    show={({ namespace, yaml }) => (
      <>
        <TextBlock label="Commands">{commandsOf(row, namespace)}</TextBlock>
        <TextBlock label="Resources as YAML">{yaml}</TextBlock>
      </>
    )}
  />
);
