import {
  isRejected,
  openQuestion,
  questionOf,
  type RecentActions,
} from '../../../src/agent/openhands-questions.ts';
import { OpenHandsApi } from '../../../src/agent/openhands-api.ts';
import { questionTextOf } from '../../../src/agent/question-text.ts';
import { meaningOf } from '../../../src/resources/approval.ts';
import { fakeAgent } from './fake-agent.ts';

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

const textsOf = (...actions: readonly Action[]) => {
  const question = questionOf(asking(...actions));
  return question && { ...question, ...questionTextOf(question, []) };
};

describe('questionOf', () => {
  it.each<[string, readonly Action[], object]>([
    [
      'a command',
      [action({})],
      {
        title: 'ls',
        kind: 'execute',
        tool: 'terminal',
        complete: true,
        summary: 'Call 1 of 1: terminal\nkind: TerminalAction\ncommand: ls',
      },
    ],
    [
      "the model's words, as its words",
      [action({ summary: 'List the files\nof it' })],
      {
        title: 'ls',
        summary:
          'Call 1 of 1: terminal\nWords of the model: List the files⏎\n  of it\nkind: TerminalAction\ncommand: ls',
      },
    ],
    [
      'a change of a file',
      [action(edit)],
      {
        title: 'file_editor {"command":"create","path":"/workspace/x","file_text":"y"}',
        kind: 'edit',
        tool: 'file_editor',
      },
    ],
    [
      'two actions of one response, and none of an earlier one',
      [action(edit), action({}), action({ id: 'a0', llm_response_id: 'r0' })],
      {
        title: 'ls and 1 more',
        kind: 'other',
        tool: 'terminal, file_editor',
        summary: expect.stringMatching(
          /^Call 1 of 2: terminal\n[^]*\nCall 2 of 2: file_editor\n/,
        ) as unknown,
      },
    ],
    [
      'an action without a response, alone',
      [action({ llm_response_id: null }), action({ id: 'a0', llm_response_id: null })],
      { title: 'ls' },
    ],
    [
      'an action without anything',
      [{ id: 'a1', action: undefined }],
      { title: 'tool', kind: 'other', tool: 'tool', complete: true },
    ],
    [
      'an action that is no object',
      [{ id: 'a1', action: 'rm -rf /' }],
      { title: 'rm -rf /', summary: 'Call 1 of 1\n(input): rm -rf /' },
    ],
  ])('shows %s', (_case, actions, expected) => {
    expect(textsOf(...actions)).toMatchObject(expected);
  });

  it.each<[string, readonly Action[], boolean]>([
    ['has another id', [action({ id: 'a9', llm_response_id: 'r9' })], true],
    ['has other words', [action({ summary: 'List' })], true],
    ['has another input', [action({ action: { command: 'rm -rf /' } })], false],
    ['is of another tool', [action({ tool_name: 'shell' })], false],
    ['comes after another one', [action({}), action({})], false],
    [
      'has the same beginning',
      [action({ action: { command: `ls${' '.repeat(5_000)};x` } })],
      false,
    ],
  ])('identifies a call that %s', (_case, actions, isSame) => {
    const [one, other] = [[action({})], actions].map((each) => questionOf(asking(...each)));
    expect(one?.callHash === other?.callHash).toBe(isSame);
  });

  it('identifies a call by its end too', () => {
    const [one, other] = ['1', '2'].map((end) =>
      questionOf(asking(action({ action: { command: `echo ${'x'.repeat(9_000)}${end}` } }))),
    );
    expect(one?.callHash).not.toBe(other?.callHash);
  });

  it.each<[string, Partial<Action>, boolean]>([
    ['the same action', {}, true],
    ['another action', { id: 'a2' }, false],
    ['an action of the same id with another input', { action: { command: 'rm' } }, false],
    ['an id with spaces', { id: 'two words' }, false],
    ['an id of many characters', { id: 'x'.repeat(999) }, false],
  ])('has an id that a resource can hold: %s', (_case, fields, isSame) => {
    const [one, other] = [action({}), action(fields)].map((each) => questionOf(asking(each)));
    expect(other?.id).toMatch(/^[\x21-\x7e]{1,128}$/);
    expect(one?.id === other?.id).toBe(isSame);
  });

  it('shows nothing where no action is known', () => {
    expect(questionOf(asking())).toBeUndefined();
  });

  it('is another one where more or less could not be read', () => {
    const found = [undefined, 'It is large.', 'It is deep.'].flatMap((problem) =>
      [[], [action({})]].map((actions) =>
        questionOf({ ...asking(...actions), ...(problem === undefined ? {} : { problem }) }),
      ),
    );
    const ids = found.flatMap((each) => each?.id ?? []);
    expect(ids).toHaveLength(5);
    expect(new Set(ids).size).toBe(5);
  });
});

