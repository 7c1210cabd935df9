import { AgentError, type AgentErrorCode } from '../../../src/agent/errors.ts';
import { OpenHandsClient } from '../../../src/agent/openhands-client.ts';
import {
  conversationId,
  conversationInfo,
  conversationPath,
  dashedId,
  fakeAgent,
} from './fake-agent.ts';

const client = new OpenHandsClient();
/** A client for agents that do not answer. */
const hasty = new OpenHandsClient({ timeoutMs: 500 });
afterAll(() => Promise.all([client.close(), hasty.close()]));

const codeOf = async (call: Promise<unknown>): Promise<AgentErrorCode | 'no error'> => {
  try {
    await call;
    return 'no error';
  } catch (error) {
    if (error instanceof AgentError) return error.code;
    throw error;
  }
};

const nowhere = { baseUrl: 'http://127.0.0.1:9', sessionKey: 'k' };
const message = { content: [{ type: 'text', text: 'do it' }] } as const;
const wanted = {
  id: conversationId,
  workingDir: '/workspace',
  message,
  llm: { model: 'openai/m' },
};
const messagePage = (...texts: string[]) => ({
  body: {
    items: texts.map((text, index) => ({
      id: `m${index}`,
      timestamp: '2026-01-01T00:00:01.000000',
      llm_message: { content: [{ type: 'text', text }] },
    })),
    next_page_id: null,
  },
});

describe('probe', () => {
  const ready = { body: { status: 'ready' } };
  it.each([
    ['dormant', { 'GET /api/init': { body: { state: 'dormant', error: null } } }, 'dormant'],
    [
      'ready after its init',
      { 'GET /api/init': { body: { state: 'ready', error: null } } },
      'ready',
    ],
    ['ready where deferred init is not known', { 'GET /ready': ready }, 'ready'],
    ['unreachable while it says 503', { 'GET /ready': { status: 503 } }, 'unreachable'],
    [
      'unreachable in a state between',
      { 'GET /ready': ready, 'GET /api/init': { body: { state: 'initializing' } } },
      'unreachable',
    ],
    ['unreachable when it is no agent', { 'GET /ready': { text: '<html>' } }, 'unreachable'],
  ] as const)('says %s', async (_name, routes, expected) => {
    await using agent = await fakeAgent(routes);
    expect(await client.probe(agent.endpoint)).toBe(expected);
    expect(agent.requests.every(({ headers }) => headers['x-session-api-key'] === undefined)).toBe(
      true,
    );
  });

  it('says unreachable when it hangs', async () => {
    await using agent = await fakeAgent({ 'GET /ready': 'hang' });
    expect(await hasty.probe(agent.endpoint)).toBe('unreachable');
  });

  it('says unreachable when nothing listens', async () => {
    expect(await client.probe(nowhere)).toBe('unreachable');
  });
});

