import { reachedStage, startStages } from '../../../src/sentences/sentences.ts';
import type { StartTask } from '../../../src/web/wire.ts';
import { aTask } from '../../support/page-records.ts';

describe('the stage that a start has reached', () => {
  it.each<[string, Partial<StartTask>, string]>([
    ['is that of its status', { status: 'PREPARING_REPOSITORY' }, 'Repository'],
    [
      'is the first one where it failed at once',
      { status: 'ERROR', failed_status: 'WORKING' },
      'Accepted',
    ],
    [
      'is that of a clone that failed, also without a step',
      { status: 'ERROR', failed_status: 'PREPARING_REPOSITORY', sandbox_id: 'sbx-1' },
      'Repository',
    ],
    [
      'is that of a set-up that failed',
      { status: 'ERROR', failed_status: 'SETTING_UP_SKILLS', sandbox_id: 'sbx-1' },
      'Set-up',
    ],
  ])('%s', (_what, fields, name) => {
    expect(startStages[reachedStage(aTask(1, fields))]?.name).toBe(name);
  });
});
