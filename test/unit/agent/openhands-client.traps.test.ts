import { AgentError } from '../../../src/agent/errors.ts';
import type { KeepAlive } from '@conversation-operator/http/client/bounded-client';
import { defaultKeepAlive } from '../../../src/agent/http.ts';
import { OpenHandsClient } from '../../../src/agent/openhands-client.ts';
import {
  conversationId,
  conversationInfo,
  conversationPath,
  fakeAgent,
  type FakeAgent,
  type FakeAnswer,
} from './fake-agent.ts';

/**
 * Traps of openhands-agent-server 1.58 for a client. Other files test these traps:
 *
 * - `openhands-client.test.ts`: a failing command is HTTP 200; nothing says that a command has
 *   timed out; create answers 500 and leaves a conversation without its message; 200 of create
 *   ignores the body; two creates run at once; the snapshot lags behind the events; the error of a
 *   restart is like a real one, without its event; a restarted container is dormant.
 * - `controllers/conversation/execution/decide.test.ts` and `messages/decide.test.ts`: the snapshot
 *   lags behind a run and behind a message.
 * - `controllers/conversation/messages/delivery.test.ts`: a message that timed out is stored all
 *   the same.
 * - `controllers/decide-sandbox.test.ts`: a restarted container is dormant.
 */

const client = new OpenHandsClient();
/** A client that gives up soon, except where it has to wait. */
const hasty = new OpenHandsClient({ timeoutMs: 2_000, slowTimeoutMs: 60_000 });
afterAll(() => Promise.all([client.close(), hasty.close()]));

const outcomeOf = async (call: Promise<unknown>): Promise<unknown> => {
  try {
    return await call;
  } catch (error) {
    if (error instanceof AgentError) return error.code;
    throw error;
  }
};
const message = { content: [{ type: 'text', text: 'do it' }] } as const;
const llm = { model: 'openai/m', apiKey: 'sk-secret-0123456789' };
const wanted = { id: conversationId, workingDir: '/workspace', message, llm };
const ok: FakeAnswer = { body: { success: true } };

describe('what takes as long as a tool call', () => {
  const late: FakeAnswer = { ...ok, afterMs: 2_500 };
  it.each<
    [
      string,
      string,
      (baseUrl: { baseUrl: string; sessionKey: string }) => Promise<unknown>,
      unknown,
    ]
  >([
    [
      'a message',
      `POST ${conversationPath}/events`,
      (to) => hasty.sendMessage(to, conversationId, message),
      { started: true },
    ],
    [
      'not a run: that has to be quick',
      `POST ${conversationPath}/run`,
      (to) => hasty.run(to, conversationId),
      'timeout',
    ],
    [
      'not an interrupt',
      `POST ${conversationPath}/interrupt`,
      (to) => hasty.interrupt(to, conversationId),
      'timeout',
    ],
  ])('is waited for: %s', async (_name, route, call, expected) => {
    await using agent = await fakeAgent({ [route]: late });
    expect(await outcomeOf(call(agent.endpoint))).toEqual(expected);
    expect(agent.requests).toHaveLength(1);
  });
});

