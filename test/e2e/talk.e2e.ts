import { z } from 'zod';
import { eventually } from '../support/eventually.ts';
import { publicUrl, TestedInstallation } from './support/installation.ts';

const up = new TestedInstallation('talk');
const readyMs = 60_000;

const saying = (text: string) => ({ role: 'user', content: [{ type: 'text', text }], run: true });
const eventSchema = z.looseObject({ kind: z.string() });
type AgentEvent = z.output<typeof eventSchema>;

/** A socket's events until one matches; the key goes in the first frame, as browsers send it. */
function follow(
  url: string,
  key: string,
  until: (event: AgentEvent) => boolean,
): Promise<readonly AgentEvent[]> {
  return new Promise((resolve, reject) => {
    const events: AgentEvent[] = [];
    const socket = new WebSocket(url);
    const timer = setTimeout(() => socket.close(), readyMs);
    socket.onopen = () => socket.send(JSON.stringify({ type: 'auth', session_api_key: key }));
    socket.onmessage = ({ data }) => {
      const event = eventSchema.parse(JSON.parse(String(data)));
      events.push(event);
      if (!until(event)) return;
      clearTimeout(timer);
      socket.close();
      resolve(events);
    };
    socket.onclose = ({ code }) => {
      clearTimeout(timer);
      reject(new Error(`closed (${code}) after ${JSON.stringify(events)}`));
    };
  });
}

describe('talking to an agent on a cluster', () => {
  let id: string;
  let sandbox: string;

  beforeAll(async () => {
    const task = await up.over((await up.start('```sh\necho first >>said.txt\n```')).id, readyMs);
    id = task.app_conversation_id ?? '';
    sandbox = task.sandbox_id ?? '';
    await up.reaches(id, { execution_status: 'finished' }, readyMs);
  });
  afterAll(() => up.call('DELETE', `/api/v1/app-conversations/${id}`));

  const send = (text: string) =>
    up.call('POST', `/api/v1/app-conversations/${id}/send-message`, saying(text));
  const said = () => up.inSandbox(sandbox, 'cat /workspace/project/said.txt');

  it('a message goes to the agent, and what it does is read', async () => {
    expect((await send('```sh\necho second >>said.txt\n```')).status).toBe(200);
    await eventually('it to be done', async () => (await said()) === 'first\nsecond', readyMs);
    const { body } = await up.call('GET', `/api/v1/conversation/${id}/events/search?limit=100`);
    const { items } = z.object({ items: z.array(eventSchema) }).parse(body);
    expect(
      items.filter(({ kind, ['source']: source }) => kind === 'MessageEvent' && source === 'user'),
    ).toHaveLength(2);
  });

  it('messages to a paused sandbox resume it, and are delivered in order, each once', async () => {
    await up.call('POST', `/api/v1/sandboxes/${sandbox}/pause`);
    await up.reaches(id, { sandbox_status: 'PAUSED' }, readyMs);
    const answers = [];
    for (const word of ['third', 'fourth', 'fifth'])
      answers.push(await send(`\`\`\`sh\necho ${word} >>said.txt\n\`\`\``));
    // The others may find it awake already.
    expect(answers[0]).toMatchObject({ status: 202, body: { success: true, queued: true } });
    expect(answers.map(({ body }) => body)).toEqual(
      answers.map(() => expect.objectContaining({ success: true }) as unknown),
    );
    await up.reaches(id, { sandbox_status: 'RUNNING' }, readyMs);
    await eventually('all to be done', async () => (await said()).endsWith('fifth'), readyMs);
    expect(await said()).toBe('first\nsecond\nthird\nfourth\nfifth');
    await up.reaches(id, { execution_status: 'finished' }, readyMs);
    expect(await up.k(`get conversation ${id} -o jsonpath={.status.messages.lastDelivered}`)).toBe(
      '4',
    );
  });

  it('the agent is reached through the gateway with the key of its conversation, over HTTP and WebSocket', async () => {
    const { conversation_url: url, session_api_key: key } = await up.conversation(id);
    expect(url).toBe(`${publicUrl}/sandboxes/${sandbox}/AGENT_SERVER/api/conversations/${id}`);
    const agent = `${up.url}/sandboxes/${sandbox}/AGENT_SERVER`;
    const ask = async (sessionKey: string) =>
      (
        await fetch(`${agent}/api/conversations/${id}`, {
          headers: { 'X-Session-API-Key': sessionKey },
        })
      ).status;
    expect([await ask(key ?? ''), await ask('wrong'), await ask(up.key)]).toEqual([200, 401, 401]);

    const socket = `${agent.replace('http', 'ws')}/sockets/events/${id}?resend_mode=all`;
    const events = await follow(socket, key ?? '', (event) =>
      JSON.stringify(event).includes('echo fifth'),
    );
    expect(events.filter(({ kind }) => kind === 'MessageEvent').length).toBeGreaterThanOrEqual(5);
    await expect(follow(socket, 'wrong', () => true)).rejects.toThrow(/closed/);
  });
});
