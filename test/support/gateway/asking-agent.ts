import { openApproval } from './open-approval.ts';
import type { TwoOwners } from './two-owners.ts';

const event = {
  id: openApproval.id,
  kind: 'MessageEvent',
  source: 'user',
  timestamp: '2026-01-01T00:00:00.000001',
  tool_name: 'terminal',
  llm_response_id: 'r1',
  action: { kind: 'TerminalAction', command: 'make build' },
  extra: [1],
};

function answerTo(path: string): unknown {
  const [, api, conversations, id = '', ...rest] = path.split('/');
  if (api !== 'api' || conversations !== 'conversations') return {};
  switch (rest.join('/')) {
    case '':
      return {
        id,
        execution_status: 'waiting_for_confirmation',
        updated_at: '2026-01-01T00:00:00Z',
      };
    case 'events/count':
      return 7;
    case 'interrupt':
    case 'events/respond_to_confirmation':
      return { success: true };
    default:
      return { items: [event], next_page_id: null };
  }
}

/** An agent that knows every conversation, each of which waits for the same answer. */
export const answerAsAgent: TwoOwners['agent']['answer'] = (request, response) => {
  request.resume();
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify(answerTo(request.url?.split('?')[0] ?? '')));
};