describe('idle connections', () => {
  interface Idling {
    readonly keepAlive: KeepAlive;
    readonly pausesMs: readonly number[];
    /** The health report of the agent. */
    readonly promise?: string;
    readonly idleCloseMs?: number;
  }
  const calls = {
    read: (client: OpenHandsClient, { endpoint }: FakeAgent) =>
      client.conversation(endpoint, conversationId),
    write: (client: OpenHandsClient, { endpoint }: FakeAgent) =>
      client.run(endpoint, conversationId),
  };

  /** One call after each pause: which of them, after the first, reused the last connection. */
  const reuse = async (
    call: keyof typeof calls,
    { keepAlive, pausesMs, promise = '', idleCloseMs }: Idling,
  ) => {
    const idling = new OpenHandsClient({ keepAlive });
    const headers = { 'keep-alive': promise };
    await using agent = await fakeAgent(
      {
        [`POST ${conversationPath}/run`]: { ...ok, headers },
        [`GET ${conversationPath}`]: { body: conversationInfo(), headers },
      },
      idleCloseMs === undefined ? {} : { idleCloseMs },
    );
    const outcomes: unknown[] = [];
    for (const pauseMs of pausesMs) {
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
      outcomes.push(await outcomeOf(calls[call](idling, agent)));
    }
    await idling.close();
    expect(outcomes.filter((outcome) => typeof outcome === 'string')).toEqual([]);
    const connections = agent.requests.map(({ connection }) => connection);
    return connections.slice(1).map((connection, index) => connection === connections[index]);
  };

  it('are kept for less than the agent keeps them; those of reads over the time between two polls', () => {
    expect(defaultKeepAlive.writesMs).toBeLessThan(5000 - 1000);
    expect(defaultKeepAlive.readsMs).toBeLessThan(5000);
    expect(defaultKeepAlive.readsMs).toBeGreaterThan(4000);
  });

  it.each([
    ['', ''],
    [', also where the agent promises otherwise', 'timeout=600'],
  ])('are not used once the agent may be closing them%s', async (_, promise) => {
    // Times of connections, ten times as fast as the real ones.
    const keepAlive = {
      readsMs: defaultKeepAlive.readsMs / 10,
      writesMs: defaultKeepAlive.writesMs / 10,
    };
    const idling = { keepAlive, promise, pausesMs: [0, 490, 500, 510, 600], idleCloseMs: 500 };
    expect(await reuse('write', idling)).toEqual([false, false, false, false]);
    expect(await reuse('read', idling)).toEqual([false, false, false, false]);
  });

  it('are used until then', async () => {
    const idling = { keepAlive: { readsMs: 60_000, writesMs: 60_000 }, pausesMs: [0, 0, 100] };
    expect(await reuse('write', idling)).toEqual([true, true]);
    expect(await reuse('read', idling)).toEqual([true, true]);
  });

  it('are given up by writes sooner than by reads, which are repeated', async () => {
    const idling = { keepAlive: { readsMs: 60_000, writesMs: 50 }, pausesMs: [0, 200, 200] };
    expect(await reuse('write', idling)).toEqual([false, false]);
    expect(await reuse('read', idling)).toEqual([true, true]);
  });

  it('are not kept where the agent says that it closes them sooner than that', async () => {
    expect(
      await reuse('write', {
        keepAlive: defaultKeepAlive,
        pausesMs: [0, 0, 0],
        promise: 'timeout=1',
      }),
    ).toEqual([false, false]);
  });
});

describe('an agent with too many runs', () => {
  const full: FakeAnswer = {
    status: 429,
    body: { detail: 'Conversation run limit reached. Retry the request later.' },
  };

  it('has created nothing, and is asked again', async () => {
    await using agent = await fakeAgent({
      'POST /api/conversations': [full, { status: 201, body: conversationInfo() }],
    });
    expect(await outcomeOf(client.createConversation(agent.endpoint, wanted))).toBe('busy');
    expect(await client.createConversation(agent.endpoint, wanted)).toMatchObject({
      created: true,
    });
  });

  it('starts nothing', async () => {
    await using agent = await fakeAgent({ [`POST ${conversationPath}/run`]: full });
    expect(await outcomeOf(client.run(agent.endpoint, conversationId))).toBe('busy');
  });

  it('has stored the message that came with create by a call of its own', async () => {
    await using agent = await fakeAgent({
      'POST /api/conversations': { status: 200, body: conversationInfo() },
      [`GET ${conversationPath}/events/search`]: { body: { items: [], next_page_id: null } },
      [`POST ${conversationPath}/events`]: {
        status: 429,
        body: { detail: 'Message saved, but …' },
      },
      [`GET ${conversationPath}`]: { body: conversationInfo({ last_user_message_id: 'm' }) },
    });
    expect(await client.createConversation(agent.endpoint, wanted)).toMatchObject({
      status: { lastUserMessageId: 'm' },
    });
    expect(
      agent.requests.filter(({ route }) => route === `POST ${conversationPath}/events`),
    ).toHaveLength(1);
  });
});

describe('a conversation that another container has leased', () => {
  // The list shows the conversation, with the status of before; create answers that it exists;
  // every other call knows nothing of it.
  const routes = {
    'POST /api/conversations': {
      status: 200,
      body: conversationInfo({ execution_status: 'running', last_user_message_id: 'm' }),
    },
    [`GET ${conversationPath}`]: {
      body: conversationInfo({ execution_status: 'running', last_user_message_id: 'm' }),
    },
  };
  it.each<[string, (to: { baseUrl: string; sessionKey: string }) => Promise<unknown>, unknown]>([
    [
      'is known',
      (to) => client.conversation(to, conversationId),
      expect.objectContaining({ executionStatus: 'running' }),
    ],
    [
      'is not created again',
      (to) => client.createConversation(to, wanted),
      expect.objectContaining({ created: false }),
    ],
    ['can not be run', (to) => client.run(to, conversationId), 'not-found'],
    ['can not be interrupted', (to) => client.interrupt(to, conversationId), 'not-found'],
    [
      'takes no message, and surely has not got it',
      (to) => client.sendMessage(to, conversationId, message),
      'not-found',
    ],
    ['has no events', (to) => client.userMessages(to, conversationId, 1), 'not-found'],
    ['has no error', (to) => client.lastError(to, conversationId), 'not-found'],
  ])('%s', async (_name, call, expected) => {
    await using agent = await fakeAgent(routes);
    expect(await outcomeOf(call(agent.endpoint))).toEqual(expected);
  });
});

