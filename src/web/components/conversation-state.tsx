import type { Facts } from '../facts.ts';
import { groupOf, pillOf } from '../groups.ts';
import { Icon } from './icon.tsx';
import { useComputed, type ReadonlySignal } from '@preact/signals';
import { placeOf } from '../forecast.ts';
import { usePage } from '../page-state.ts';
import type { Row } from '../row.ts';
import { sentenceOf, reachedStage, startStages } from '../sentences.ts';
import type { StartTask } from '../wire.ts';

/** The sentence of a conversation, which follows its records and the time. */
export function useSentence(row: Row): ReadonlySignal<string> {
  const page = usePage();
  return useComputed(() =>
    sentenceOf(row.current.value, {
      now: page.now.value,
      resumePauses: page.resumePauses.value,
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

/** The five stages of a start, as far as it has come. */
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
