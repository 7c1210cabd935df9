import { forecastOf } from '../../../src/web/forecast.ts';
import type { QuotaRecord } from '../../../src/web/wire.ts';
import { aQuota, idOf } from '../../support/page-records.ts';

const now = Date.parse('2026-01-01T12:00:00Z');
const titleOf = (id: string) => (id === idOf(2) ? 'Fix login' : undefined);
const next = (fields: Partial<QuotaRecord['next_start']>): QuotaRecord => {
  const quota = aQuota();
  return { ...quota, next_start: { ...quota.next_start, ...fields } };
};

it.each([
  ['room', next({ outcome: 'admitted' }), 'There is room (3 of 4).'],
  ['no quota', next({ outcome: 'admitted', quota: null }), 'No quota limits the start.'],
  ['a pause, by title', next({}), 'Pauses “Fix login”.'],
  [
    'a pause that is due later',
    next({ not_before: '2026-01-01T12:04:30.000000Z' }),
    'Pauses “Fix login”, in 5 min.',
  ],
  [
    'a pause of another owner',
    next({ pauses: [], pauses_other_owner: true }),
    'Pauses a sandbox of another owner.',
  ],
  [
    'a pause of a sandbox without a conversation',
    next({ pauses: [{ sandbox_id: 'sbx-9', conversation_ids: [] }] }),
    'Pauses sandbox sbx-9.',
  ],
  ['a wait', next({ outcome: 'waits' }), 'Waits: 1 is ahead of you.'],
  ['a refusal', next({ outcome: 'rejected', reason: 'At most 4.' }), 'At most 4.'],
])('states %s', (_outcome, quota, sentence) => {
  expect(forecastOf(quota, titleOf, now)).toBe(sentence);
});
