import type { AgentEvent } from '../../../src/agent/event-kinds.ts';
import { entriesOf, markdownOf, maxTextLength } from '../../../src/sentences/entries.ts';

const text = (value: string) => [{ type: 'text', text: value }];
const message = (source: string, value: string, more: object = {}): AgentEvent => ({
  kind: 'MessageEvent',
  id: 'm1',
  source,
  timestamp: '2026-01-01T10:20:30.123456',
  llm_message: { role: source, content: text(value) },
  ...more,
});
const action = (call: string, fields: object, more: object = {}): AgentEvent => ({
  kind: 'ActionEvent',
  id: `a-${call}`,
  source: 'agent',
  tool_name: 'terminal',
  tool_call_id: call,
  thought: [],
  action: fields,
  ...more,
});
const observation = (call: string, fields: object): AgentEvent => ({
  kind: 'ObservationEvent',
  id: `o-${call}`,
  tool_call_id: call,
  tool_name: 'terminal',
  observation: { kind: 'TerminalObservation', ...fields },
});
const acp = (call: string, fields: object): AgentEvent => ({
  kind: 'ACPToolCallEvent',
  id: `acp-${call}`,
  source: 'agent',
  tool_call_id: call,
  title: '',
  status: 'in_progress',
  tool_kind: 'execute',
  raw_input: null,
  raw_output: null,
  content: null,
  is_error: false,
  ...fields,
});
const update = (key: string, value: unknown): AgentEvent => ({
  kind: 'ConversationStateUpdateEvent',
  id: `u-${key}`,
  source: 'environment',
  key,
  value,
});
const run = { kind: 'TerminalAction', command: 'ls -l\npwd' };

const cases: [string, AgentEvent[], object[]][] = [
  [
    'a message of a person',
    [message('user', 'Hello')],
    [
      {
        kind: 'message',
        source: 'user',
        text: 'Hello',
        images: [],
        time: '2026-01-01T10:20:30.123456',
      },
    ],
  ],
  ['a message of the agent', [message('agent', 'Done')], [{ source: 'agent', text: 'Done' }]],
  [
    'a session that the agent could not open',
    [update('acp_session_lost', 'The agent has not answered within 60 s.')],
    [
      {
        kind: 'notice',
        isProblem: true,
        text: 'The agent could not open its session: The agent has not answered within 60 s.',
      },
    ],
  ],
  [
    'images that the agent does not get',
    [update('acp_images_skipped', 'The agent reads no images: 1 was left out.')],
    [{ kind: 'notice', isProblem: true, text: 'The agent reads no images: 1 was left out.' }],
  ],
  [
    'a new session that has what was said, and no other one',
    [update('acp_continued', 'transcript'), update('acp_continued', 'resume')],
    [{ text: 'The agent continues in a new session, with what was said before.' }],
  ],
  ['no message without a content', [message('agent', '  ')], []],
  [
    'images in the message, and none from elsewhere',
    [
      {
        ...message('user', ''),
        llm_message: {
          content: [
            {
              type: 'image',
              image_urls: [
                'data:image/png;base64,AA',
                'https://evil.example/a.png',
                'data:image/svg+xml,<svg onload=alert(1)>',
                'javascript:alert(1)',
              ],
            },
          ],
        },
      },
    ],
    [{ kind: 'message', images: ['data:image/png;base64,AA'] }],
  ],
  [
    'a call that runs',
    [action('1', run)],
    [{ kind: 'tool', tool: 'terminal', summary: 'ls -l', input: 'ls -l\npwd', state: 'running' }],
  ],
  [
    'a call with its result',
    [action('1', run), observation('1', { content: text('total 0'), exit_code: 0 })],
    [{ id: 'a-1', output: 'total 0', state: 'done' }],
  ],
  [
    'results at their calls, in any order',
    [
      action('1', run),
      action('2', run),
      observation('2', { content: text('two') }),
      observation('1', { content: text('one'), is_error: true }),
    ],
    [
      { id: 'a-1', output: 'one', state: 'failed' },
      { id: 'a-2', output: 'two', state: 'done' },
    ],
  ],
  [
    'a result whose call is in an older page',
    [observation('9', { content: text('late'), exit_code: 2 })],
    [{ id: 'o-9', tool: 'terminal', output: 'late', state: 'failed' }],
  ],
  [
    'a call that failed, and one that was rejected',
    [
      action('1', run),
      action('2', run),
      { kind: 'AgentErrorEvent', id: 'e', tool_call_id: '1', error: 'No such tool' },
      { kind: 'UserRejectObservation', id: 'r', tool_call_id: '2', rejection_reason: 'No' },
    ],
    [
      { output: 'No such tool', state: 'failed' },
      { output: 'No', state: 'rejected' },
    ],
  ],
  [
    'a thought before its call',
    [action('1', run, { thought: text('I read the folder') })],
    [
      { kind: 'message', source: 'agent', text: 'I read the folder', id: 'a-1/thought' },
      { kind: 'tool', id: 'a-1' },
    ],
  ],
  [
    'the last message of the agent',
    [action('1', { kind: 'FinishAction', message: 'All done' })],
    [{ kind: 'message', source: 'agent', text: 'All done' }],
  ],
  [
    'the fields of another tool',
    [action('1', { kind: 'FileAction', path: 'src/a.ts', line: 3 })],
    [{ summary: 'src/a.ts', input: '{\n  "path": "src/a.ts",\n  "line": 3\n}' }],
  ],
  [
    'why a run failed, and that it was interrupted',
    [
      { kind: 'ConversationErrorEvent', id: 'c', code: 'LLMError', detail: 'No credit' },
      { kind: 'PauseEvent', id: 'p' },
    ],
    [
      { kind: 'notice', text: 'No credit', isProblem: true },
      { kind: 'notice', text: 'The run was interrupted.', isProblem: false },
    ],
  ],
  [
    'what is for programs, folded',
    [
      { kind: 'SystemPromptEvent', system_prompt: { type: 'text', text: 'You are an agent.' } },
      { kind: 'Other', id: 'o', timestamp: 't', value: 5 },
      {},
    ],
    [
      { kind: 'folded', name: 'System prompt', text: 'You are an agent.' },
      { kind: 'folded', id: 'o', time: 't', name: 'Other', text: '{\n  "value": 5\n}' },
      { kind: 'folded', name: 'Event', text: '{}' },
    ],
  ],
  [
    'a plan, a thought and an update of an agent, folded',
    [
      update('plan', [{ content: 'Read', status: 'completed', priority: 'high' }]),
      update('thought', text('I read')),
      update('acp_update', { sessionUpdate: 'new' }),
    ],
    [
      { kind: 'folded', name: 'Plan', text: 'completed: Read' },
      { kind: 'folded', name: 'Thought', text: 'I read' },
      { kind: 'folded', text: '{\n  "sessionUpdate": "new"\n}' },
    ],
  ],
  [
    'a call of an agent of the Agent Client Protocol, with all that its events say',
    [
      acp('1', { title: 'Terminal', status: 'pending', raw_input: {} }),
      acp('1', { title: 'ls', raw_input: { command: 'ls', cwd: '/a' } }),
      action(
        '1',
        { kind: 'ExecuteBashAction', command: 'ls', cwd: '/a' },
        { tool_name: 'execute' },
      ),
      acp('1', { title: 'ls', status: 'completed', raw_output: 'a.txt' }),
    ],
    [{ tool: 'execute', summary: 'ls', input: 'ls', output: 'a.txt', state: 'done', id: 'acp-1' }],
  ],
  [
    'a call of such an agent that failed, and one that was rejected',
    [
      acp('1', { status: 'failed', content: [{ type: 'content', content: { text: 'No' } }] }),
      acp('2', {}),
      { kind: 'UserRejectObservation', id: 'r', tool_call_id: '2', rejection_reason: 'Not so' },
      acp('2', { status: 'failed' }),
    ],
    [
      { output: 'No', state: 'failed' },
      { output: 'Not so', state: 'rejected' },
    ],
  ],
  [
    'calls with one id in two runs, of which the first has no result',
    [acp('1', { title: 'ls' }), update('execution_status', 'finished'), acp('1', { title: 'pwd' })],
    [
      { summary: 'ls', state: 'lost' },
      { summary: 'pwd', state: 'running' },
    ],
  ],
  [
    'no second entry for the last message',
    [
      action('1', { kind: 'FinishAction', message: 'All done' }),
      observation('1', { kind: 'FinishObservation', content: text('All done') }),
    ],
    [{ kind: 'message', text: 'All done' }],
  ],
];

