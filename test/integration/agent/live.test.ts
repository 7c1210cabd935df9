import { newUuid } from '@conversation-operator/base/uuid';
import type { AgentEndpoint } from '../../../src/agent/agent.ts';
import { liveSchema } from '../../../src/agent/events.ts';
import { AgentVolume, call, eventsOf, eventually, script } from './agent-process.ts';

const command = 'echo first; while [ ! -e go ]; do sleep 0.05; done; echo second; sleep 600';

async function liveOf(endpoint: AgentEndpoint, id: string, after = '') {
  const { body } = await call(endpoint, `GET /api/conversations/${id}/live?after=${after}`);
  return liveSchema.parse(body);
}

/** A conversation whose command has printed its first line. */
async function running(volume: AgentVolume) {
  const agent = await volume.startReady();
  const id = newUuid(Date.now());
  const { client, workingDir } = volume;
  const message = script(command);
  await client.createConversation(agent.endpoint, { id, workingDir, message });
  const first = await eventually(async () => {
    const live = await liveOf(agent.endpoint, id);
    return live.items[0]?.text === 'first\n' ? live : undefined;
  });
  return { agent, id, first };
}

describe('the live activity of a reference agent', () => {
  it('has the output of a command, for each reader from its cursor on', async () => {
    await using volume = await AgentVolume.create();
    const { agent, id, first } = await running(volume);
    const { endpoint } = agent;
    const events = await eventsOf(endpoint, id);
    expect(first.items[0]?.tool_call_id).toBe(
      events.find(({ kind }) => kind === 'ActionEvent')?.['tool_call_id'],
    );
    expect(first.last_event_id).toBe(events.at(-1)?.id);
    expect(first.run_ms).toBeGreaterThanOrEqual(first.items[0]?.elapsed_ms ?? Infinity);
    await volume.client.execute(endpoint, {
      command: 'touch go',
      cwd: volume.workingDir,
      timeoutSeconds: 5,
    });
    const cursor = first.cursor ?? '';
    const later = await eventually(async () => {
      const live = await liveOf(endpoint, id, cursor);
      return live.items[0]?.text === 'second\n' ? live : undefined;
    });
    expect(later.items[0]).toMatchObject({ id: first.items[0]?.id, from: 6 });
    expect((await liveOf(endpoint, id)).items[0]).toMatchObject({ text: 'first\nsecond\n' });
  });

  it('ends with an interrupt of the run', async () => {
    await using volume = await AgentVolume.create();
    const { agent, id } = await running(volume);
    await volume.client.interrupt(agent.endpoint, id);
    await volume.until(agent.endpoint, id, 'paused', 'idle');
    expect(await liveOf(agent.endpoint, id)).toMatchObject({ items: [], cursor: '', run_ms: null });
  });

  it('ends with the process, and an old cursor is no problem for the next one', async () => {
    await using volume = await AgentVolume.create();
    const { agent, id, first } = await running(volume);
    await agent.stop('SIGKILL');
    const { endpoint } = await volume.startReady();
    const after = first.cursor ?? '';
    expect(await liveOf(endpoint, id, after)).toMatchObject({ items: [], run_ms: null });
  });
});
