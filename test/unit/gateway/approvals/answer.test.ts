import { budgetEffectOf } from '../../../../src/gateway/approvals/answer.ts';
import type { Approval } from '../../../../src/resources/approval.ts';
import { noon } from '../../../support/builders.ts';

const asking = (decidedBy: 'Owner' | 'Admin', kind: Approval['kind'] = 'budget') => ({
  spec: {},
  status: {
    approval: {
      id: 'q',
      title: 'Continue?',
      kind,
      tool: 'budget',
      summary: 'Continue?',
      text: '',
      complete: true,
      options: [
        { id: 'continue', name: 'Continue', kind: 'allow_once' as const },
        { id: 'stop', name: 'Stop here', kind: 'reject_once' as const },
      ],
      requestedTime: noon,
      callHash: 'h',
      agentEpoch: 1,
      raise: { amount: '1', unit: 'USD' as const, decidedBy },
    },
  },
});

it.each([
  ['Owner', 'user', { decision: 'approve' }, /is raised/],
  ['Owner', 'user', { option_id: 'stop' }, /stays paused/],
  ['Admin', 'admin', { option_id: 'continue' }, /is raised/],
  ['Admin', 'user', { decision: 'reject' }, /stays paused/],
] as const)('decided by %s, answered by %s with %j: %s', (decidedBy, role, body, effect) => {
  expect(budgetEffectOf(asking(decidedBy), 'q', body, role)).toMatch(effect);
});

it.each([{ decision: 'approve' }, { option_id: 'continue' }] as const)(
  'only an admin allows a raise beyond maxRaise: %j',
  (body) => {
    expect(() => budgetEffectOf(asking('Admin'), 'q', body, 'user')).toThrow(
      'Only a key with the role admin can allow this raise.',
    );
  },
);

it('concerns no question of an agent', () => {
  const body = { decision: 'approve' } as const;
  expect(budgetEffectOf(asking('Admin', 'edit'), 'q', body, 'user')).toBeUndefined();
});