describe('pages', () => {
  const event = (id: string) => ({
    id,
    timestamp: '2026-01-01T00:00:01',
    llm_message: { content: [{ type: 'text', text: id }] },
  });
  const path = `GET ${conversationPath}/events/search`;

  it('begin anew, silently, where a page id is not known any more: each message counts once', async () => {
    await using agent = await fakeAgent({
      [path]: [
        { body: { items: [event('a'), event('b')], next_page_id: 'c' } },
        { body: { items: [event('a'), event('b')], next_page_id: 'c' } },
      ],
    });
    const messages = await client.userMessagesAfter(agent.endpoint, conversationId, undefined);
    expect(messages.map(({ id }) => id)).toEqual(['a', 'b']);
    expect(agent.requests).toHaveLength(2);
  });

  it('end after twenty', async () => {
    let page = 0;
    await using agent = await fakeAgent({
      [path]: () => ({ body: { items: [], next_page_id: String(page++) } }),
    });
    expect(await client.userMessagesAfter(agent.endpoint, conversationId, undefined)).toEqual([]);
    expect(agent.requests).toHaveLength(20);
  });

  it('have one deadline for all of them', async () => {
    let page = 0;
    await using agent = await fakeAgent({
      [path]: () => ({ body: { items: [], next_page_id: String(page++) }, afterMs: 400 }),
    });
    expect(
      await outcomeOf(hasty.userMessagesAfter(agent.endpoint, conversationId, undefined)),
    ).toBe('timeout');
    expect(agent.requests.length).toBeLessThan(10);
  });
});

describe('run', () => {
  it.each<[string, FakeAnswer, unknown]>([
    [
      'is done already where it runs',
      { status: 409, body: { detail: 'Conversation already running.' } },
      undefined,
    ],
    ['does nothing where all is finished, and says so no more than elsewhere', ok, undefined],
    [
      'reports that the conversation is unknown',
      { status: 404, body: { detail: 'Not Found' } },
      'not-found',
    ],
  ])('%s', async (_name, answer, expected) => {
    await using agent = await fakeAgent({ [`POST ${conversationPath}/run`]: answer });
    expect(await outcomeOf(client.run(agent.endpoint, conversationId))).toBe(expected);
  });
});

describe('a title', () => {
  it.each([null, '', '  ', undefined, 7])('is none as long as it is %p', async (title) => {
    await using agent = await fakeAgent({
      [`GET ${conversationPath}`]: { body: conversationInfo({ title }) },
    });
    expect(await client.conversation(agent.endpoint, conversationId)).toMatchObject({
      reportedStatus: 'idle',
    });
    expect((await client.conversation(agent.endpoint, conversationId))?.title).toBeUndefined();
  });
});

describe('what it says of a request', () => {
  const input = { conversation_id: 'x', agent_settings: { llm: { api_key: llm.apiKey } } };
  const pydantic = `Value error, 1 validation error for OpenHandsAgentSettings\nllm\n  Value error, model must be specified [type=value_error, input_value={'api_key': '${llm.apiKey}'}, input_type=dict]\n    For further information visit https://errors.pydantic.dev`;
  it.each<[string, FakeAnswer]>([
    [
      'in the input that it repeats',
      { status: 422, body: { detail: [{ loc: ['body'], msg: 'no', input }] } },
    ],
    ["in pydantic's words", { status: 422, body: { detail: [{ loc: ['body'], msg: pydantic }] } }],
    [
      'in a message of pydantic, truncated',
      { status: 422, body: { detail: [{ loc: ['body'], msg: pydantic.slice(0, 160) }] } },
    ],
    [
      'in the words of an exception',
      { status: 500, body: { detail: 'Internal Server Error', exception: pydantic } },
    ],
    [
      'in a message of the agent',
      { status: 400, body: { detail: `The key ${llm.apiKey} is wrong` } },
    ],
  ])('holds no key: %s', async (_name, answer) => {
    await using agent = await fakeAgent({ 'POST /api/conversations': answer });
    const failure: unknown = await client
      .createConversation(agent.endpoint, wanted)
      .catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(AgentError);
    expect(String(failure)).not.toContain(llm.apiKey.slice(0, 9));
  });

  it('still says what is wrong', async () => {
    await using agent = await fakeAgent({
      'POST /api/conversations': {
        status: 422,
        body: { detail: [{ loc: ['body'], msg: pydantic }] },
      },
    });
    await expect(client.createConversation(agent.endpoint, wanted)).rejects.toThrow(
      /model must be specified/,
    );
  });
});
