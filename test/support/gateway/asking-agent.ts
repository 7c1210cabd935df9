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

/** The answers about files and git, as JSON, which is a text as well. */
const workspace: Readonly<Record<string, unknown>> = {
  '/api/bash/execute_bash_command': {
    exit_code: 0,
    stdout: Buffer.from('\0\0README.md\0src/main.ts\0').toString('base64'),
  },
  '/api/file/download': { name: 'a file' },
  '/api/git/changes': [{ status: 'UPDATED', path: 'README.md' }],
  '/api/git/diff': { modified: 'new', original: 'old' },
};

function answerTo(path: string): unknown {
  const known = workspace[path];
  if (known !== undefined) return known;
  const [, api, conversations, id = '', ...rest] = path.split('/');
  if (api !== 'api' || conversations !== 'conversations') return {};
  switch (rest.join('/')) {
    case '':
      return {
        id,
        execution_status: 'waiting_for_confirmation',
        updated_at: '2026-01-01T00:00:00Z',
      };
    case 'live':
      return { items: [], cursor: '', last_event_id: event.id, run_ms: 1 };
    case 'events/count':
      return 7;
    case 'interrupt':
    case 'events/respond_to_confirmation':
      return { success: true };
    case 'events/search':
      return { items: [event], next_page_id: null };
    default:
      return { ...event, id: decodeURIComponent(rest.at(-1) ?? '') };
  }
}

/** An agent that knows every conversation, each of which waits for the same answer. */
export const answerAsAgent: TwoOwners['agent']['answer'] = (request, response) => {
  let body = '';
  request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
  request.on('end', () => {
    response.setHeader('content-type', 'application/json');
    const answer = body.includes('echo visible')
      ? { exit_code: 0, stdout: 'visible\n' }
      : answerTo(request.url?.split('?')[0] ?? '');
    response.end(JSON.stringify(answer));
  });
};
