import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Commands } from '../../src/commands.ts';
import { AcpChild } from '../../src/acp/child.ts';
import { AcpFailure } from '../../src/acp/turn.ts';
import { LiveText } from '../../src/live-activity.ts';
import { noNeedles } from '../../src/mask.ts';
import type { Conversation } from '../../src/conversation.ts';
import {
  allowed,
  becomes,
  errorOf,
  eventsOf,
  fake,
  message,
  Place,
  refused,
  saidBy,
  until,
} from './place.ts';

/** The next question, other than the one before. */
async function question(conversation: Conversation, before?: string) {
  await until(() => conversation.approval !== undefined && conversation.approval.id !== before);
  if (conversation.approval === undefined) throw new Error('no question waits');
  return conversation.approval;
}

const over = (conversation: Conversation) => becomes(conversation, 'finished', 'error');

describe('an agent that asks badly', () => {
  it('offers 10,000 options and a title of 1 MB: both are bounded, and a person can reject', async () => {
    await using place = new Place();
    const conversation = await place.start('ask-big x\nsay Over.');
    const { title, options } = await question(conversation);
    expect(title).toHaveLength(30_000);
    expect(options).toHaveLength(20);
    expect(options[0]).toEqual({ option_id: 'no', name: 'No', kind: 'reject_once' });
    expect(options[1]?.name).toMatch(/^"n{399}… \(102 characters omitted\)$/);
    await conversation.respond(refused);
    await over(conversation);
    expect(place.lines('answers.txt')).toEqual(['x: no']);
  });

  it('offers only options for ever: a person can only reject, which cancels the question', async () => {
    await using place = new Place();
    const conversation = await place.start('ask-always x\nsay Over.');
    const { id, options } = await question(conversation);
    expect(options).toEqual([]);
    await expect(conversation.respond(allowed)).rejects.toMatchObject({ status: 422 });
    await expect(
      conversation.respond({ ...allowed, approvalId: id, optionId: 'always' }),
    ).rejects.toMatchObject({ status: 422 });
    await conversation.respond(refused);
    await over(conversation);
    expect(place.lines('answers.txt')).toEqual(['x: cancelled']);
  });

  it('offers options for ever with ACP_ALLOW_ALWAYS, which only a person takes', async () => {
    await using place = new Place({ ACP_ALLOW_ALWAYS: 'true' });
    const conversation = await place.start('ask-always x\nsay Over.', {
      confirmationPolicy: 'NeverConfirm',
    });
    const { id, options } = await question(conversation);
    expect(options.map(({ kind }) => kind)).toEqual(['allow_always']);
    await conversation.respond({ ...allowed, approvalId: id, optionId: 'always' });
    await over(conversation);
    expect(place.lines('answers.txt')).toEqual(['x: always']);
  });

  it('asks two questions at once: each is asked and answered on its own', async () => {
    await using place = new Place();
    const conversation = await place.start('ask-both one two\nsay Over.');
    const first = await question(conversation);
    expect(first.input).toEqual({ command: 'one' });
    await conversation.respond({ ...allowed, approvalId: first.id });
    const second = await question(conversation, first.id);
    // Both are about one tool call, of which the first has said something else.
    expect(second.input).toEqual({ reported: { command: 'one' }, asked: { command: 'two' } });
    // The first answer again is no answer to the second question.
    await conversation.respond({ ...allowed, approvalId: first.id });
    expect(conversation.approval?.id).toBe(second.id);
    await conversation.respond({ ...refused, approvalId: second.id });
    await over(conversation);
    expect([...place.lines('answers.txt')].sort()).toEqual(['one: yes', 'two: no']);
  });

  it('asks for the same call again after its answer: a person is asked again', async () => {
    await using place = new Place();
    const conversation = await place.start('ask x\nask x\nsay Over.');
    const first = await question(conversation);
    await conversation.respond({ ...allowed, approvalId: first.id });
    const second = await question(conversation, first.id);
    expect(second.tool_call_id).toBe(first.tool_call_id);
    await conversation.respond({ ...refused, approvalId: second.id });
    await over(conversation);
    expect(place.lines('answers.txt')).toEqual(['x: yes', 'x: no']);
  });

  it('asks a thousand questions and waits for none: those beyond a hundred, and those of a turn that is over, are cancelled', async () => {
    await using place = new Place();
    const conversation = await place.start('ask-many 1000');
    const { id } = await question(conversation);
    await until(() => place.lines('answers.txt').length > 0);
    expect(place.lines('answers.txt')).toEqual(['cancelled: 900']);
    await over(conversation);
    expect(conversation.status).toBe('finished');
    await expect(conversation.respond({ ...allowed, approvalId: id })).rejects.toMatchObject({
      status: 409,
    });
  });

  it('asks while its turn is cancelled: the question is cancelled and reaches no person', async () => {
    await using place = new Place();
    const conversation = await place.start('say One.\nask-when-cancelled x', {
      confirmationPolicy: 'NeverConfirm',
    });
    await until(() => place.lines('prompts.txt').length > 0);
    await conversation.stop('interrupt');
    expect(conversation.status).toBe('paused');
    expect(place.lines('answers.txt')).toEqual(['x: cancelled']);
    expect(conversation.approval).toBeUndefined();
  });
});

describe('a question whose agent is gone', () => {
  it('is withdrawn at once when the agent cancels it, and the turn continues', async () => {
    await using place = new Place();
    const conversation = await place.start('say One.\nask-until now\nsay Two.');
    const { id } = await question(conversation);
    writeFileSync(join(place.folder, 'work', 'now'), '');
    await over(conversation);
    expect(conversation.status).toBe('finished');
    expect(place.lines('answers.txt')).toEqual(['now: cancelled']);
    expect(await saidBy(conversation)).toEqual(['One.', 'Two.']);
    expect(place.lines('prompts.txt')).toHaveLength(1);
    const withdrawn = (await eventsOf(conversation)).filter(
      (event) => 'key' in event && event.key === 'approval_withdrawn',
    );
    expect(withdrawn).toHaveLength(1);
    await expect(conversation.respond({ ...allowed, approvalId: id })).rejects.toMatchObject({
      status: 409,
    });
  });

  it.each(['ask-and-end', 'ask-and-refuse'])(
    'is withdrawn when the agent ends its turn without the answer: %s',
    async (what) => {
      await using place = new Place();
      const conversation = await place.start(`${what} x`);
      const { id } = await question(conversation);
      writeFileSync(join(place.folder, 'work', 'x'), '');
      await over(conversation);
      expect(conversation.approval).toBeUndefined();
      await expect(conversation.respond({ ...allowed, approvalId: id })).rejects.toMatchObject({
        status: 409,
      });
      await conversation.post(message('say Next.'), { run: true });
      await over(conversation);
      expect(await saidBy(conversation)).toEqual(['Next.']);
    },
  );

  it('stays when the process of the agent dies, and the next process gets its answer', async () => {
    await using place = new Place();
    const conversation = await place.start('ask-and-die x\nsay Over.');
    const { id } = await question(conversation);
    await until(() => place.lines('dead').some((pid) => !existsSync(`/proc/${pid}`)));
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(conversation.approval?.id).toBe(id);
    await conversation.respond({ ...allowed, approvalId: id });
    await over(conversation);
    expect(conversation.status).toBe('finished');
    expect(place.lines('prompts.txt')).toHaveLength(2);
    expect(place.lines('prompts.txt')[1]).toContain('The user has allowed this tool call');
    expect(place.lines('answers.txt')).toEqual([]);
    // The answer has ended with its turn.
    await conversation.post(message('ask x'), { run: true });
    await question(conversation);
    expect(place.lines('answers.txt')).toEqual([]);
  });

  it('keeps an answer that arrives while a message starts a run', async () => {
    await using place = new Place();
    const conversation = await place.start('ask x\nsay Over.');
    const { id } = await question(conversation);
    await Promise.all([
      conversation.post(message('say More.'), { run: true }),
      conversation.respond({ ...allowed, approvalId: id }),
    ]);
    await over(conversation);
    expect(place.lines('answers.txt')).toEqual(['x: yes']);
    expect(await saidBy(conversation)).toEqual(['Over.', 'More.']);
  });
});

describe('a process of an agent that misbehaves', () => {
  it.each(['end-at-start'])('is started again after it does: %s', async (what) => {
    await using place = new Place();
    const command = [process.execPath, fake, what];
    const conversation = await place.start('say Over.', {}, command);
    await over(conversation);
    expect(await saidBy(conversation)).toEqual(['Over.']);
  });

  it('ends when it does not answer at the start in time', async () => {
    await using place = new Place();
    const commands = new Commands();
    const options = {
      command: [process.execPath, fake, 'hang-at-start'],
      cwd: place.folder,
      env: { HOME: place.folder },
      guard: commands.guard,
      allowAlways: false,
      onWithdrawn: () => undefined,
      live: new LiveText(),
      needles: () => noNeedles,
      callTimeoutMs: 1_000,
    };
    await expect(AcpChild.start(options, new AbortController().signal)).rejects.toThrow(
      new AcpFailure('The agent has not answered within 1 s.'),
    );
    commands.close();
  });

  it.each(['interrupt', 'pause'])('hangs at its start, which a client ends: %s', async (how) => {
    await using place = new Place();
    const command = [process.execPath, fake, 'hang-at-start'];
    const conversation = await place.start('say Over.', {}, command);
    await until(() => existsSync(join(place.folder, 'work', 'first-start')));
    if (how === 'pause') await conversation.pause();
    else await conversation.stop('interrupt');
    await becomes(conversation, 'paused');
    await conversation.run();
    await over(conversation);
    expect(await saidBy(conversation)).toEqual(['Over.']);
  });

  it('is paused although it is silent', async () => {
    await using place = new Place();
    const conversation = await place.start('wait');
    await until(() => place.lines('prompts.txt').length > 0);
    await conversation.pause();
    await becomes(conversation, 'paused');
  });

  it('writes a line without end: the next process continues', async () => {
    await using place = new Place();
    const conversation = await place.start(`line ${9 * 1024 * 1024}\nsay One.`);
    await over(conversation);
    expect(conversation.status).toBe('finished');
    expect(place.lines('prompts.txt')).toHaveLength(2);
  });

  it('floods with large tool calls: each event is bounded', async () => {
    await using place = new Place();
    const conversation = await place.start('calls 200\nsay Over.');
    await over(conversation);
    expect(await errorOf(conversation)).toBeUndefined();
    const { entries } = conversation.log;
    expect(entries.filter(({ kind }) => kind === 'ACPToolCallEvent')).toHaveLength(200);
    expect(Math.max(...entries.map(({ length }) => length))).toBeLessThan(40_000);
  });

  it('has the environment and the MCP servers of the settings, and its own HOME', async () => {
    const server = { name: 'files', command: '/bin/mcp', args: [], env: [] };
    await using place = new Place({
      ACP_ENV: '{"TOKEN":"t","HOME":"/"}',
      ACP_MCP_SERVERS: JSON.stringify([server]),
    });
    const conversation = await place.start('environment TOKEN\nenvironment HOME');
    await over(conversation);
    const [token, home] = place.lines('answers.txt');
    expect(token).toBe('TOKEN=t');
    expect(home).toMatch(/^HOME=.+\/home$/);
    expect(place.lines('servers.txt')).toEqual([JSON.stringify([server])]);
  });
});