describe('what a person reads of events', () => {
  it.each(cases)('%s', (_name, events, expected) => {
    const entries = entriesOf(events);
    expect(entries).toHaveLength(expected.length);
    expect(entries).toMatchObject(expected);
  });

  it('has the end of a long output, where errors are', () => {
    const output = `${'x'.repeat(maxTextLength)}error`;
    const [entry] = entriesOf([observation('1', { content: text(output) })]);
    expect(entry).toMatchObject({
      output: expect.stringMatching(/^x+\n… 5 characters more …\nx+error$/) as string,
    });
  });

  it('is bounded, and says how much is missing', () => {
    const text = Array.from({ length: 100_000 }, (_none, index) => `${index} `).join('');
    const [entry] = entriesOf([message('agent', text)]);
    expect(entry).toMatchObject({
      text: `${text.slice(0, maxTextLength)}\n… ${text.length - maxTextLength} characters more`,
    });
  });

  it('has the beginning of a first line that is long as its summary', () => {
    const command = Array.from({ length: 300 }, (_none, index) => `${index} `).join('');
    expect(entriesOf([action('1', { ...run, command })])).toMatchObject([
      { summary: `${command.slice(0, 200)}…`, input: command },
    ]);
  });

  it('has no state of the prototype', () => {
    expect(entriesOf([acp('1', { status: 'constructor' })])).toMatchObject([{ state: 'running' }]);
  });

  it('survives fields of any type', () => {
    const odd = [null, 1, 'x', [], [null], {}, { text: 1 }, true];
    const kinds = [...new Set(cases.flatMap(([, events]) => events.map(({ kind }) => kind)))];
    for (const kind of kinds)
      for (const value of odd) {
        const event = {
          kind,
          id: value,
          timestamp: value,
          tool_call_id: value,
          thought: value,
          action: value,
          observation: value,
          llm_message: value,
          error: value,
          detail: value,
        };
        const nested = {
          ...event,
          llm_message: { content: value },
          observation: { content: value },
        };
        for (const entry of entriesOf([event, nested])) expect(typeof entry.id).toBe('string');
      }
  });

  it('is Markdown when it is copied, with fences that its text can not end', () => {
    const events = [
      message('user', 'Read it'),
      action('1', { kind: 'TerminalAction', command: 'cat README.md' }),
      observation('1', { content: text('```\ncode\n```') }),
      message('agent', 'Done', { id: 'm2' }),
    ];
    expect(markdownOf(entriesOf(events))).toBe(
      [
        '**You**\n\nRead it',
        '**terminal**: cat README.md',
        '```\ncat README.md\n```',
        '````\n```\ncode\n```\n````',
        '**Agent**\n\nDone',
      ].join('\n\n'),
    );
  });
});