describe('initialise', () => {
  const init = {
    bootstrapKey: 'boot',
    sessionKey: 'session-key',
    secretKey: 'secret',
    conversationsPath: '/workspace/c',
    bashEventsDir: '/workspace/b',
    env: { A: '1' },
  };

  it('sends exactly the fields that the agent knows, with the bootstrap key', async () => {
    await using agent = await fakeAgent({
      'POST /api/init': { body: { state: 'ready', error: null } },
    });
    await client.initialise(agent.endpoint, init);
    expect(agent.requests[0]?.headers['x-init-api-key']).toBe('boot');
    expect(agent.requests[0]?.body).toEqual({
      session_api_keys: ['session-key'],
      secret_key: 'secret',
      conversations_path: '/workspace/c',
      bash_events_dir: '/workspace/b',
      env: { A: '1' },
      webhooks: [],
    });
  });

  it.each<[string, object, string | undefined]>([
    ['has none', {}, undefined],
    ['is safe to show', { title: 'Reference agent' }, 'Reference agent'],
    ['would hide what follows', { title: ' \u202eevil\u0007 ' }, 'evil'],
    ['is endless', { title: 'x'.repeat(1_000) }, 'x'.repeat(64)],
    ['is no text', { title: { a: 1 } }, undefined],
  ])('returns the name of an agent whose name %s', async (_case, fields, title) => {
    await using agent = await fakeAgent({
      'POST /api/init': { body: { state: 'ready', error: null, ...fields } },
    });
    expect(await client.initialise(agent.endpoint, init)).toEqual({ title });
  });

  it.each([
    ['it is ready already', 400, 200, 'no error'],
    ['the bootstrap key has been replaced', 401, 200, 'no error'],
    ['it takes its keys from its environment', 404, 200, 'no error'],
    ['it is ready with the keys of another sandbox', 400, 401, 'unauthorized'],
    ['it is dormant and refuses the bootstrap key', 401, 503, 'unauthorized'],
    ['it fails', 500, 200, 'failed'],
  ])('when %s', async (_name, initStatus, countStatus, expected) => {
    const count =
      countStatus === 503
        ? { detail: 'x', exception: "503: server is in deferred-init state 'dormant'; …" }
        : 3;
    await using agent = await fakeAgent({
      'POST /api/init': { status: initStatus, body: { detail: 'no' } },
      'GET /api/conversations/count': { status: countStatus, body: count },
    });
    expect(await codeOf(client.initialise(agent.endpoint, init))).toBe(expected);
  });
});

describe('execute', () => {
  const command = { command: 'true', cwd: '/', timeoutSeconds: 2 };
  const path = 'POST /api/bash/execute_bash_command';

  it('takes null output for none, and a failing command for a result', async () => {
    await using agent = await fakeAgent({
      [path]: { body: { exit_code: 128, stdout: null, stderr: 'fatal' } },
    });
    expect(await client.execute(agent.endpoint, command)).toEqual({
      exitCode: 128,
      stdout: '',
      stderr: 'fatal',
      timedOut: false,
    });
    expect(agent.requests[0]?.body).toEqual({ command: 'true', cwd: '/', timeout: 2 });
  });

  it.each([
    ['-1 after the time allowed is a timeout', -1, 2100, true],
    ['-1 before it is a command that could not start', -1, 100, false],
    ['another code is none, however long it took', 0, 2100, false],
  ])('knows that %s', async (_name, exitCode, tookMs, timedOut) => {
    const times = [0, tookMs];
    const timed = new OpenHandsClient({ monotonic: () => times.shift() ?? tookMs });
    await using agent = await fakeAgent({
      [path]: { body: { exit_code: exitCode, stdout: null, stderr: null } },
    });
    expect((await timed.execute(agent.endpoint, command)).timedOut).toBe(timedOut);
    await timed.close();
  });

  it('keeps the end of large output', async () => {
    await using agent = await fakeAgent({
      [path]: { body: { exit_code: 0, stdout: `${'x'.repeat(3_000_000)}end`, stderr: null } },
    });
    const { stdout } = await client.execute(agent.endpoint, command);
    expect(stdout.length).toBeLessThan(70_000);
    expect(stdout.endsWith('xend')).toBe(true);
  });
});

