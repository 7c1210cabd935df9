import type { Approval } from '../../../src/resources/approval.ts';

/** The question of every conversation of `TwoOwners` that has a sandbox. */
export const openApproval: Approval = {
  id: 'e1',
  title: 'make build',
  kind: 'execute',
  tool: 'terminal',
  summary: 'make build',
  text: '',
  complete: true,
  options: [
    { id: 'approve', name: 'Approve', kind: 'allow_once' },
    { id: 'reject', name: 'Reject', kind: 'reject_once' },
  ],
  requestedTime: '2026-01-01T00:00:00Z',
  callHash: '0'.repeat(64),
  agentEpoch: 1,
};
