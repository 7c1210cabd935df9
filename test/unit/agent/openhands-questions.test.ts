import { questionOf, type RecentActions } from '../../../src/agent/openhands-questions.ts';

type Action = RecentActions['actions'][number];

const action = (fields: Partial<Action>): Action => ({
  id: 'a1',
  tool_name: 'terminal',
  llm_response_id: 'r1',
  action: { kind: 'TerminalAction', command: 'ls' },
  ...fields,
});
/** Newest first. */
const asking = (...actions: readonly Action[]): RecentActions => ({
  actions,
  conversation: { executionStatus: 'waiting_for_confirmation' },
});
const edit = {
  id: 'a2',
  tool_name: 'file_editor',
  action: { kind: 'FileEditorAction', command: 'create', path: '/workspace/x', file_text: 'y' },
};

describe('questionOf', () => {
  it.each<[string, readonly Action[], object]>([
    [
      'a command',
      [action({})],
      { id: 'a1', title: 'ls', kind: 'execute', tool: 'terminal', summary: 'ls' },
    ],
    [
      "the model's words",
      [action({ summary: 'List the files\nof it' })],
      { title: 'List the files' },
    ],
    [
      'a change of a file',
      [action(edit)],
      {
        title: 'create',
        kind: 'edit',
        tool: 'file_editor',
        summary:
          'file_editor {\n  "command": "create",\n  "path": "/workspace/x",\n  "file_text": "y"\n}',
      },
    ],
    [
      'two actions of one response, and none of an earlier one',
      [action(edit), action({}), action({ id: 'a0', llm_response_id: 'r0' })],
      { id: 'a2', title: 'ls and 1 more', kind: 'other', tool: 'terminal, file_editor' },
    ],
    [
      'an action without a response, alone',
      [action({ llm_response_id: null }), action({ id: 'a0', llm_response_id: null })],
      { id: 'a1', title: 'ls' },
    ],
    ['an action without anything', [{ id: 'a1' }], { title: 'tool', kind: 'other', tool: 'tool' }],
    [
      'long and hostile texts, bounded and without controls',
      [
        action({
          tool_name: '\u202e'.repeat(9) + 't'.repeat(999),
          action: { kind: 'TerminalAction', command: `\u001b[31m${'x'.repeat(99_999)}` },
        }),
      ],
      {
        title: `[31m${'x'.repeat(196)}`,
        tool: 't'.repeat(200),
        summary: `[31m${'x'.repeat(4092)}`,
      },
    ],
  ])('shows %s', (_case, actions, expected) => {
    expect(questionOf(asking(...actions))).toMatchObject(expected);
  });

  it.each<[string, Partial<Action>, boolean]>([
    ['has another id', { id: 'a9', llm_response_id: 'r9' }, true],
    ['has another input', { action: { kind: 'TerminalAction', command: 'rm -rf /' } }, false],
    ['is of another tool', { tool_name: 'shell' }, false],
  ])('identifies a call that %s', (_case, fields, isSame) => {
    const [one, other] = [action({}), action(fields)].map((each) => questionOf(asking(each)));
    expect(one?.callHash === other?.callHash).toBe(isSame);
  });

  it('shows nothing where no action is known', () => {
    expect(questionOf(asking())).toBeUndefined();
  });
});