describe('createConversation', () => {
  it('sends the message along and is done with 201', async () => {
    await using agent = await fakeAgent({
      'POST /api/conversations': { status: 201, body: conversationInfo() },
    });
    const llm = { model: 'openai/m', baseUrl: 'http://llm/v1', apiKey: 'key' };
    const answer = await client.createConversation(agent.endpoint, {
      ...wanted,
      llm,
      uid: 'first',
    });
    expect(answer.created).toBe(true);
    expect(answer.status.id).toBe(conversationId);
    expect(agent.requests).toHaveLength(1);
    expect(agent.requests[0]?.headers['x-session-api-key']).toBe('session-key');
    expect(agent.requests[0]?.body).toMatchObject({
      conversation_id: dashedId,
      workspace: { working_dir: '/workspace' },
      agent_settings: {
        llm: { model: 'openai/m', base_url: 'http://llm/v1', api_key: 'key' },
        agent_context: { load_project_skills: true },
      },
      initial_message: { role: 'user', content: [{ type: 'text', text: 'do it' }] },
      tags: { uid: 'first' },
    });
  });

  it('says which conversation of that id it is, and is refused where the agent knows an earlier one', async () => {
    await using agent = await fakeAgent({
      'POST /api/conversations': [
        { status: 201, body: conversationInfo({ tags: { uid: 'second' } }) },
        { status: 200, body: conversationInfo({ tags: { uid: 'first' } }) },
      ],
    });
    await client.createConversation(agent.endpoint, { ...wanted, uid: 'second' });
    expect(agent.requests[0]?.body).toMatchObject({ tags: { uid: 'second' } });
    expect(
      await codeOf(client.createConversation(agent.endpoint, { ...wanted, uid: 'second' })),
    ).toBe('refused');
    expect(agent.requests).toHaveLength(2);
  });

  it('posts the message itself when an earlier call has left the conversation without one', async () => {
    await using agent = await fakeAgent({
      'POST /api/conversations': [
        { status: 500, body: { detail: 'Internal Server Error', exception: 'unknown tool' } },
        { status: 200, body: conversationInfo() },
      ],
      [`GET ${conversationPath}/events/search`]: messagePage(),
      [`POST ${conversationPath}/events`]: { body: { success: true } },
      [`GET ${conversationPath}`]: { body: conversationInfo({ last_user_message_id: 'm' }) },
    });
    expect(await codeOf(client.createConversation(agent.endpoint, wanted))).toBe('failed');
    const answer = await client.createConversation(agent.endpoint, wanted);
    expect(answer).toMatchObject({ created: false, status: { lastUserMessageId: 'm' } });
    const posts = agent.requests.filter(({ route }) => route === `POST ${conversationPath}/events`);
    expect(posts.map(({ body }) => body)).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'do it' }], run: true },
    ]);
  });

  it.each([
    ['the conversation knows its message', { last_user_message_id: 'm' }, []],
    ['its events have one that the snapshot does not know yet', {}, ['do it']],
  ])('posts nothing when %s', async (_name, fields, texts) => {
    await using agent = await fakeAgent({
      'POST /api/conversations': { status: 200, body: conversationInfo(fields) },
      [`GET ${conversationPath}/events/search`]: messagePage(...texts),
    });
    expect((await client.createConversation(agent.endpoint, wanted)).created).toBe(false);
    expect(agent.requests.some(({ route }) => route.endsWith('/events'))).toBe(false);
  });

  it('is busy while the call that created it may still be adding the message', async () => {
    const now = new Date();
    await using agent = await fakeAgent({
      'POST /api/conversations': {
        status: 200,
        headers: { date: now.toUTCString() },
        body: conversationInfo({ created_at: new Date(now.getTime() - 1000).toISOString() }),
      },
      [`GET ${conversationPath}/events/search`]: messagePage(),
    });
    expect(await codeOf(client.createConversation(agent.endpoint, wanted))).toBe('busy');
  });

  it('stores a message that must not run by a call of its own', async () => {
    await using agent = await fakeAgent({
      'POST /api/conversations': { status: 201, body: conversationInfo() },
      [`POST ${conversationPath}/events`]: { body: { success: true } },
      [`GET ${conversationPath}`]: { body: conversationInfo() },
    });
    await client.createConversation(agent.endpoint, {
      ...wanted,
      message: { ...message, run: false },
    });
    expect(agent.requests[0]?.body).not.toHaveProperty('initial_message');
    expect(agent.requests[1]?.body).toMatchObject({ run: false });
  });
});

