import { isOpen, isTaken, newestOf } from '../../../src/web/handover-states.ts';
import type { HandoverRecord } from '../../../src/web/wire.ts';

const aHandover = (fields: Partial<HandoverRecord>): HandoverRecord => ({
  id: 'handover-1',
  status: 'offered',
  reason: null,
  detail: null,
  conversation_id: 'c1',
  from: 'alice',
  to: 'bob',
  created_at: '2026-01-01T12:00:00.000000Z',
  expires_at: '2026-01-08T12:00:00.000000Z',
  answered_at: null,
  answered_by: null,
  finished_at: null,
  conversation: null,
  moves: [],
  stays: [],
  consequences: [],
  ...fields,
});

it.each<readonly [HandoverRecord['status'], boolean, boolean]>([
  ['offered', true, false],
  ['moving', true, true],
  ['done', false, true],
  ['refused', false, false],
])('a handover that is %s may change: %s, and is taken: %s', (status, open, taken) => {
  const handover = aHandover({ status });
  expect([isOpen(handover), isTaken(handover)]).toEqual([open, taken]);
});

it('of a conversation is the newest that its owner has offered', () => {
  const earlier = aHandover({ id: 'earlier', status: 'refused' });
  const newest = aHandover({ id: 'newest', created_at: '2026-01-02T12:00:00.000000Z' });
  const all = [
    newest,
    earlier,
    aHandover({ id: 'of another owner', from: 'bob', created_at: '2026-01-03T12:00:00.000000Z' }),
    aHandover({ id: 'other', conversation_id: 'c2', created_at: '2026-01-03T12:00:00.000000Z' }),
  ];
  expect(newestOf(all, 'c1', 'alice')).toBe(newest);
  expect(newestOf(all, 'c3', 'alice')).toBeUndefined();
  expect(newestOf(all, 'c1', undefined)).toBeUndefined();
});
