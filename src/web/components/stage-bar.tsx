import { reachedStage, startStages } from '../start-stages.ts';
import type { StartTask } from '../wire.ts';

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