describe('conversation', () => {
  it('sums the metrics of all models', async () => {
    const usage = (cost: number, tokens: number) => ({
      accumulated_cost: cost,
      accumulated_token_usage: { prompt_tokens: tokens, completion_tokens: 1 },
    });
    await using agent = await fakeAgent({
      [`GET ${conversationPath}`]: {
        body: conversationInfo({
          stats: { usage_to_metrics: { default: usage(0.5, 10), condenser: usage(0.25, 5) } },
        }),
      },
    });
    expect((await client.conversation(agent.endpoint, conversationId))?.metrics).toEqual({
      accumulatedCost: 0.75,
      promptTokens: 15,
      completionTokens: 2,
    });
  });

  it.each([
    ['running', 'running'],
    ['waiting_for_confirmation', 'waiting_for_confirmation'],
    ['deleting', undefined],
    ['dreaming', undefined],
  ])('takes the status %s for %s', async (reported, expected) => {
    await using agent = await fakeAgent({
      [`GET ${conversationPath}`]: { body: conversationInfo({ execution_status: reported }) },
    });
    const conversation = await client.conversation(agent.endpoint, conversationId);
    expect(conversation).toMatchObject({ reportedStatus: reported });
    expect(conversation?.executionStatus).toBe(expected);
  });

  it('is undefined when the agent does not know it', async () => {
    await using agent = await fakeAgent({});
    expect(await client.conversation(agent.endpoint, conversationId)).toBeUndefined();
  });

  it('asks for UUIDs only', async () => {
    expect(await codeOf(client.conversation(nowhere, '../../server_info'))).toBe('refused');
  });
});

describe('run and sendMessage', () => {
  it('take "already running" for success', async () => {
    await using agent = await fakeAgent({
      [`POST ${conversationPath}/run`]: {
        status: 409,
        body: { detail: 'Conversation already running.' },
      },
    });
    expect(await codeOf(client.run(agent.endpoint, conversationId))).toBe('no error');
  });

  it('report that a message was stored but not started', async () => {
    await using agent = await fakeAgent({
      [`POST ${conversationPath}/events`]: {
        status: 429,
        body: { detail: 'Message saved, but …' },
      },
    });
    expect(await client.sendMessage(agent.endpoint, conversationId, message)).toEqual({
      started: false,
    });
  });

  it('never send a message twice, not even when the connection breaks', async () => {
    await using agent = await fakeAgent({ [`POST ${conversationPath}/events`]: 'reset' });
    expect(await codeOf(client.sendMessage(agent.endpoint, conversationId, message))).toBe(
      'connection-lost',
    );
    expect(agent.requests).toHaveLength(1);
  });
});

describe('lastError', () => {
  const error = {
    id: 'e',
    timestamp: '2026-01-01T00:00:03.000000',
    code: 'LLMAuthenticationError',
    detail: 'no key',
  };
  const update = (value: string) => ({ key: 'execution_status', value });
  const agentWith = (errors: object[], updates: object[]) =>
    fakeAgent({
      [`GET ${conversationPath}/events/search`]: ({ query }) => ({
        body: {
          items: query['kind'] === 'ConversationErrorEvent' ? errors : updates,
          next_page_id: null,
        },
      }),
    });

  it('is the error of the last run', async () => {
    await using agent = await agentWith([error], [update('error')]);
    expect(await client.lastError(agent.endpoint, conversationId)).toEqual({
      code: 'LLMAuthenticationError',
      detail: 'no key',
    });
    expect(agent.requests[1]?.query).toMatchObject({ timestamp__gte: error.timestamp });
  });

  it('is none when a run has started after it: that one was interrupted by a restart', async () => {
    await using agent = await agentWith(
      [error],
      [update('error'), update('running'), update('error')],
    );
    expect(await client.lastError(agent.endpoint, conversationId)).toBeUndefined();
  });

  it('is none when the run has failed long after it: that was an error of the title, and the run was interrupted by a restart', async () => {
    await using agent = await agentWith(
      [error],
      [{ ...update('error'), timestamp: '2026-01-01T00:00:09.000000' }],
    );
    expect(await client.lastError(agent.endpoint, conversationId)).toBeUndefined();
  });

  it('is the error also where the agent says that the run has failed a moment later', async () => {
    await using agent = await agentWith(
      [error],
      [{ ...update('error'), timestamp: '2026-01-01T00:00:03.500000' }],
    );
    expect(await client.lastError(agent.endpoint, conversationId)).toMatchObject({
      code: 'LLMAuthenticationError',
    });
  });

  it('is none without an error event', async () => {
    await using agent = await agentWith([], []);
    expect(await client.lastError(agent.endpoint, conversationId)).toBeUndefined();
  });
});

