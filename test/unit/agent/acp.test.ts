import { AcpClient } from '../../../src/agent/acp.ts';
import type { AgentQuestion } from '../../../src/agent/agent.ts';
import { questionTextOf } from '../../../src/agent/question-text.ts';
import { fakeAgent } from './fake-agent.ts';

const id = '0123456789abcdef0123456789abcdef';
const own = '/api/conversations/01234567-89ab-cdef-0123-456789abcdef';
const approval = {
  id: 'q1',
  tool_call_id: 't1',
  title: 'rm -rf build',
  tool_kind: 'execute',
  input: { command: 'rm -rf build' },
  options: [{ option_id: 'yes', name: 'Yes', kind: 'allow_once' }],
};

const questionTo = async (answer: object): Promise<AgentQuestion | undefined> => {
  await using agent = await fakeAgent({ [`GET ${own}/approval`]: { body: answer } });
  const client = new AcpClient();
  try {
    return await client.question(agent.endpoint, id);
  } finally {
    await client.close();
  }
};

describe('the client of the bridge', () => {
  it.each<[string, object, object]>([
    [
      'a command',
      {},
      {
        id: 'q1',
        title: 'rm -rf build',
        kind: 'execute',
        tool: 'execute',
        summary: 'Call 1 of 1: execute\nWords of the model: rm -rf build\ncommand: rm -rf build',
        options: [{ id: 'yes', name: 'Yes', kind: 'allow_once' }],
        complete: true,
      },
    ],
    [
      'every argument beside a command',
      { tool_kind: 'other', input: { command: 'status', sql: 'DROP TABLE users' } },
      {
        title: 'other {"command":"status","sql":"DROP TABLE users"}',
        summary:
          'Call 1 of 1: other\nWords of the model: rm -rf build\ncommand: status\nsql: DROP TABLE users',
      },
    ],
    [
      'a secret that the bridge has hidden, and a text that resembles it',
      {
        secret_marker: '<secret-hidden>',
        input: { command: 'curl <secret-hidden> <\\secret-hidden>' },
      },
      { title: 'curl ⟨secret⟩ <\\\\secret-hidden>' },
    ],
    [
      'any other text as it is',
      { secret_marker: 'rm', input: { command: 'rm <secret-hidden>' } },
      { title: 'rm <secret-hidden>' },
    ],
    ['a change of a file', { tool_kind: 'edit', input: { path: 'x' } }, { kind: 'edit' }],
    ['a tool of another kind', { tool_kind: 'fetch' }, { kind: 'other', tool: 'fetch' }],
    ['a question without input', { input: null }, { title: 'Words of the model: rm -rf build' }],
    ['a text as input', { input: 'make' }, { title: 'make' }],
    ['a question without a title', { title: '\n', input: null }, { title: 'execute' }],
    [
      'an input that the bridge has shortened',
      { input: 'x… (5 characters omitted)', complete: false },
      { complete: false },
    ],
    [
      'an input that a bridge of an earlier version has shortened',
      { input: 'x… (5 characters omitted)' },
      { complete: false },
    ],
    [
      'a title that a bridge of an earlier version may have shortened',
      { title: 'x'.repeat(1_000) },
      { complete: false },
    ],
    [
      'options, without those of an unknown kind and those that no resource can hold',
      {
        options: [
          { option_id: 'ever', name: 'n'.repeat(999), kind: 'allow_always' },
          { option_id: 'odd', name: 'Odd', kind: 'allow_all_tools' },
          { option_id: 'half \ud800', name: 'Half of a pair', kind: 'allow_once' },
          { option_id: 'bell\u0007', name: 'A control character', kind: 'allow_once' },
          { option_id: '', name: 'Nothing', kind: 'reject_once' },
          { option_id: 'x'.repeat(201), name: 'Too long', kind: 'reject_once' },
        ],
      },
      {
        options: [
          {
            id: 'ever',
            name: expect.stringMatching(/^n{100,} … \d+ characters not shown …$/) as unknown,
            kind: 'allow_always',
          },
        ],
      },
    ],
  ])('reads %s', async (_case, fields, expected) => {
    const question = await questionTo({ approval: { ...approval, ...fields } });
    expect(question && { ...question, ...questionTextOf(question, []) }).toMatchObject(expected);
  });

  it('reads that nothing is asked', async () => {
    expect(await questionTo({ approval: null })).toBeUndefined();
  });

  it.each([
    { approval: { ...approval, id: 'two words' } },
    { approval: { ...approval, options: 'none' } },
    {},
  ])('rejects %j', async (answer) => {
    await expect(questionTo(answer)).rejects.toMatchObject({ code: 'malformed' });
  });

  it.each<[string, object, boolean]>([
    ['another id', { id: 'q2', tool_call_id: 't2' }, true],
    ['other options', { options: [] }, true],
    ['another input', { input: { command: 'rm -rf /' } }, false],
    ['another hash of the bridge', { call_hash: 'b' }, false],
    // Some agents have the command in the title alone.
    ['another title', { title: 'rm -rf /' }, false],
    ['another tool', { tool_kind: 'edit' }, false],
  ])('identifies a call, also with %s', async (_case, fields, isSame) => {
    const [one, other] = await Promise.all(
      [{}, fields].map((each) => questionTo({ approval: { ...approval, ...each } })),
    );
    expect(other?.callHash === one?.callHash).toBe(isSame);
  });

  it.each([
    [{ body: { success: true } }, true],
    [{ status: 409, body: { detail: 'The question q1 does not wait for an answer.' } }, false],
  ])('knows whether an approval has reached the bridge: %j', async (taken, hadIt) => {
    const route = `POST ${own}/events/respond_to_confirmation`;
    await using agent = await fakeAgent({ [route]: taken });
    const client = new AcpClient();
    const answer = { questionId: 'q1', accept: true, option: 'yes' };
    expect(await client.hadApproval(agent.endpoint, id, answer)).toBe(hadIt);
    await client.close();
  });

  it('answers by the id of the question and the option', async () => {
    const route = `POST ${own}/events/respond_to_confirmation`;
    await using agent = await fakeAgent({ [route]: { body: { success: true } } });
    const client = new AcpClient();
    const answer = { questionId: 'q1', accept: false, option: 'no', reason: 'Not now.' };
    await client.answer(agent.endpoint, id, answer);
    expect(agent.requests.map(({ body }) => body)).toEqual([
      { accept: false, reason: 'Not now.', approval_id: 'q1', option_id: 'no' },
    ]);
    expect(await client.losableQuestions()).toEqual([]);
    await client.close();
  });
});
