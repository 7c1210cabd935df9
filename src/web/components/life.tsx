import { sandboxIdOf, sandboxStatusOf } from '../facts.ts';
import { usePage } from '../page-state.ts';
import type { Row } from '../row.ts';
import { withTitles } from '../sentences.ts';
import { clockTime, duration, exact } from '../times.ts';
import type { Resources, TimelineEntry } from '../wire.ts';
import { LoadedDetails } from './loaded-details.tsx';
import { TextBlock } from './text-block.tsx';

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
