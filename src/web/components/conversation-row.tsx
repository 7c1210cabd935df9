import { useComputed, useSignal, type ReadonlySignal } from '@preact/signals';
import {
  agentOf,
  branchOf,
  repositoryOf,
  sandboxStatusOf,
  templateOf,
  titleOf,
  updatedAtOf,
  type Facts,
} from '../../sentences/facts.ts';
import { groupNames, groupOf, pillOf } from '../../sentences/groups.ts';
import { usePage } from '../page-state.ts';
import { money, shortCount, spendingOf, type Spending } from '../money.ts';
import type { Row } from '../row.ts';
import { exact } from '../times.ts';
import { ago } from '../../sentences/durations.ts';
import { ActionProblem } from './loading.tsx';
import { RenameForm, RowControls, type RowMode } from './row-controls.tsx';
import { Icon } from './icon.tsx';
import { placeOf } from '../../sentences/forecast.ts';
import { sentenceOf, reachedStage, startStages } from '../../sentences/sentences.ts';
import type { StartTask } from '../wire.ts';

/** The status sentence of a conversation, updated with its records and with the time. */
export function useSentence(row: Row): ReadonlySignal<string> {
  const page = usePage();
  return useComputed(() =>
    sentenceOf(row.current.value, {
      now: page.now.value,
      resumePauses: page.may('manage') ? page.resumePauses.value : undefined,
      titleOf: page.store.titleOf,
      placeOf: (sandboxId) => page.store.quota.value && placeOf(page.store.quota.value, sandboxId),
    }),
  );
}

export function Pill({ facts }: { readonly facts: Facts }) {
  const { icon, label } = pillOf(facts);
  return (
    <span class={`pill pill-${icon === 'idle' ? icon : groupOf(facts)}`}>
      <Icon name={icon} />
      {label}
    </span>
  );
}

/** The five stages of a start, with the current or failed one marked. */
export function StageBar({ task }: { readonly task: StartTask }) {
  const present = reachedStage(task);
  const hasFailed = task.status === 'ERROR';
  const name = startStages[present]?.name ?? '';
  return (
    <span
      class="stages"
      role="img"
      aria-label={`${hasFailed ? 'Failed at stage' : 'Stage'} ${present + 1} of ${startStages.length}: ${name}`}
      title={startStages.map((stage) => stage.name).join(' · ')}
    >
      {startStages.map((stage, index) => (
        <span
          key={stage.name}
          class={
            index < present ? 'past' : index === present ? (hasFailed ? 'failed' : 'present') : ''
          }
        />
      ))}
      <span class="stage-name">{hasFailed ? `Failed: ${name}` : name}</span>
    </span>
  );
}

interface ConversationRowProps {
  readonly row: Row;
  readonly top: number;
  readonly height: number;
  /** Position in the group, starting at 1. */
  readonly position: number;
  readonly total: number;
}

function originOf({ current }: Row): string {
  const facts = current.value;
  const repository = repositoryOf(facts);
  const branch = branchOf(facts);
  const parts = [
    repository === undefined || branch === undefined ? repository : `${repository}@${branch}`,
    agentOf(facts),
    templateOf(facts),
  ];
  // A template often has the same name as its agent.
  return [...new Set(parts)].filter((part) => part !== undefined).join(' · ');
}

function Sentence({ row }: { readonly row: Row }) {
  const text = useSentence(row);
  if (row.action.value?.problem !== undefined)
    return <ActionProblem class="row-sentence problem" action={row.action} />;
  return (
    <span class="row-sentence" title={text}>
      {text}
    </span>
  );
}

function Mark({ row }: { readonly row: Row }) {
  const mark = row.mark.value;
  if (mark === undefined) return null;
  return <span class="mark">{mark === 'gone' ? 'Deleted' : `→ ${groupNames[mark]}`}</span>;
}

/** One conversation. The link of its title covers the whole row except the buttons. */
export function ConversationRow({ row, top, height, position, total }: ConversationRowProps) {
  const page = usePage();
  const mode = useSignal<RowMode>(undefined);
  const leave = () => (mode.value = undefined);
  const end = () => {
    leave();
    requestAnimationFrame(() => document.getElementById(`row-${row.id}`)?.focus());
  };
  const facts = row.current.value;
  const title = titleOf(facts);
  const updated = updatedAtOf(facts);
  const {
    cost = 0,
    inputTokens = 0,
    outputTokens = 0,
  }: Partial<Spending> = spendingOf(facts.conversation) ?? {};
  const tokens = inputTokens + outputTokens;
  const age = useComputed(() => ago(updatedAtOf(row.current.value), page.now.value));
  const isSelected = useComputed(() => page.selection.ids.value.has(row.id)).value;
  const isStarting =
    facts.task !== undefined && row.group === 'working' && sandboxStatusOf(facts) !== 'RUNNING';
  return (
    <li
      class={`row${page.active.value === row.id ? ' active' : ''}${isSelected ? ' selected' : ''}${row.mark.value === 'gone' ? ' gone' : ''}`}
      style={{ top: `${top}px`, height: `${height}px` }}
      aria-setsize={total}
      aria-posinset={position}
      onFocusIn={() => (page.active.value = row.id)}
    >
      {page.maySelect() && (
        <label class="row-check">
          <input
            type="checkbox"
            aria-label={`Select ${title}`}
            checked={isSelected}
            onChange={() => page.selection.toggle(row.id)}
          />
        </label>
      )}
      <Pill facts={facts} />
      <span class="row-main">
        <span class="row-head">
          {mode.value === 'rename' ? (
            <RenameForm row={row} onEnd={end} onLeave={leave} />
          ) : (
            <a class="row-title" id={`row-${row.id}`} href={`/c/${row.id}`} title={title}>
              {title}
            </a>
          )}
          <Mark row={row} />
        </span>
        <Sentence row={row} />
        <span class="row-details">
          {isStarting && <StageBar task={facts.task} />}
          <span class="row-origin">{originOf(row)}</span>
          {tokens > 0 && <span>{shortCount(tokens)} tokens</span>}
          {cost > 0 && <span>{money(cost)}</span>}
          <time dateTime={updated} title={exact(updated)}>
            {age}
          </time>
        </span>
      </span>
      <RowControls row={row} mode={mode} onEnd={end} />
    </li>
  );
}
