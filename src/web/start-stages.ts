import type { StartTask } from './wire.ts';

/** The stages of a start in their order, with the sentence of each while it lasts. */
export const startStages = [
  { status: 'WORKING', name: 'Accepted', now: () => 'Accepted' },
  { status: 'WAITING_FOR_SANDBOX', name: 'Sandbox', now: () => 'Waiting for its sandbox' },
  {
    status: 'PREPARING_REPOSITORY',
    name: 'Repository',
    now: ({ request: { selected_repository: name } }: StartTask) =>
      name === null ? 'Preparing its folder' : `Cloning ${name}`,
  },
  { status: 'SETTING_UP_SKILLS', name: 'Set-up', now: () => 'Setting up' },
  { status: 'READY', name: 'Ready', now: () => 'Ready' },
] as const satisfies readonly {
  readonly status: StartTask['status'];
  readonly name: string;
  readonly now: (task: StartTask) => string;
}[];

/** The number of the stage from 0 that a start has reached, also one that has failed. */
export const reachedStage = ({ status, failed_status: failed }: StartTask): number =>
  stageOf(failed ?? status) ?? 0;

/** The number of the present stage from 0; undefined for a start that has failed. */
export function stageOf(status: StartTask['status']): number | undefined {
  const stage = startStages.findIndex((one) => one.status === status);
  return stage < 0 ? undefined : stage;
}
