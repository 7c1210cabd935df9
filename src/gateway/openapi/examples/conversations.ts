import type { Examples } from '../components.ts';
import {
  approval,
  conversation,
  conversationId,
  createdAt,
  event,
  message,
  pageOf,
  quota,
  readyTask,
  sandboxId,
  startTask,
  success,
  updatedAt,
} from './records.ts';

const start = {
  initial_message: message,
  selected_repository: 'acme/shop',
  selected_branch: 'main',
  git_provider: 'github',
};

export const conversationExamples: Examples = {
  startConversation: { body: start, answers: { 200: startTask } },
  streamStartConversation: { body: start, answers: { 200: [startTask, readyTask] } },
  getConversations: { answers: { 200: [conversation] } },
  searchConversations: { answers: { 200: pageOf(conversation) } },
  countConversations: { answers: { 200: 12 } },
  updateConversation: {
    body: { title: 'Flaky test of the cart', tags: { team: 'cart' } },
    answers: { 200: { ...conversation, title: 'Flaky test of the cart' } },
  },
  deleteConversation: { answers: { 200: success } },
  sendMessage: {
    body: message,
    answers: {
      200: { success: true, sandbox_status: 'RUNNING', queued: false },
      202: { success: true, sandbox_status: 'STARTING', queued: true },
    },
  },
  listConversationSkills: { answers: { 200: { skills: [] } } },
  getStartTasks: { answers: { 200: [readyTask] } },
  searchStartTasks: { answers: { 200: pageOf(readyTask) } },
  countStartTasks: { answers: { 200: 12 } },
  streamState: { answers: { 200: `id: 1.7\nevent: quota\ndata: ${JSON.stringify(quota)}\n\n` } },
  searchEvents: { answers: { 200: pageOf(event) } },
  countEvents: { answers: { 200: 57 } },
  getEvents: { answers: { 200: [event, null] } },
  downloadConversation: { answers: { 200: 'PK…' } },
  searchText: {
    answers: {
      200: {
        items: [
          {
            conversation_id: conversationId,
            title: 'Mend the upload',
            where: 'event',
            event_id: '5f0c2d4e-8c1b-4f0e-9d6a-3a1b7c0e2f11',
            kind: 'MessageEvent',
            timestamp: '2026-11-27T10:15:30.120000',
            snippet: '…so the client makes a retry after 5 s, and gives up after the third…',
          },
        ],
        next_page_id: null,
        searched: { conversations: 12, of: 12, incomplete: 1 },
      },
    },
  },
  listFiles: { answers: { 200: ['README.md', 'src/cart.ts'] } },
  downloadFile: { answers: { 200: '# The shop\n' } },
  readFile: { answers: { 200: '# The shop\n' } },
  listChanges: { answers: { 200: [{ status: 'UPDATED', path: 'src/cart.ts' }] } },
  getDiff: {
    answers: {
      200: { modified: 'export const size = 2;\n', original: 'export const size = 1;\n' },
    },
  },
  searchApprovals: { answers: { 200: pageOf(approval) } },
  getApprovals: { answers: { 200: [approval] } },
  getApproval: { answers: { 200: { ...approval, text: approval.summary, call_hash: 'f3a1c9' } } },
  answerApproval: {
    body: { decision: 'reject', reason: 'Run the tests of the cart alone.' },
    answers: { 200: { success: true, state: 'delivered', notice: null } },
  },
  openPullRequest: {
    body: { title: 'Fix the flaky test of the cart', draft: true },
    answers: { 201: { number: 7, url: 'https://github.com/acme/shop/pull/7', provider: 'github' } },
  },
  getLive: {
    answers: {
      200: {
        items: [
          {
            id: 'q3UeN0vXk2Lw',
            kind: 'output',
            tool_call_id: 'call-1',
            elapsed_ms: 61_500,
            from: 40,
            end: 58,
            text: '12 of 40 tests ok\n',
          },
        ],
        cursor: 'q3UeN0vXk2Lw:58',
        last_event_id: '5d3d7d0e-6f52-4a10-9a3a-0d1e4d7c8a11',
        run_ms: 65_000,
      },
    },
  },
  getTimeline: {
    answers: {
      200: [
        {
          time: createdAt,
          until: updatedAt,
          kind: 'stage',
          reason: 'WAITING_FOR_SANDBOX',
          message: 'Waiting for the agent to answer on port 8000.',
          is_warning: false,
          count: 1,
        },
      ],
    },
  },
  getResources: {
    answers: {
      200: {
        namespace: 'agents-sandboxes',
        yaml: `kind: Conversation\nmetadata:\n  name: ${conversationId}\n---\nkind: Sandbox\nmetadata:\n  name: ${sandboxId}\n`,
      },
    },
  },
  interruptConversation: { answers: { 200: success } },
  startLegacyConversation: {
    body: { initial_user_msg: 'Fix the flaky test of the cart.', repository: 'acme/shop' },
    answers: {
      200: {
        status: 'ok',
        conversation_id: conversationId,
        message: null,
        conversation_status: 'STARTING',
      },
    },
  },
  ...legacy(),
};

function legacy(): Examples {
  const record = {
    title: conversation.title,
    selected_repository: 'acme/shop',
    selected_branch: 'main',
    git_provider: 'github',
    trigger: null,
    conversation_id: conversationId,
    status: 'RUNNING',
    created_at: createdAt,
    last_updated_at: updatedAt,
  };
  return {
    searchLegacyConversations: { answers: { 200: { results: [record], next_page_id: null } } },
    getLegacyConversation: { answers: { 200: record } },
  };
}
