import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { newUuid } from '@conversation-operator/base/uuid';
import { AgentVolume, call, eventsOf, eventually, script } from './agent-process.ts';
import { firstLine, lives } from '../../support/process-file.ts';

const aConversation = (volume: AgentVolume, ...blocks: readonly string[]) => ({
  id: newUuid(Date.now()),
  workingDir: volume.workingDir,
  ...(blocks.length === 0 ? {} : { message: script(...blocks) }),
});

describe('a reference agent that starts dormant', () => {
  it('answers probes, refuses work, and works once it has its keys', async () => {
    await using volume = await AgentVolume.create();
    const { client, init } = volume;
    const { endpoint } = await volume.start();
    expect(await client.probe(endpoint)).toBe('dormant');
    await expect(client.run(endpoint, newUuid(0))).rejects.toMatchObject({ code: 'dormant' });
    await expect(
      client.initialise(endpoint, { ...init, bootstrapKey: 'wrong' }),
    ).rejects.toMatchObject({ code: 'unauthorized' });
    expect((await call(endpoint, 'POST /api/init', {})).status).toBe(401);
    await client.initialise(endpoint, init);
    await client.initialise(endpoint, init);
    expect(await client.probe(endpoint)).toBe('ready');
    const other = { ...init, sessionKey: 'other' };
    await expect(client.initialise(endpoint, other)).rejects.toMatchObject({
      code: 'unauthorized',
    });
    expect((await call(endpoint, 'GET /server_info')).body).toMatchObject({ version: '1.58.0' });
  });

  it('refuses a wrong key and paths that it does not know', async () => {
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    expect(
      await call({ ...endpoint, sessionKey: 'wrong' }, 'GET /api/conversations/count'),
    ).toEqual({ status: 401, body: { detail: 'Unauthorized' } });
    expect(await call(endpoint, 'GET /api/unknown')).toEqual({
      status: 404,
      body: { detail: 'Not Found' },
    });
    expect((await call(endpoint, 'DELETE /api/conversations/count')).status).toBe(404);
    expect(await call(endpoint, `GET /api/conversations/x/events/search`)).toEqual({
      status: 404,
      body: { detail: 'Conversation not found: x' },
    });
    expect((await call(endpoint, `POST /api/conversations`, { workspace: {} })).status).toBe(422);
  });

  it('does not start without any key', async () => {
    await using volume = await AgentVolume.create();
    await expect(volume.start({})).rejects.toThrow('no session key');
  });

  it('takes its keys from its environment where deferred init is off', async () => {
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.start({ OH_SESSION_API_KEYS_0: 'session' });
    expect(await volume.client.probe(endpoint)).toBe('ready');
    await volume.client.initialise(endpoint, volume.init);
    expect(await volume.client.runningConversations(endpoint)).toEqual([]);
  });
});

describe('commands', () => {
  it('run with the environment of the init call, and see no key', async () => {
    await using volume = await AgentVolume.create({ LLM_API_KEY: 'llm-key' });
    const { endpoint } = await volume.startReady();
    const { stdout } = await volume.client.execute(endpoint, {
      command: 'env',
      cwd: volume.workingDir,
      timeoutSeconds: 5,
    });
    expect(stdout).toContain('GREETING=hello');
    for (const secret of ['bootstrap', 'session', 'secret', 'llm-key'])
      expect(stdout).not.toContain(secret);
  });

  it('report failure, timeout and a missing folder as the protocol does', async () => {
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    const run = (command: string, cwd = volume.workingDir, timeoutSeconds = 60) =>
      volume.client.execute(endpoint, { command, cwd, timeoutSeconds });
    expect(await run('echo out; echo err >&2; exit 7')).toEqual({
      exitCode: 7,
      stdout: 'out\n',
      stderr: 'err\n',
      timedOut: false,
    });
    expect(await run('echo begun; sleep 600', undefined, 2)).toMatchObject({
      exitCode: -1,
      stdout: 'begun\n',
      timedOut: true,
    });
    expect(await run('true', '/does/not/exist')).toMatchObject({ exitCode: -1, timedOut: false });
  });
});

