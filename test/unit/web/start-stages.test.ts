import { reachedStage, startStages } from '../../../src/web/start-stages.ts';
import type { StartTask } from '../../../src/web/wire.ts';
import { aTask } from '../../support/page-records.ts';

const step = (name: 'clone' | 'setup') => ({
  ...{ name, state: 'failed' as const, output: null, exit_code: 1 },
  ...{ started_at: '2026-01-01T00:00:00Z', ended_at: null },
});

describe('the stage that a start has reached', () => {
  it.each<[string, Partial<StartTask>, string]>([
    ['is that of its status', { status: 'PREPARING_REPOSITORY' }, 'Repository'],
    ['is the first one where it failed at once', { status: 'ERROR' }, 'Accepted'],
    ['is that of its sandbox', { status: 'ERROR', sandbox_id: 'sbx-1' }, 'Sandbox'],
    [
      'is that of a clone that failed',
      { status: 'ERROR', sandbox_id: 'sbx-1', steps: [step('clone')] },
      'Repository',
    ],
    [
      'is that of a set-up that failed',
      { status: 'ERROR', sandbox_id: 'sbx-1', steps: [step('clone'), step('setup')] },
      'Set-up',
    ],
  ])('%s', (_what, fields, name) => {
    expect(startStages[reachedStage(aTask(1, fields))]?.name).toBe(name);
  });
});
