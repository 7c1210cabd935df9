import { forecastOf, placeOf } from '../../../src/sentences/forecast.ts';
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
  [
    'a wait with its cause',
    next({ outcome: 'waits', reason: 'The start would wait: at most 4.' }),
    'The start would wait: at most 4. 1 is ahead of you.',
  ],
  ['a refusal', next({ outcome: 'rejected', reason: 'At most 4.' }), 'At most 4.'],
])('states %s', (_outcome, quota, sentence) => {
  expect(forecastOf(quota, titleOf, now)).toBe(sentence);
});

const [own] = aQuota().quotas;
const full = { ...own, name: 'default', active: 4 };
const queue = ['sbx-7', 'sbx-4', 'sbx-9', 'sbx-1'];
it.each([
  [
    'the limit of the owner is full',
    { quotas: [full], active: 4 },
    '2nd of 6, quota default. Next place when one of your 4 running ones ends or is paused.',
  ],
  [
    'the limit is 1',
    { quotas: [{ ...full, limit: 1, active: 1 }], active: 1 },
    '2nd of 6, quota default. Next place when your running one ends or is paused.',
  ],
  [
    'both limits are full',
    { quotas: [{ ...full, name: 'all', scope: 'Namespace' as const }, full], active: 4 },
    '2nd of 6, quota default. Next place when one of your 4 running ones ends or is paused.',
  ],
  [
    'only the limit of all owners is full',
    {
      quotas: [
        { ...full, active: 1 },
        { ...full, name: 'all', scope: 'Namespace' as const },
      ],
    },
    '2nd of 6, quota all. Next place when one of all owners ends or is paused.',
  ],
  ['a place has just got free', { quotas: [{ ...full, active: 3 }] }, '2nd of 6.'],
  ['it is not among the first', { queue: ['sbx-7'] }, undefined],
])('states the place of a waiting sandbox where %s', (_what, fields, sentence) => {
  const quota = { ...aQuota(), waiting: 6, queue, ...fields } as QuotaRecord;
  expect(placeOf(quota, 'sbx-4')).toBe(sentence);
});
