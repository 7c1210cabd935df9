import { stageOf, startStages } from '../start-stages.ts';
import type { StartTask } from '../wire.ts';

/** The five stages of a start, as far as it has come. */
export function StageBar({ task }: { readonly task: StartTask }) {
  const present = stageOf(task.status) ?? 0;
  const name = startStages[present]?.name ?? '';
  return (
    <span
      class="stages"
      role="img"
      aria-label={`Stage ${present + 1} of ${startStages.length}: ${name}`}
      title={startStages.map((stage) => stage.name).join(' · ')}
    >
      {startStages.map((stage, index) => (
        <span
          key={stage.name}
          class={index < present ? 'past' : index === present ? 'present' : ''}
        />
      ))}
      <span class="stage-name">{name}</span>
    </span>
  );
}
