import { once } from 'node:events';
import { WebSocket } from 'ws';
import type { AgentEndpoint } from '../../../src/agent/agent.ts';
import { newUuid } from '@conversation-operator/base/uuid';
import { AgentVolume, eventually, eventsOf, script, type WireEvent } from './agent-process.ts';

function connect(
  { baseUrl }: AgentEndpoint,
  path: string,
  headers: Readonly<Record<string, string>> = {},
) {
  const socket = new WebSocket(`${baseUrl.replace('http', 'ws')}${path}`, { headers });
  const events: WireEvent[] = [];
  socket.on('message', (data: Buffer) => events.push(JSON.parse(data.toString()) as WireEvent));
  socket.on('error', () => undefined);
  const closed = new Promise<number>((resolve) => socket.on('close', resolve));
  return { socket, events, closed };
}

const isStatus = (status: string) => (event: WireEvent) =>
  event['key'] === 'execution_status' && event['value'] === status;
const isFullState = (event: WireEvent) => event['key'] === 'full_state';

describe('the WebSocket of a conversation', () => {
  it.each([
    ['in the first frame', '', {}, true],
    ['in a header', '', { 'x-session-api-key': 'session' }, false],
    ['in the query', '?session_api_key=session', {}, false],
  ])(
    'takes the key %s, sends the state, and takes messages',
    async (_name, query, headers, frame) => {
      await using volume = await AgentVolume.create();
      const { endpoint } = await volume.startReady();
      const id = newUuid(Date.now());
      await volume.client.createConversation(endpoint, { id, workingDir: volume.workingDir });
      const { socket, events, closed } = connect(
        endpoint,
        `/sockets/events/${id}${query}`,
        headers,
      );
      await once(socket, 'open');
      if (frame) socket.send(JSON.stringify({ type: 'auth', session_api_key: 'session' }));
      await eventually(() => events.find(isFullState));
      socket.send(JSON.stringify({ role: 'user', ...script('echo hi') }));
      await eventually(() => events.find(isStatus('finished')));
      await eventually(() => (events.filter(isFullState).length > 1 ? true : undefined));
      const live = events.filter((event) => !isFullState(event));
      expect(live).toEqual((await eventsOf(endpoint, id)).slice(1));
      expect(live.some(({ kind }) => kind === 'ObservationEvent')).toBe(true);
      socket.close();
      await closed;
    },
  );

  it('replays all events, or those since a time', async () => {
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    const id = newUuid(Date.now());
    await volume.client.createConversation(endpoint, {
      id,
      workingDir: volume.workingDir,
      message: script('echo hi'),
    });
    await volume.until(endpoint, id, 'finished');
    const stored = await eventsOf(endpoint, id);
    const since = stored[3]?.timestamp ?? '';
    for (const [query, expected] of [
      ['resend_mode=all', stored],
      [`resend_mode=since&after_timestamp=${since}`, stored.slice(3)],
    ] as const) {
      const { socket, events, closed } = connect(
        endpoint,
        `/sockets/events/${id}?session_api_key=session&${query}`,
      );
      await eventually(() => events.find(isFullState));
      expect(events.slice(0, -1)).toEqual(expected);
      socket.close();
      await closed;
    }
  });

  it('is refused without a key that is right, and for a conversation that is not there', async () => {
    await using volume = await AgentVolume.create();
    const { endpoint } = await volume.startReady();
    const id = newUuid(Date.now());
    await volume.client.createConversation(endpoint, { id, workingDir: volume.workingDir });

    const wrongQuery = connect(endpoint, `/sockets/events/${id}?session_api_key=wrong`);
    const [, response] = (await once(wrongQuery.socket, 'unexpected-response')) as [
      unknown,
      { statusCode: number; resume(): void },
    ];
    expect(response.statusCode).toBe(403);
    response.resume();

    const wrongFrame = connect(endpoint, `/sockets/events/${id}`);
    await once(wrongFrame.socket, 'open');
    wrongFrame.socket.send(JSON.stringify({ type: 'auth', session_api_key: 'wrong' }));
    expect(await wrongFrame.closed).toBe(4001);
    expect(wrongFrame.events).toEqual([]);

    expect(
      await connect(endpoint, `/sockets/events/${newUuid(0)}?session_api_key=session`).closed,
    ).toBe(4004);
  });
});