describe('isRejected', () => {
  it.each<[string, string, readonly unknown[], boolean]>([
    ['its last action was', 'a1', [{ action_id: 'a0' }, { action_id: 'a1' }], true],
    ['an action with spaces was', 'a 1', [{ action_id: 'a 1' }], true],
    ['other actions were', 'a1', [{ action_id: 'a' }, { action_id: 'a1.b' }, {}], false],
    ['an action with a dot was', 'a1.b', [{ action_id: 'a1.b' }], true],
    ['no action was', 'a1', [], false],
  ])('knows that a question was rejected where %s', async (_case, id, items, isSo) => {
    await using agent = await fakeAgent({
      'GET /api/conversations/11111111-1111-4111-8111-111111111111/events/search': {
        body: { items },
      },
    });
    const api = new OpenHandsApi({ timeoutMs: 5_000, connectTimeoutMs: 5_000 });
    const question = questionOf(asking(action({ id })))?.id ?? '';
    const conversation = '11111111111141118111111111111111';
    expect(await isRejected(api, agent.endpoint, conversation, question)).toBe(isSo);
    expect(agent.requests[0]?.query['kind']).toBe('UserRejectObservation');
    await api.close();
  });
});

describe('openQuestion', () => {
  const id = '11111111111141118111111111111111';
  const dashed = '11111111-1111-4111-8111-111111111111';
  const own = `/api/conversations/${dashed}`;

  const shownBy = async (
    answer: (limit: number, from: number) => { readonly body?: unknown; readonly text?: string },
  ) => {
    await using agent = await fakeAgent({
      [`GET ${own}`]: {
        body: { id: dashed, execution_status: 'waiting_for_confirmation', updated_at: 'now' },
      },
      [`GET ${own}/events/search`]: ({ query }) =>
        answer(Number(query['limit']), Number(query['page_id'] ?? 0)),
    });
    const api = new OpenHandsApi({ timeoutMs: 5_000, connectTimeoutMs: 5_000 });
    const question = await openQuestion(api, agent.endpoint, id);
    await api.close();
    return question && { ...question, ...questionTextOf(question, []) };
  };
  /** Pages of actions whose JSON may be anything. */
  const pagesOf =
    (...all: readonly string[]) =>
    (limit: number, from: number) => {
      const next = from + limit < all.length ? `"${from + limit}"` : 'null';
      const items = all.slice(from, from + limit).join();
      return { text: `{"items":[${items}],"next_page_id":${next}}` };
    };
  const withInput = (input: string, fields: Partial<Action> = {}) =>
    JSON.stringify(action({ ...fields, action: '?' })).replace('"?"', input);
  const earlier = { id: 'a0', llm_response_id: 'r0' };

  it('shows numbers that a parser rounds, each in its own way', async () => {
    const numbers = [
      '9007199254740993',
      '9007199254740992',
      '1e400',
      'null',
      '1.0',
      '1',
      '-0',
      '0',
    ];
    const questions = await Promise.all(
      numbers.map((each) => shownBy(pagesOf(withInput(`{"n":${each},"all":[${each}]}`)))),
    );
    expect(questions.map((each) => each?.summary)).toEqual(
      numbers.map((each) => `Call 1 of 1: terminal\nn = ${each}\nall = [${each}]`),
    );
    expect(new Set(questions.map((each) => each?.callHash)).size).toBe(numbers.length);
  });

  it('shows a number that is the whole action', async () => {
    expect(await shownBy(pagesOf(withInput('1e400')))).toMatchObject({
      summary: 'Call 1 of 1: terminal\n(input) = 1e400',
      complete: true,
    });
  });

  const large = JSON.stringify({ command: 'x'.repeat(300_000) });
  const tooLarge = JSON.stringify({ command: 'x'.repeat(4 * 1024 * 1024) });
  const deep = '['.repeat(300) + ']'.repeat(300);

  it('shows an action after large ones, which are too large together', async () => {
    const before = Array.from({ length: 20 }, () => withInput(large, earlier));
    expect(await shownBy(pagesOf(withInput('{"command":"ls"}'), ...before))).toMatchObject({
      summary: 'Call 1 of 1: terminal\ncommand: ls',
      complete: true,
    });
  });

  it.each<[string, string, string, readonly string[]]>([
    [
      'too large',
      "they can not be shown: The agent's answer is larger than 4194304 bytes.",
      'Tool calls that can not be shown',
      [withInput(tooLarge)],
    ],
    [
      'nested too deeply',
      "they can not be shown: The agent's answer has more than 256 levels.",
      'Tool calls that can not be shown',
      [withInput(deep)],
    ],
    [
      'not as the protocol has it',
      'they can not be shown: The agent answered with something unexpected.',
      'Tool calls that can not be shown',
      ['{}'],
    ],
    [
      'of too many numbers',
      'they can not be shown: The agent answered with something unexpected.',
      'Tool calls that can not be shown',
      [withInput(`[${'1.0,'.repeat(10_001)}0]`)],
    ],
    [
      'in part nested too deeply',
      "the calls before can not be shown: The agent's answer has more than 256 levels.",
      'terminal {"command":"ls"}',
      [withInput('{"command":"ls"}'), withInput(deep)],
    ],
  ])('asks about actions that are %s, and says why', async (_case, why, title, actions) => {
    const question = await shownBy(pagesOf(...actions));
    expect(question).toMatchObject({ title, complete: false, text: '' });
    expect(question?.summary.endsWith(`… ${why} …`)).toBe(true);
    expect(question && meaningOf(question, { decision: 'approve' })).toBeUndefined();
    expect(question && meaningOf(question, { decision: 'reject' })).toMatchObject({
      accept: false,
    });
    // The answer is for what is read then.
    expect((await shownBy(pagesOf(...actions)))?.id).toBe(question?.id);
  });

  it.each<[string, number, number, boolean]>([
    ['all actions of one response', 21, 21, true],
    ['no more than four hundred, and knows it', 401, 400, false],
  ])('reads %s', async (_case, count, shown, isWhole) => {
    const actions = Array.from({ length: count }, (_, index) =>
      action({ id: `a${count - index}`, action: { command: `echo ${count - index}` } }),
    );
    const earlier = action({ id: 'a0', llm_response_id: 'r0' });
    const all = [...actions, earlier];
    await using agent = await fakeAgent({
      [`GET ${own}`]: {
        body: { id: dashed, execution_status: 'waiting_for_confirmation', updated_at: 'now' },
      },
      [`GET ${own}/events/search`]: ({ query }) => {
        const from = Number(query['page_id'] ?? 0);
        const next = from + 20 < all.length ? String(from + 20) : null;
        return { body: { items: all.slice(from, from + 20), next_page_id: next } };
      },
    });
    const api = new OpenHandsApi({ timeoutMs: 5_000, connectTimeoutMs: 5_000 });
    const question = await openQuestion(api, agent.endpoint, id);
    await api.close();
    expect([question?.calls.length, question?.isWhole]).toEqual([shown, isWhole]);
    expect(question?.calls.at(-1)?.input).toEqual({ command: `echo ${count}` });
  });
});
