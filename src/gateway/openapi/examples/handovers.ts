import type { Examples } from '../components.ts';
import { conversation, conversationId, createdAt, owner, updatedAt } from './records.ts';

const offer = {
  id: '6f0c1b2a3d4e45f6a7b8c9d0e1f2a3b4',
  status: 'offered',
  reason: null,
  detail: null,
  conversation_id: conversationId,
  from: owner,
  to: 'platform-team',
  created_at: createdAt,
  expires_at: '2026-12-05T10:00:00.000000Z',
  answered_at: null,
  answered_by: null,
  finished_at: null,
  conversation: {
    title: conversation.title,
    repository: 'acme/shop',
    branch: 'main',
    git_provider: 'github',
    sandbox_spec_id: 'default',
    model: null,
    sandbox_status: 'RUNNING',
    execution_status: 'running',
    waiting_messages: 0,
    confirmation_policy: null,
    instructions: null,
    waits_for_approval: false,
    secrets_of_start: ['DEPLOY_TOKEN'],
    archived_events: 42,
    archived_bytes: 18_000,
    stored_bytes: 2_400,
    updated_at: updatedAt,
  },
  moves: ['The sandbox with all files of its volume.'],
  stays: ['Secrets, settings and API keys of the old owner.'],
  consequences: ['The sandbox is paused first: a run is interrupted.'],
};
const moving = { ...offer, status: 'moving', answered_at: updatedAt, answered_by: 'platform-team' };
const refused = { ...moving, status: 'refused', conversation: null };

export const handoverExamples: Examples = {
  offerHandover: { body: { to: 'platform-team' }, answers: { 202: offer } },
  listHandovers: { answers: { 200: [offer] } },
  acceptHandover: { answers: { 202: moving } },
  refuseHandover: { answers: { 200: refused } },
  withdrawHandover: { answers: { 200: { ...refused, answered_by: owner } } },
};