describe('runningConversations', () => {
  it('follows pages, and does not believe the filter', async () => {
    const item = (id: string, status: string) => ({ id, execution_status: status });
    await using agent = await fakeAgent({
      'GET /api/conversations/search': ({ query }) =>
        query['page_id'] === undefined
          ? {
              body: {
                items: [
                  item(dashedId, 'running'),
                  item('22222222-2222-4222-8222-222222222222', 'idle'),
                ],
                next_page_id: 'p2',
              },
            }
          : {
              body: {
                items: [item('33333333-3333-4333-8333-333333333333', 'running')],
                next_page_id: null,
              },
            },
    });
    expect(await client.runningConversations(agent.endpoint)).toEqual([
      conversationId,
      '33333333333343338333333333333333',
    ]);
  });
});

describe('every call', () => {
  const answers = [
    ['401', { status: 401, body: { detail: 'Unauthorized' } }, 'unauthorized'],
    ['404', { status: 404, body: { detail: 'Not Found' } }, 'not-found'],
    [
      '422',
      {
        status: 422,
        body: { detail: [{ loc: ['body', 'x'], msg: 'Field required', input: 'secret' }] },
      },
      'refused',
    ],
    ['429', { status: 429, body: { detail: 'full' } }, 'busy'],
    [
      '500',
      { status: 500, body: { detail: 'Internal Server Error', exception: 'disk full' } },
      'failed',
    ],
    [
      '503 of a dormant agent',
      {
        status: 503,
        body: { detail: 'x', exception: "503: server is in deferred-init state 'dormant'" },
      },
      'dormant',
    ],
    ['a redirect', { status: 307, headers: { location: 'http://127.0.0.1:9/' } }, 'refused'],
    ['no JSON', { text: '<html>' }, 'malformed'],
    ['other JSON', { body: { success: 'maybe' } }, 'malformed'],
    ['an endless body', { text: ' '.repeat(1024 * 1024 + 1) }, 'malformed'],
    ['a broken connection', 'reset', 'connection-lost'],
  ] as const;

  it.each(answers)('turns %s into an error with a code', async (_name, script, expected) => {
    await using agent = await fakeAgent({ [`POST ${conversationPath}/interrupt`]: script });
    expect(await codeOf(client.interrupt(agent.endpoint, conversationId))).toBe(expected);
  });

  it('turns no answer into an error with a code', async () => {
    await using agent = await fakeAgent({ [`POST ${conversationPath}/interrupt`]: 'hang' });
    expect(await codeOf(hasty.interrupt(agent.endpoint, conversationId))).toBe('timeout');
  });

  it('says what was refused, and repeats no input', async () => {
    await using agent = await fakeAgent({ [`POST ${conversationPath}/interrupt`]: answers[2][1] });
    await expect(client.interrupt(agent.endpoint, conversationId)).rejects.toThrow(
      /^The agent answered 422: body\.x: Field required$/,
    );
  });

  it('is unreachable when nothing listens, and then nothing was sent', async () => {
    const failure = await client
      .interrupt(nowhere, conversationId)
      .catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'unreachable', outcomeUnknown: false });
  });

  it('ends with its signal', async () => {
    await using agent = await fakeAgent({ [`POST ${conversationPath}/interrupt`]: 'hang' });
    expect(
      await codeOf(
        client.interrupt(agent.endpoint, conversationId, { signal: AbortSignal.timeout(20) }),
      ),
    ).toBe('aborted');
  });

  it('is tried again when a read loses its connection', async () => {
    await using agent = await fakeAgent({
      [`GET ${conversationPath}`]: ['reset', { body: conversationInfo() }],
    });
    expect(await client.conversation(agent.endpoint, conversationId)).toMatchObject({
      reportedStatus: 'idle',
    });
  });
});