describe('a conversation without a model', () => {
  it('runs the code blocks of its message, and says that it has no model', async () => {
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    const wanted = aConversation(volume, 'echo $GREETING > greeting', 'cat greeting');
    const { created } = await volume.client.createConversation(endpoint, wanted);
    expect(created).toBe(true);
    const conversation = await volume.until(endpoint, wanted.id, 'finished');
    expect(conversation.title).toBeDefined();
    expect(await readFile(join(volume.workingDir, 'greeting'), 'utf8')).toBe('hello\n');
    const events = await eventsOf(endpoint, wanted.id);
    expect(events.map(({ kind, source }) => `${kind} ${source}`)).toEqual([
      'MessageEvent user',
      'ConversationStateUpdateEvent environment',
      'ConversationStateUpdateEvent environment',
      'MessageEvent agent',
      'ActionEvent agent',
      'ObservationEvent environment',
      'ActionEvent agent',
      'ObservationEvent environment',
      'MessageEvent agent',
      'ConversationStateUpdateEvent environment',
    ]);
    expect(JSON.stringify(events[3])).toContain('No model is configured');
    expect(events[7]).toMatchObject({
      observation: { kind: 'TerminalObservation', exit_code: 0, content: [{ text: 'hello\n' }] },
    });
    const { body } = await call(
      endpoint,
      `GET /api/conversations/${wanted.id}/agent_final_response`,
    );
    expect(body).toMatchObject({
      response: expect.stringContaining('All blocks succeeded') as string,
    });
  });

  it('stops at a block that fails, and says which it did not run', async () => {
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    const wanted = aConversation(volume, 'exit 3', 'touch never');
    await volume.client.createConversation(endpoint, wanted);
    await volume.until(endpoint, wanted.id, 'finished');
    expect(existsSync(join(volume.workingDir, 'never'))).toBe(false);
    const { body } = await call(
      endpoint,
      `GET /api/conversations/${wanted.id}/agent_final_response`,
    );
    expect(JSON.stringify(body)).toMatch(/Block 1 failed.*not run/);
  });

  it('answers a message without code blocks honestly', async () => {
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    const wanted = {
      ...aConversation(volume),
      message: { content: [{ type: 'text', text: 'Write me a poem' }] },
    } as const;
    await volume.client.createConversation(endpoint, wanted);
    expect(await volume.until(endpoint, wanted.id, 'finished')).toMatchObject({
      title: 'Write me a poem',
    });
    const { body } = await call(
      endpoint,
      `GET /api/conversations/${wanted.id}/agent_final_response`,
    );
    expect(JSON.stringify(body)).toContain('No model is configured');
  });

  it('is created once, however often and however concurrently', async () => {
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    const wanted = aConversation(volume, 'echo once >> log');
    const body = {
      conversation_id: wanted.id,
      workspace: { working_dir: wanted.workingDir },
      agent_settings: {},
      initial_message: wanted.message,
    };
    const answers = await Promise.all(
      [1, 2, 3, 4, 5].map(() => call(endpoint, 'POST /api/conversations', body)),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 201]);
    await volume.until(endpoint, wanted.id, 'finished');
    expect((await volume.client.createConversation(endpoint, wanted)).created).toBe(false);
    expect(await volume.client.userMessages(endpoint, wanted.id, 100)).toHaveLength(1);
    expect(await readFile(join(volume.workingDir, 'log'), 'utf8')).toBe('once\n');
  });

  it('keeps a message that must not run, and runs it on request', async () => {
    await using volume = await AgentVolume.create();
    const { client } = volume;
    const { endpoint } = await volume.startReady();
    const wanted = aConversation(volume, 'touch done');
    const { status } = await client.createConversation(endpoint, {
      ...wanted,
      message: { ...script('touch done'), run: false },
    });
    expect(status).toMatchObject({ executionStatus: 'idle' });
    expect(status.lastUserMessageId).toBeDefined();
    await client.run(endpoint, wanted.id);
    await volume.until(endpoint, wanted.id, 'finished');
    expect(existsSync(join(volume.workingDir, 'done'))).toBe(true);
    await client.run(endpoint, wanted.id);
    expect((await client.conversation(endpoint, wanted.id))?.executionStatus).toBe('finished');
  });

  it('is interrupted at once, and continues without repeating the command', async () => {
    await using volume = await AgentVolume.create();
    const { client, workingDir } = volume;
    const { endpoint } = await volume.startReady();
    const wanted = aConversation(
      volume,
      'echo begun >> log; echo $$ > pid; sleep 30',
      'echo second >> log',
    );
    await client.createConversation(endpoint, wanted);
    const pid = await eventually(() => firstLine(join(workingDir, 'pid')));
    expect(await client.runningConversations(endpoint)).toEqual([wanted.id]);
    await client.interrupt(endpoint, wanted.id);
    expect((await client.conversation(endpoint, wanted.id))?.executionStatus).toBe('paused');
    expect(lives(pid)).toBe(false);
    const kinds = (await eventsOf(endpoint, wanted.id, 'sort_order=TIMESTAMP_DESC&limit=3')).map(
      ({ kind }) => kind,
    );
    expect(kinds).toEqual(['ConversationStateUpdateEvent', 'InterruptEvent', 'AgentErrorEvent']);
    await client.run(endpoint, wanted.id);
    await volume.until(endpoint, wanted.id, 'finished');
    expect(await readFile(join(workingDir, 'log'), 'utf8')).toBe('begun\nsecond\n');
  });

  it('is paused between two commands', async () => {
    await using volume = await AgentVolume.create();
    const { client, workingDir } = volume;
    const { endpoint } = await volume.startReady();
    const wanted = aConversation(
      volume,
      'touch begun; while [ ! -e go ]; do sleep 0.05; done',
      'touch second',
    );
    await client.createConversation(endpoint, wanted);
    await eventually(() => (existsSync(join(workingDir, 'begun')) ? true : undefined));
    const paused = call(endpoint, `POST /api/conversations/${wanted.id}/pause`);
    await writeFile(join(workingDir, 'go'), '');
    await paused;
    // The request may arrive when the command has just ended: the run then pauses on its own.
    await volume.until(endpoint, wanted.id, 'paused');
    expect(existsSync(join(workingDir, 'second'))).toBe(false);
    await client.run(endpoint, wanted.id);
    await volume.until(endpoint, wanted.id, 'finished');
    expect(existsSync(join(workingDir, 'second'))).toBe(true);
  });

  it('takes messages while it works, in their order', async () => {
    await using volume = await AgentVolume.create();
    const { client, workingDir } = volume;
    const { endpoint } = await volume.startReady();
    const wanted = aConversation(
      volume,
      'touch begun; while [ ! -e go ]; do sleep 0.05; done; echo 1 >> log',
    );
    await client.createConversation(endpoint, wanted);
    await eventually(() => (existsSync(join(workingDir, 'begun')) ? true : undefined));
    await client.sendMessage(endpoint, wanted.id, script('echo 2 >> log'));
    await client.sendMessage(endpoint, wanted.id, script('echo 3 >> log'));
    await expect(call(endpoint, `POST /api/conversations/${wanted.id}/run`)).resolves.toMatchObject(
      { status: 409 },
    );
    await writeFile(join(workingDir, 'go'), '');
    await volume.until(endpoint, wanted.id, 'finished');
    expect(await readFile(join(workingDir, 'log'), 'utf8')).toBe('1\n2\n3\n');
  });

  it('is listed, counted, renamed and deleted', async () => {
    await using volume = await AgentVolume.create();
    const { client } = volume;
    const { endpoint } = await volume.startReady();
    const first = aConversation(volume);
    const second = aConversation(volume);
    await client.createConversation(endpoint, first);
    await client.createConversation(endpoint, second);
    expect((await call(endpoint, 'GET /api/conversations/count?status=idle')).body).toBe(2);
    const page = await call(endpoint, 'GET /api/conversations/search?limit=1');
    expect(page.body).toMatchObject({ items: [{}], next_page_id: expect.any(String) as string });
    const { body } = await call(
      endpoint,
      `GET /api/conversations?ids=${first.id}&ids=${newUuid(0)}`,
    );
    expect(body).toMatchObject([{ execution_status: 'idle' }, null]);
    expect(
      (await call(endpoint, `PATCH /api/conversations/${first.id}`, { title: 'Named' })).status,
    ).toBe(200);
    expect((await client.conversation(endpoint, first.id))?.title).toBe('Named');
    const deletion = `DELETE /api/conversations/${first.id}`;
    expect((await call(endpoint, deletion)).status).toBe(200);
    expect((await call(endpoint, deletion)).status).toBe(404);
    expect(await client.conversation(endpoint, first.id)).toBeUndefined();
    expect(
      (await call(endpoint, `GET /api/conversations/${second.id}/events/search?limit=101`)).status,
    ).toBe(422);
  });
});

describe('skills and hooks', () => {
  it('are read from the repository', async () => {
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    expect(await volume.client.hookConfig(endpoint, volume.workingDir)).toBeUndefined();
    await mkdir(join(volume.workingDir, '.openhands/skills'), { recursive: true });
    await writeFile(join(volume.workingDir, 'AGENTS.md'), 'Be kind.');
    await writeFile(
      join(volume.workingDir, '.openhands/skills/Deploy.md'),
      '---\ntriggers:\n- deploy\n- "ship it"\n---\nHow to.',
    );
    await writeFile(join(volume.workingDir, '.openhands/hooks.json'), '{"stop":[]}');
    expect(await volume.client.hookConfig(endpoint, volume.workingDir)).toEqual({ stop: [] });
    const { body } = await call(endpoint, 'POST /api/skills', {
      load_public: false,
      project_dir: volume.workingDir,
    });
    expect(body).toMatchObject({
      skills: [
        { name: 'agents', type: 'repo', content: 'Be kind.', triggers: [] },
        { name: 'deploy', type: 'knowledge', triggers: ['deploy', 'ship it'] },
      ],
      sources: { project: 2 },
    });
  });
});
