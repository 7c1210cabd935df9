import type { Examples } from '../components.ts';
import { createdAt, conversation, event, pageOf, updatedAt } from './records.ts';

const share = {
  id: 'share-5f0c2d4e8c1b4f0e9d6a3a1b7c0e2f11c96d2f0a',
  subject: { kind: 'group', name: 'company:developers' },
  created_at: createdAt,
  created_by: 'key-7f3a',
  expires_at: '2027-01-31T00:00:00.000000Z',
};

const shared = {
  id: conversation.id,
  created_by_user_id: conversation.created_by_user_id,
  sandbox_status: conversation.sandbox_status,
  sandbox_status_reason: conversation.sandbox_status_reason,
  execution_status: conversation.execution_status,
  last_result: conversation.last_result,
  selected_repository: conversation.selected_repository,
  selected_branch: conversation.selected_branch,
  git_provider: conversation.git_provider,
  title: conversation.title,
  pr_number: conversation.pr_number,
  pull_requests: conversation.pull_requests,
  agent_kind: conversation.agent_kind,
  agent_name: conversation.agent_name,
  workspace: conversation.workspace,
  created_at: createdAt,
  updated_at: updatedAt,
  shared: { with: 'group', expires_at: share.expires_at },
};

export const sharingExamples: Examples = {
  listShares: { answers: { 200: [share] } },
  createShare: {
    body: {
      subject: { kind: 'group', name: 'company:developers' },
      expires_at: '2027-01-31T00:00:00Z',
    },
    answers: {
      201: {
        ...share,
        url: 'https://agents.example.com/shared/cs_1uXb9rQwZ7hKp3VtN8sYdE2mGfJcA5oL6iQh4T',
      },
    },
  },
  revokeShare: { answers: {} },
  getSharedConversation: { answers: { 200: shared } },
  searchSharedEvents: { answers: { 200: pageOf(event) } },
  countSharedEvents: { answers: { 200: 214 } },
  listSharedFiles: { answers: { 200: ['README.md', 'src/cart.ts'] } },
  readSharedFile: { answers: { 200: '# The shop\n' } },
  listSharedChanges: { answers: { 200: [{ status: 'UPDATED', path: 'src/cart.ts' }] } },
  getSharedDiff: {
    answers: {
      200: { modified: 'export const size = 2;\n', original: 'export const size = 1;\n' },
    },
  },
  getSharedTimeline: {
    answers: {
      200: [
        {
          time: createdAt,
          until: null,
          kind: 'state',
          reason: 'Quota',
          message: 'The owner sees the details.',
          is_warning: false,
          count: 1,
        },
      ],
    },
  },
  sharedPage: { answers: { 200: '<!doctype html>…' } },
};
